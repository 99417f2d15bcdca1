//! Learning end to end: the first call, user kernels that race ours, what is remembered, what is put out.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{fresh, kept_in};
use trimtab::advanced::core::{
    Basis, Bytes, DType, Decline, Device, DeviceFacts, Elementwise, ElementwiseOp, KernelVersion,
    LaunchError, Nanos, Patience, Problem, UnaryOp, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu, Element};
use trimtab::advanced::operands::f16;
use trimtab::advanced::plan::{Reason, Standing, TuneRequest};
use trimtab::advanced::tune::{Rules, Stopwatch};
use trimtab::{Axis, Builder, Runtime, Tensor};

/// The problem user kernels compete in: on the processor the reference does it, in hundreds of microseconds.
const PROBLEM: &str = "elementwise.gelu:f16:20000";
const LEN: usize = 20_000;

/// Time enough to measure although other tests run beside; what the usual budget does is printed by `bench cold`.
const PATIENT: Nanos = Nanos::from_millis(3_000);

fn builder() -> Builder {
    fresh().budget(PATIENT)
}

fn in_dir(dir: &tempfile::TempDir) -> Builder {
    kept_in(dir.path()).budget(PATIENT)
}

fn problem() -> Problem {
    PROBLEM.parse().unwrap()
}

fn input() -> Tensor<f16> {
    Tensor::from_fn(&[LEN], |index| f16::from_f64((index % 97) as f64 / 16.0 - 3.0)).unwrap()
}

fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

fn check(result: &Tensor<f16>) {
    let expected = input().to_vec().into_iter().map(|x| gelu(x.to_f64()));
    let close = |(a, b): (f16, f64)| (a.to_f64() - b).abs() <= 4e-3;
    assert!(result.to_vec().into_iter().zip(expected).all(close));
}

/// By their bits: not a number is the same as itself.
fn bytes(values: &[f16]) -> &[u8] {
    f16::erase(values).bytes()
}

fn spin(time: Nanos) {
    let watch = Stopwatch::start();
    while watch.elapsed() < time {
        std::hint::spin_loop();
    }
}

trimtab::advanced::core::config! { struct NoSettings {} }

/// How a user's kernel behaves besides computing.
#[derive(Clone, Default)]
struct Behaviour {
    spins: Nanos,
    /// Waits this long, or until the test ends.
    waits: Option<(Duration, Arc<Mutex<Receiver<()>>>)>,
    lies: bool,
    fails: Arc<AtomicBool>,
    starts: Arc<AtomicU32>,
}

/// A user's kernel for one function. It keeps operands and answer of the run before, so that repeated runs on the same operands, as in
/// a race, cost it two copies and what its behaviour adds.
struct Users {
    name: &'static str,
    version: &'static str,
    behaviour: Behaviour,
    last: Mutex<(Vec<f16>, Vec<f16>)>,
}

impl Variant<Cpu> for Users {
    type Problem = Elementwise;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        self.name.into()
    }
    fn version(&self) -> KernelVersion {
        self.version.into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        let mine = problem.op == ElementwiseOp::Unary(UnaryOp::Gelu) && problem.dtype == DType::F16;
        (!mine).then(|| Decline::because("does gelu of f16 only"))
    }
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, problem: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { bytes: Bytes(4 * problem.out_len()), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        let args = args.typed::<f16>([problem.lhs_len(), 0, problem.out_len()])?;
        let behaviour = &self.behaviour;
        behaviour.starts.fetch_add(1, Ordering::Relaxed);
        if behaviour.fails.load(Ordering::Relaxed) {
            return Err(LaunchError::Kernel("worn out".to_string()));
        }
        if let Some((time, wait)) = &behaviour.waits {
            let _ = wait.lock().unwrap().recv_timeout(*time);
        }
        spin(behaviour.spins);
        let mut last = self.last.lock().unwrap();
        if bytes(&last.0) != bytes(args.lhs) {
            *last = (args.lhs.to_vec(), args.lhs.iter().map(|x| f16::from_f64(gelu(x.to_f64()))).collect());
        }
        args.out.copy_from_slice(&last.1);
        if behaviour.lies {
            args.out[LEN.min(args.out.len()) / 3] = f16::from_f64(77.0);
        }
        Ok(())
    }
}

