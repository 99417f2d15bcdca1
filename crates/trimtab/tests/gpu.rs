//! GPUs through the runtime: same results, pinned by name or number, chosen only where they win. Needs an adapter, and fails
//! without one; `cargo xtask test` installs Mesa's software Vulkan.
#![cfg(feature = "wgpu")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use support::{fresh, kept_in};
use trimtab::advanced::core::{DeviceKind, Nanos, Patience, Problem};
use trimtab::advanced::operands::f16;
use trimtab::advanced::plan::{Reason, Standing, TuneRequest};
use trimtab::advanced::tune::Rules;
use trimtab::{Axis, Builder, Error, Runtime, Tensor};

fn builder() -> Builder {
    fresh().no_blas()
}

/// The first GPU alone, going by estimates: nothing is raced.
fn gpu() -> Runtime {
    builder().device("gpu0").patience(Patience::Estimate).build().unwrap()
}

fn cpu() -> Runtime {
    builder().device("cpu").patience(Patience::Estimate).build().unwrap()
}

#[test]
fn operations_on_a_gpu_agree_with_the_processor() {
    let (gpu, cpu) = (gpu(), cpu());
    let a = Tensor::from_fn(&[37, 23], |i| (i % 7) as f32 - 3.0).unwrap();
    let b = Tensor::from_fn(&[23, 41], |i| (i % 5) as f32 - 2.0).unwrap();
    let row = Tensor::from_fn(&[23], |i| i as f32 / 8.0).unwrap();
    assert_eq!(gpu.matmul(&a, &b).unwrap().to_vec(), cpu.matmul(&a, &b).unwrap().to_vec());
    let turned = a.transposed();
    assert_eq!(gpu.matmul(&turned, &a).unwrap().to_vec(), cpu.matmul(&turned, &a).unwrap().to_vec());
    assert_eq!(gpu.add(&a, &row).unwrap().to_vec(), cpu.add(&a, &row).unwrap().to_vec());
    assert_eq!(gpu.relu(&a).unwrap().to_vec(), cpu.relu(&a).unwrap().to_vec());
    assert_eq!(gpu.sum(&a, 0).unwrap().to_vec(), cpu.sum(&a, 0).unwrap().to_vec());
    assert_eq!(gpu.max(&a, Axis::All).unwrap().item(), cpu.max(&a, Axis::All).unwrap().item());
    assert_eq!(gpu.transpose(&a).unwrap().to_vec(), cpu.transpose(&a).unwrap().to_vec());
    let counts = Tensor::from_fn(&[101], |i| i as i32 - 50).unwrap();
    assert_eq!(gpu.mul(&counts, 3).unwrap().to_vec(), cpu.mul(&counts, 3).unwrap().to_vec());
    let plan = gpu.plan(&"matmul:f32:37x41x23".parse().unwrap()).unwrap();
    assert_eq!(gpu.devices()[plan.device as usize].facts().kind, DeviceKind::Gpu);
}

#[test]
fn halves_are_computed_where_the_adapter_has_them_and_by_the_reference_elsewhere() {
    let half = |i: usize| f16::from_f32((i % 9) as f32 - 4.0);
    let a = Tensor::from_fn(&[19, 31], half).unwrap();
    let b = Tensor::from_fn(&[31, 17], half).unwrap();
    let expected = cpu().matmul(&a, &b).unwrap();
    let gpu = gpu();
    let has = gpu.devices()[1].facts().adapter.as_ref().unwrap().f16;
    match gpu.matmul(&a, &b) {
        Ok(product) => assert_eq!(product.to_vec(), expected.to_vec()),
        Err(error) => assert!(!has && error.to_string().contains("f16"), "{error}"),
    }
}

