//! Kernels that the user forbids or forces: obeyed everywhere a kernel is chosen, said in the record, and every call answered.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::{Negates, fresh, kept_in, numbers};
use trimtab::advanced::core::{Bytes, LaunchError, Nanos, Patience, Problem};
use trimtab::advanced::plan::{Decision, Event, Reason, Standing, TuneRequest};
use trimtab::{Builder, Runtime, Why};

const MATMUL: &str = "matmul:f32:64x64x64";

fn here() -> Builder {
    fresh().device("cpu")
}

fn problem(text: &str) -> Problem {
    text.parse().unwrap()
}

/// Decides by a call, at the defaults.
fn decided(rt: &Runtime, text: &str) -> Arc<Decision> {
    rt.plan(&problem(text)).unwrap();
    rt.explain(&problem(text)).unwrap()
}

fn tuned(rt: &Runtime) -> Arc<Decision> {
    let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(5_000));
    rt.tune(&problem(MATMUL), &request, &mut |_| ()).unwrap()
}

fn kernel(decision: &Decision) -> &str {
    &decision.winner().unwrap().name
}

/// Kernels that are out by what was said.
fn overruled(decision: &Decision) -> Vec<&str> {
    let out = decision.rivals.iter().filter(|rival| matches!(rival.standing, Standing::Overruled(_)));
    let mut names: Vec<&str> = out.map(|rival| &*rival.name).collect();
    names.dedup();
    names
}

fn says(decision: &Decision, words: &str) {
    assert!(decision.notes().iter().any(|note| note.contains(words)), "{:?}", decision.notes());
}

#[test]
fn a_forbidden_kernel_is_not_chosen_and_the_record_says_so() {
    let rt = here().forbid("cpu.matmul.gemm").forbid("cpu.matmul.matrix*").build().unwrap();
    assert_eq!(rt.warnings(), [""; 0]);
    let decision = decided(&rt, MATMUL);
    assert_eq!(overruled(&decision), ["cpu.matmul.gemm", "cpu.matmul.matrixmultiply"]);
    assert!(!overruled(&decision).contains(&kernel(&decision)));
    assert_eq!(decision.overruled, Some(Why::Kernels));
    says(
        &decision,
        "`-cpu.matmul.gemm,-cpu.matmul.matrix*` leaves out cpu.matmul.gemm, cpu.matmul.matrixmultiply",
    );
    let out = decision.rivals.iter().find(|rival| &*rival.name == "cpu.matmul.gemm").unwrap();
    assert!(out.out_because().unwrap().starts_with("overruled: forbidden by"), "{:?}", out.out_because());
    // Other operations do not hear of it.
    let other = decided(&rt, "reduce.sum:f32:1000");
    assert!(overruled(&other).is_empty() && other.overruled.is_none());
}

#[test]
fn a_forced_kernel_runs_where_it_can_and_the_others_where_it_cannot() {
    let rt = here().force("cpu.matmul.matvec").build().unwrap();
    let product = decided(&rt, "matmul:f32:64x1x64");
    assert_eq!(kernel(&product), "cpu.matmul.matvec");
    assert!(
        product.rivals.iter().all(|rival| rival.estimate().is_none() || &*rival.name == "cpu.matmul.matvec")
    );
    let declined = decided(&rt, MATMUL);
    assert_ne!(kernel(&declined), "cpu.matmul.matvec");
    says(
        &declined,
        "`cpu.matmul.matvec` is not followed here: none of the kernels it forces takes this problem",
    );
    assert_eq!(overruled(&declined), [""; 0]);
}

#[test]
fn the_reference_can_be_forbidden_and_answers_where_nobody_else_can() {
    let text = "transpose:f32:30x40:1.0";
    let rt = here().forbid("cpu.transpose.reference").build().unwrap();
    assert_eq!(overruled(&decided(&rt, text)), ["cpu.transpose.reference"]);
    let rt = here().forbid("cpu.transpose.*").build().unwrap();
    let decision = decided(&rt, text);
    assert_eq!(kernel(&decision), "cpu.transpose.reference");
    says(&decision, "nobody else can run, and the reference answers");
    let x = numbers::<f32>(&[30, 40]);
    assert_eq!(rt.transpose(&x).unwrap().get(&[39, 29]), x.get(&[29, 39]));
}