fn users(name: &'static str, behaviour: &Behaviour) -> Users {
    Users { name, version: "1", behaviour: behaviour.clone(), last: Mutex::default() }
}

fn takes(spins: Nanos) -> Behaviour {
    Behaviour { spins, ..Behaviour::default() }
}

fn ten_seconds() -> (Behaviour, Sender<()>) {
    let (sender, wait) = channel();
    let waits = Some((Duration::from_secs(10), Arc::new(Mutex::new(wait))));
    (Behaviour { waits, ..Behaviour::default() }, sender)
}

fn chosen(rt: &Runtime, problem: &Problem) -> String {
    let plan = rt.plan(problem).unwrap();
    rt.cpu().kernels()[plan.kernel.0 as usize].name.clone()
}

fn starts(behaviour: &Behaviour) -> u32 {
    behaviour.starts.load(Ordering::Relaxed)
}

#[test]
fn the_first_call_with_no_set_up_is_right_and_explain_says_what_was_done() {
    // The default budget.
    let rt = fresh().build().unwrap();
    let a = Tensor::from_fn(&[48, 40], |index| (index % 7) as f32 - 3.0).unwrap();
    let b = Tensor::from_fn(&[40, 56], |index| (index % 5) as f32 - 2.0).unwrap();
    let watch = Stopwatch::start();
    let product = rt.matmul(&a, &b).unwrap();
    let first = watch.elapsed();
    for (row, column) in [(0, 0), (17, 33), (47, 55)] {
        let terms = (0..40).map(|k| a.get(&[row, k]).unwrap() * b.get(&[k, column]).unwrap());
        assert_eq!(product.get(&[row, column]), Some(terms.sum()));
    }
    // 50 ms on a quiet machine; this bound only tells a tuning storm from a race.
    assert!(first < Nanos::from_millis(2_000), "{first}");
    let decision = rt.explain(&"matmul:f32:48x56x40".parse().unwrap()).unwrap();
    assert_eq!(decision.reason, Reason::Raced);
    assert!(decision.runs > 0 && decision.spent > Nanos(0));
    assert!(decision.spent < Nanos::from_millis(1_000), "{}", decision.spent);
    let winner = decision.winner().unwrap();
    assert!(matches!(winner.estimate().unwrap().basis, Basis::Measured(_)));
    assert!(decision.rivals.len() > 4);
    for rival in &decision.rivals {
        let out = rival.out_because();
        assert!(rival.estimate().is_some() || out.is_some_and(|why| !why.is_empty()), "{}", rival.name);
    }
    // The next call finds the plan and measures nothing.
    let again = rt.matmul(&a, &b).unwrap();
    assert_eq!(again, product);
    assert_eq!(rt.explain(&decision.problem).unwrap().runs, decision.runs);
}

#[test]
fn a_problem_that_would_take_too_long_to_race_is_answered_from_estimates_and_explain_says_so() {
    let rt = builder().budget(Nanos(1)).build().unwrap();
    let ones = Tensor::full(&[64, 64], 1.0f32).unwrap();
    assert_eq!(rt.matmul(&ones, &ones).unwrap(), Tensor::full(&[64, 64], 64.0).unwrap());
    let decision = rt.explain(&"matmul:f32:64x64x64".parse().unwrap()).unwrap();
    assert_eq!((decision.reason, decision.runs, decision.complete), (Reason::Estimated, 0, false));
    assert!(
        decision.notes().iter().any(|note| note.contains("nothing was measured")),
        "{:?}",
        decision.notes()
    );
}