#[test]
fn what_a_gpu_cannot_do_is_refused_with_the_reason_and_done_by_the_processor_where_it_may() {
    let x = Tensor::from_fn(&[100], |i| i as f64 / 50.0).unwrap();
    let refused = gpu().exp(&x).unwrap_err().to_string();
    assert!(refused.contains("f64"), "{refused}");
    let both = builder().patience(Patience::Estimate).build().unwrap();
    assert_eq!(both.exp(&x).unwrap().to_vec(), cpu().exp(&x).unwrap().to_vec());
}

#[test]
fn operands_without_an_answer_are_the_same_error_as_on_the_processor() {
    let (a, zeros) = (Tensor::full(&[10], 5i32).unwrap(), Tensor::full(&[10], 0i32).unwrap());
    for runtime in [gpu(), cpu()] {
        let error = runtime.div(&a, &zeros).unwrap_err();
        assert!(matches!(error, Error::Launch(_)), "{error}");
        let huge = Tensor::full(&[3], i32::MAX).unwrap();
        let error = runtime.sum(&huge, Axis::All).unwrap_err();
        assert!(error.to_string().contains("i32"), "{error}");
    }
}

#[test]
fn a_gpu_is_pinned_by_number_by_kind_or_by_name() {
    let name = gpu().devices()[1].facts().name.to_ascii_lowercase();
    for pin in ["gpu0", "gpu", name.as_str()] {
        let runtime = builder().device(pin).build().unwrap();
        assert!(runtime.planned().all(|(_, device)| device.facts().kind == DeviceKind::Gpu), "{pin}");
        assert_eq!(runtime.planned().next().unwrap().1.facts().id, "gpu0", "{pin}");
    }
    let error = builder().device("gpu99").build().unwrap_err().to_string();
    assert!(error.contains("gpu99") && error.contains("cpu (") && error.contains("gpu0 ("), "{error}");
    assert!(builder().device("").build().is_err());
    assert!(cpu().devices().len() == 1 && cpu().unusable().is_empty());
}

#[test]
fn a_small_problem_stays_on_the_processor_and_explain_says_why() {
    let both = builder().build().unwrap();
    assert!(both.devices().len() > 1);
    let problem: Problem = "matmul:f32:16x16x16".parse().unwrap();
    let a = Tensor::full(&[16, 16], 1.0f32).unwrap();
    assert_eq!(both.matmul(&a, &a).unwrap().get(&[3, 3]), Some(16.0));
    let decision = both.explain(&problem).unwrap();
    assert_eq!(&*decision.winner().unwrap().device_id, "cpu");
    let dominated = decision.rivals.iter().find(|rival| &*rival.device_id == "gpu0").unwrap();
    let Standing::Dominated(reason) = &dominated.standing else { unreachable!("{:?}", dominated.standing) };
    assert!(reason.contains("the transfer"), "{reason}");
}

#[test]
fn what_was_tuned_on_a_gpu_is_remembered_and_not_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    let problem: Problem = "elementwise.add:f32:30011".parse().unwrap();
    let open = || kept_in(dir.path()).device("gpu0").build().unwrap();
    let budget = Nanos::from_millis(4_000);
    let request = TuneRequest { rules: Rules::default(), ..TuneRequest::new(Patience::Measure, budget) };
    let first = open().tune(&problem, &request, &mut |_| ()).unwrap();
    assert!(first.runs > 0);
    let again = open();
    let a = Tensor::from_fn(&[30011], |i| i as f32).unwrap();
    assert_eq!(again.add(&a, &a).unwrap().get(&[30010]), Some(60020.0));
    let decision = again.explain(&problem).unwrap();
    assert_eq!((decision.reason, decision.runs), (Reason::Remembered, 0));
    assert_eq!(decision.winner().unwrap().name, first.winner().unwrap().name);
    // Building is remembered apart from running.
    let fingerprint = &again.devices()[1].facts().fingerprint.0;
    let facts = again.wisdom().facts(fingerprint, &problem.to_string());
    assert!(facts.iter().any(|fact| fact.key.condition.name() == "compile"));
    assert!(
        facts.iter().any(|fact| fact.key.condition.name() == "quiet" || fact.key.condition.name() == "busy")
    );
}