#[test]
fn a_forced_kernel_that_fails_does_not_fail_the_call() {
    let fails = Negates {
        name: "user.fails",
        bytes: |_| Bytes(1),
        first: || Err(LaunchError::Kernel("not today".to_string())),
    };
    let rt = here().kernel(fails).force("user.fails").forbid("cpu.elementwise.chunked").build().unwrap();
    let x = numbers::<f32>(&[1000]);
    assert_eq!(rt.neg(&x).unwrap().get(&[3]), x.get(&[3]).map(|x| -x));
    let decision = rt.explain(&problem("elementwise.neg:f32:1000")).unwrap();
    says(&decision, "those it leaves could not run, and others answer");
    assert_ne!(kernel(&decision), "cpu.elementwise.chunked");
}

#[test]
fn live_calls_do_not_try_a_forbidden_kernel() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let first = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    // It promises the shortest time of all: every policy would begin with it.
    let tempting = Negates { name: "user.tempting", bytes: |_| Bytes(1), first };
    let builder = here().kernel(tempting).forbid("user.*").budget(Nanos(1));
    let rt = builder.build().unwrap();
    let x = numbers::<f32>(&[1000]);
    for call in 0..2_000 {
        rt.neg(&x).unwrap();
        if call % 8 == 0 {
            rt.planner().drain();
        }
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_name_no_kernel_has_is_a_warning_with_the_names_that_are_near() {
    let rt = here().forbid("cpu.matmul.gem").force("cpu.reduce.vectr").build().unwrap();
    let [gem, vectr] = rt.warnings() else { unreachable!("{:?}", rt.warnings()) };
    assert!(gem.contains("`cpu.matmul.gem`; near names: cpu.matmul.gemm,"), "{gem}");
    assert!(vectr.contains("`cpu.reduce.vectr`; near names: cpu.reduce.vector,"), "{vectr}");
    assert!(overruled(&decided(&rt, MATMUL)).is_empty());
}

#[test]
fn a_race_with_some_left_out_does_not_replace_what_is_remembered_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let open = || kept_in(dir.path()).device("cpu");
    let all = tuned(&open().build().unwrap());
    let best = kernel(&all).to_string();
    let without = || open().forbid(&best).build().unwrap();
    let second = tuned(&without());
    assert!(second.runs > 0 && kernel(&second) != best);
    let again = tuned(&open().build().unwrap());
    assert_eq!((kernel(&again), again.reason, again.runs), (best.as_str(), Reason::Remembered, 0));
    // What won without it is remembered too, apart.
    let again = tuned(&without());
    assert_eq!((kernel(&again), again.reason, again.runs), (kernel(&second), Reason::Remembered, 0));
}

#[test]
fn what_won_among_all_is_recalled_where_others_are_forbidden() {
    let dir = tempfile::tempdir().unwrap();
    let open = || kept_in(dir.path()).device("cpu");
    let best = kernel(&tuned(&open().build().unwrap())).to_string();
    let rt = open().forbid("cpu.matmul.reference").patience(Patience::Off).build().unwrap();
    let decision = decided(&rt, MATMUL);
    assert_eq!((kernel(&decision), decision.reason), (best.as_str(), Reason::Remembered));
}

/// What an expression launches, and what is said about it.
fn launched(rt: &Runtime) -> (Vec<String>, Vec<String>) {
    let x = numbers::<f32>(&[40, 30]);
    let chain = ((rt.lazy(&x) + 1.0) * 2.0).exp();
    let explained = chain.explain().unwrap();
    let computed = chain.eval().unwrap();
    let expected = x.get(&[3, 4]).map(|x| ((x + 1.0) * 2.0).exp());
    let close = computed.get(&[3, 4]).zip(expected).is_some_and(|(a, b)| (a - b).abs() <= 1e-4 * b.abs());
    assert!(close, "{:?} {expected:?}", computed.get(&[3, 4]));
    (explained.launches.iter().map(|launch| launch.what.clone()).collect(), explained.notes.clone())
}

#[test]
fn a_forced_kernel_of_an_operation_keeps_it_from_running_as_one_with_others() {
    let rt = here().force("cpu.elementwise.vector").build().unwrap();
    let (launches, notes) = launched(&rt);
    assert_eq!(launches.len(), 3, "{launches:?}");
    for launch in &launches {
        assert!(launch.starts_with("elementwise."), "{launch}");
        assert_eq!(kernel(&rt.explain(&problem(launch)).unwrap()), "cpu.elementwise.vector", "{launch}");
    }
    let says = "cpu.elementwise.vector is forced: its operation does not run as one with others";
    assert!(notes.iter().any(|note| note == says), "{notes:?}");
    // Of a product only the product: what follows it may run as one.
    let rt = here().force("cpu.matmul.gemm").build().unwrap();
    let x = numbers::<f32>(&[64, 64]);
    let explained = ((rt.lazy(&x).matmul(&x) + 1.0) * 2.0).explain().unwrap();
    let first = &explained.launches[0];
    assert_eq!(first.what, MATMUL, "{explained}");
    assert_eq!(kernel(&rt.explain(&problem(MATMUL)).unwrap()), "cpu.matmul.gemm");
}