#[test]
fn of_four_user_kernels_the_fastest_gets_the_calls_and_the_slowest_runs_at_most_once() {
    let (slowest, let_go) = ten_seconds();
    let (slow, quick, fastest) = (takes(Nanos(50_000)), takes(Nanos(20_000)), takes(Nanos(1_000)));
    let rt = builder()
        .kernel(users("user.10s", &slowest))
        .kernel(users("user.50us", &slow))
        .kernel(users("user.20us", &quick))
        .kernel(users("user.1us", &fastest))
        .build()
        .unwrap();
    let x = input();
    let watch = Stopwatch::start();
    for _ in 0..20 {
        check(&rt.gelu(&x).unwrap());
    }
    let learning = watch.elapsed();
    let before = starts(&fastest);
    for _ in 0..200 {
        rt.gelu(&x).unwrap();
    }
    let calls = starts(&fastest) - before;
    assert!(calls >= 190, "{calls} of 200 went to the fastest: {:#?}", rt.explain(&problem()).unwrap());
    assert!(starts(&slowest) <= 1, "{}", starts(&slowest));
    assert!(learning < Nanos::from_millis(5_000), "{learning}");
    let decision = rt.explain(&problem()).unwrap();
    let out = decision.rivals.iter().find(|rival| &*rival.name == "user.10s").unwrap();
    assert!(out.out_because().is_some() || out.estimate().is_some());
    drop(let_go);
}

#[test]
fn a_user_kernel_that_is_fastest_wins_and_is_remembered_without_measuring() {
    let dir = tempfile::tempdir().unwrap();
    let first = Behaviour::default();
    {
        let rt = in_dir(&dir).kernel(users("user.gelu", &first)).build().unwrap();
        check(&rt.gelu(&input()).unwrap());
        assert_eq!(chosen(&rt, &problem()), "user.gelu");
        assert_eq!(rt.explain(&problem()).unwrap().reason, Reason::Raced);
    }
    let second = Behaviour::default();
    let rt = in_dir(&dir).kernel(users("user.gelu", &second)).build().unwrap();
    check(&rt.gelu(&input()).unwrap());
    let decision = rt.explain(&problem()).unwrap();
    assert_eq!((decision.reason, decision.runs), (Reason::Remembered, 0));
    assert_eq!(chosen(&rt, &problem()), "user.gelu");
    // A user may change a kernel and not its version, so it is checked on small stand-ins once in each process.
    assert!((2..=6).contains(&starts(&second)), "it ran for its check and for the call: {}", starts(&second));
    assert_eq!(rt.wisdom().warnings(), []);
}

#[test]
fn a_user_kernel_that_lies_is_quarantined_with_its_reason() {
    let liar = Behaviour { lies: true, ..Behaviour::default() };
    for patience in [Patience::Estimate, Patience::Measure, Patience::Exhaustive] {
        let rt = builder().patience(patience).kernel(users("user.liar", &liar)).build().unwrap();
        for _ in 0..3 {
            check(&rt.gelu(&input()).unwrap());
        }
        assert_ne!(chosen(&rt, &problem()), "user.liar");
        let decision = rt.explain(&problem()).unwrap();
        let rival = decision.rivals.iter().find(|rival| &*rival.name == "user.liar").unwrap();
        if patience > Patience::Estimate {
            assert!(
                matches!(&rival.standing, Standing::Quarantined(why) if why.contains("wrong")),
                "{rival:?}"
            );
        }
    }
}

#[test]
fn a_user_kernel_that_starts_failing_is_replaced_within_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let behaviour = Behaviour::default();
    {
        let rt = in_dir(&dir).kernel(users("user.fragile", &behaviour)).build().unwrap();
        check(&rt.gelu(&input()).unwrap());
        assert_eq!(chosen(&rt, &problem()), "user.fragile", "{:#?}", rt.explain(&problem()));
        behaviour.fails.store(true, Ordering::Relaxed);
        check(&rt.gelu(&input()).unwrap());
        let after = starts(&behaviour);
        assert_ne!(chosen(&rt, &problem()), "user.fragile");
        let decision = rt.explain(&problem()).unwrap();
        assert_eq!(decision.reason, Reason::NextBest);
        let rival = decision.rivals.iter().find(|rival| &*rival.name == "user.fragile").unwrap();
        assert!(rival.out_because().unwrap().contains("worn out"), "{rival:?}");
        for _ in 0..10 {
            check(&rt.gelu(&input()).unwrap());
        }
        assert_eq!(starts(&behaviour), after, "what failed is not tried again");
    }
    // The failure is remembered like a time.
    let rt = in_dir(&dir).kernel(users("user.fragile", &behaviour)).build().unwrap();
    let before = starts(&behaviour);
    check(&rt.gelu(&input()).unwrap());
    assert_eq!(starts(&behaviour), before);
    assert_ne!(chosen(&rt, &problem()), "user.fragile");
}