#[test]
fn a_kernel_that_runs_operations_as_one_can_be_forced_and_forbidden() {
    let rt = here().force("cpu.fused.tiles").build().unwrap();
    let (launches, notes) = launched(&rt);
    assert_eq!(launches.len(), 1, "{launches:?}");
    assert_eq!(kernel(&rt.explain(&problem(&launches[0])).unwrap()), "cpu.fused.tiles");
    let says = "cpu.fused.tiles is forced: operations it can run as one do not run apart";
    assert!(notes.iter().any(|note| note == says), "{notes:?}");
    let (launches, _) = launched(&here().forbid("cpu.fused.*").build().unwrap());
    assert!(
        launches.len() == 3 && !launches.iter().any(|launch| launch.starts_with("fused")),
        "{launches:?}"
    );
}

#[cfg(feature = "wgpu")]
mod gpu {
    use super::*;
    use trimtab::Offload;

    fn both() -> Builder {
        fresh().no_blas().patience(Patience::Estimate)
    }

    fn on(decision: &Decision) -> &str {
        &decision.winner().unwrap().device_id
    }

    #[test]
    fn a_kernel_of_a_gpu_by_name_takes_the_problem_there() {
        let rt = both().force("gpu.matmul.tiled").build().unwrap();
        assert_eq!(rt.warnings(), [""; 0]);
        let x = numbers::<f32>(&[16, 16]);
        let eager = rt.matmul(&x, &x).unwrap();
        let decision = rt.explain(&problem("matmul:f32:16x16x16")).unwrap();
        assert_eq!((on(&decision), kernel(&decision)), ("gpu0", "gpu.matmul.tiled"));
        assert_eq!(rt.journal().entries().pop().unwrap().why, Why::Kernels);
        let lazy = rt.lazy(&x).matmul(&x);
        let launch = lazy.explain().unwrap().launches.remove(0);
        assert_eq!((launch.device.as_str(), launch.why), ("gpu0", Why::Kernels), "{launch}");
        assert_eq!(lazy.eval().unwrap().to_vec(), eager.to_vec());
        // Sums are nobody's by name.
        let sum = rt.explain(&problem("reduce.sum:f32:100")).unwrap();
        assert_eq!((on(&sum), sum.overruled), ("cpu", None));
    }

    #[test]
    fn kernels_of_gpus_that_are_forbidden_leave_it_to_the_processor_whatever_the_threshold() {
        let offload = Offload { all: Some(0), ..Offload::default() };
        let rt = both().offload(offload).forbid("gpu.*").build().unwrap();
        let decision = decided(&rt, MATMUL);
        assert_eq!(on(&decision), "cpu");
        says(&decision, "`-gpu.*` leaves out gpu.matmul.");
        let x = numbers::<f32>(&[64, 64]);
        let lazy = (rt.lazy(&x) * 2.0).matmul(&x);
        let explained = lazy.explain().unwrap();
        assert!(explained.launches.iter().all(|launch| launch.device == "cpu"), "{explained}");
        lazy.eval().unwrap();
    }

    #[test]
    fn where_everything_is_forbidden_the_reference_answers_calls_and_expressions() {
        let rt = both().forbid("*").build().unwrap();
        let x = numbers::<f32>(&[8, 8]);
        let eager = rt.matmul(&x, &x).unwrap();
        assert_eq!(kernel(&rt.explain(&problem("matmul:f32:8x8x8")).unwrap()), "cpu.matmul.reference");
        assert_eq!(rt.lazy(&x).matmul(&x).eval().unwrap().to_vec(), eager.to_vec());
        // A choice has names of its own.
        let double = rt.choose::<u32, u32>("double").option("twice", |x| x + x).option("times", |x| x * 2);
        assert_eq!(double.build().unwrap().run(&[1], 4).unwrap(), 8);
    }

    #[test]
    fn a_pinned_gpu_whose_kernels_are_all_forbidden_still_answers() {
        let rt = both().device("gpu0").forbid("gpu.*").build().unwrap();
        let x = numbers::<f32>(&[8, 8]);
        rt.matmul(&x, &x).unwrap();
        let decision = rt.explain(&problem("matmul:f32:8x8x8")).unwrap();
        assert!(decision.events.iter().any(|event| matches!(event, Event::Unheeded { .. })));
        says(&decision, "nobody else can run, and all stay");
    }
}