#[test]
fn the_callers_own_mistakes_quarantine_nobody() {
    let rt = builder().build().unwrap();
    let seven = Tensor::full(&[1000], 7i32).unwrap();
    let mut divisor = Tensor::full(&[1000], 2i32).unwrap();
    assert_eq!(rt.div(&seven, &divisor).unwrap().to_vec(), vec![3; 1000]);
    let problem: Problem = "elementwise.div:i32:1000".parse().unwrap();
    let plan = rt.plan(&problem).unwrap();
    divisor.as_mut_slice()[500] = 0;
    for _ in 0..3 {
        assert!(rt.div(&seven, &divisor).unwrap_err().to_string().contains("zero"));
    }
    message_of_overflow(&rt);
    assert_eq!(rt.plan(&problem).unwrap(), plan);
    let decision = rt.explain(&problem).unwrap();
    let out = decision.rivals.iter().find(|rival| matches!(rival.standing, Standing::Quarantined(_)));
    assert!(out.is_none(), "{out:?}");
    divisor.as_mut_slice()[500] = 7;
    assert_eq!(rt.div(&seven, &divisor).unwrap().get(&[500]), Some(1));
}

fn message_of_overflow(rt: &Runtime) {
    let large = Tensor::full(&[1000], i32::MAX).unwrap();
    assert!(rt.sum(&large, Axis::All).unwrap_err().to_string().contains("does not fit in i32"));
    let decision = rt.explain(&"reduce.sum:i32:1000".parse().unwrap()).unwrap();
    assert!(!decision.rivals.iter().any(|rival| matches!(rival.standing, Standing::Quarantined(_))));
}

#[test]
fn mode_off_measures_nothing_and_chooses_the_same_in_every_process() {
    let choose = || {
        let rt = builder().patience(Patience::Off).build().unwrap();
        let plan = |text: &&str| {
            let problem: Problem = text.parse().unwrap();
            assert_eq!(rt.try_problem(&problem).unwrap().check, Ok(()), "{text}");
            let decision = rt.explain(&problem).unwrap();
            assert_eq!((decision.reason, decision.runs), (Reason::DefaultOrder, 0), "{text}");
            let winner = decision.winner().unwrap();
            format!("{text} {} {}", winner.name, winner.point_name)
        };
        let plans: Vec<String> =
            ["matmul:f32:64x64x64", "reduce.sum:f32:400000", "matmul:f64:3x0x5", PROBLEM]
                .iter()
                .map(plan)
                .collect();
        // Calls of the plans may have been timed by now; nothing else is remembered.
        assert!(rt.wisdom().all_facts().iter().all(|fact| fact.key.condition.name() == "live"));
        plans
    };
    assert_eq!(choose(), choose());
}

#[test]
fn two_kernels_of_one_name_are_refused() {
    let one = Behaviour::default();
    let twice = builder().kernel(users("user.same", &one)).kernel(users("user.same", &one)).build();
    let text = twice.unwrap_err().to_string();
    assert!(text.contains("two kernels are named `user.same`"), "{text}");
    let ours = builder().kernel(users("cpu.elementwise.reference", &one)).build();
    assert!(ours.unwrap_err().to_string().contains("cpu.elementwise.reference"));
    let device = builder().device("gpu7").build().unwrap_err().to_string();
    assert!(device.contains("no device `gpu7`") && device.contains("auto, cpu"), "{device}");
}

#[test]
fn a_new_version_of_a_kernel_forgets_only_that_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let liar = Behaviour { lies: true, ..Behaviour::default() };
    {
        let rt = in_dir(&dir).kernel(users("user.mended", &liar)).build().unwrap();
        check(&rt.gelu(&input()).unwrap());
        assert_ne!(chosen(&rt, &problem()), "user.mended");
    }
    let mended = Behaviour::default();
    let second = || Users { version: "2", ..users("user.mended", &mended) };
    {
        let rt = in_dir(&dir).kernel(second()).build().unwrap();
        // Before anything runs: ours are known as measured, the new version is not held to the old one's lie.
        let before = rt.planner().survey(&rt.explain(&problem()).unwrap());
        let measured = |basis: Basis| matches!(basis, Basis::Measured(_));
        for rival in &before.rivals {
            match &*rival.name {
                "user.mended" => assert!(!measured(rival.estimate().unwrap().basis)),
                "cpu.elementwise.reference" => {
                    let points = before.rivals.iter().filter(|other| other.name == rival.name);
                    let known = |other: &trimtab::advanced::plan::Rival| {
                        other.estimate().is_some_and(|e| measured(e.basis))
                    };
                    assert!(points.clone().any(known), "{}", rival.name);
                }
                _ => (),
            }
        }
        check(&rt.gelu(&input()).unwrap());
        assert_eq!(chosen(&rt, &problem()), "user.mended");
        let facts = rt.wisdom().all_facts();
        let versions =
            facts.iter().filter(|fact| fact.key.kernel == "user.mended").map(|fact| &*fact.key.version);
        let mut versions: Vec<&str> = versions.collect();
        versions.sort_unstable();
        versions.dedup();
        assert_eq!(versions, ["1", "2"]);
    }
    let rt = in_dir(&dir).kernel(second()).build().unwrap();
    check(&rt.gelu(&input()).unwrap());
    let decision = rt.explain(&problem()).unwrap();
    assert_eq!((decision.reason, decision.runs), (Reason::Remembered, 0));
}

#[test]
fn tuning_on_request_is_not_repeated_by_the_next_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let request = TuneRequest {
        rules: Rules::default(),
        ..TuneRequest::new(Patience::Measure, Nanos::from_millis(3_000))
    };
    let problems: Vec<Problem> =
        ["matmul:f32:24x24x24", "reduce.sum:f32:5000"].iter().map(|text| text.parse().unwrap()).collect();
    let tune = || {
        let rt = in_dir(&dir).build().unwrap();
        let mut seen = 0;
        let mut told = |_: &trimtab::advanced::tune::Progress| seen += 1;
        let mut plans = Vec::new();
        let mut runs = 0;
        for problem in &problems {
            let decision = rt.tune(problem, &request, &mut told).unwrap();
            let winner = decision.winner().unwrap();
            plans.push(format!("{problem} {} {}", winner.name, winner.point_name));
            runs += decision.runs;
        }
        (plans, runs, seen > 0)
    };
    let (plans, runs, told) = tune();
    assert!(runs > 0 && told);
    assert_eq!(tune(), (plans, 0, false));
}

#[test]
fn an_import_counts_from_the_next_call_on_and_forgetting_undoes_it() {
    let teacher = builder().kernel(users("user.gelu", &Behaviour::default())).build().unwrap();
    teacher.gelu(&input()).unwrap();
    let facts = teacher.wisdom().export(&trimtab::advanced::wisdom::Filter::everything());
    let rt =
        builder().patience(Patience::Off).kernel(users("user.gelu", &Behaviour::default())).build().unwrap();
    rt.gelu(&input()).unwrap();
    let reason = || rt.explain(&problem()).unwrap().reason;
    assert_eq!(reason(), Reason::DefaultOrder);
    rt.import(&facts, false).unwrap();
    assert_eq!(reason(), Reason::DefaultOrder, "a dry run changes nothing");
    assert!(rt.import(&facts, true).unwrap().new > 0);
    assert_eq!((reason(), chosen(&rt, &problem()).as_str()), (Reason::Remembered, "user.gelu"));
    check(&rt.gelu(&input()).unwrap());
    assert!(rt.forget(&trimtab::advanced::wisdom::Filter::everything()) > 0);
    assert_eq!(reason(), Reason::DefaultOrder);
}

#[test]
fn many_threads_that_ask_at_once_all_get_right_answers() {
    let rt = builder().build().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let rt = rt.clone();
            scope.spawn(move || {
                for round in 0..12 {
                    let size = 1 + (thread + round) % 6 * 9;
                    let a = Tensor::full(&[size, 7], 1.0f64).unwrap();
                    let product = rt.matmul(&a, &a.transposed()).unwrap();
                    assert_eq!(product, Tensor::full(&[size, size], 7.0).unwrap());
                }
            });
        }
    });
}
