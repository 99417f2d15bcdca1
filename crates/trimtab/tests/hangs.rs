//! Kernels of a user's that hang in a caller's own call, at default settings: the call is answered by the next best, and what hangs is
//! named and started no more.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use support::{NoSettings, fresh, kept_in};
use trimtab::advanced::core::{
    Bytes, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, FailureKind, KernelVersion, LaunchError,
    Nanos, Patience, Problem, UnaryOp, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu};
use trimtab::advanced::operands::f16;
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::wisdom::Outcome;
use trimtab::{Builder, Runtime, Tensor};

const NAME: &str = "user.hangs";
/// Longest a test waits for something that happens in the background.
const LONG: Nanos = Nanos::from_millis(60_000);

/// Whether the kernel hangs, and how many threads hang in it.
#[derive(Default)]
struct Trap {
    closed: Mutex<bool>,
    opened: Condvar,
    inside: AtomicU32,
    most: AtomicU32,
}

impl Trap {
    fn set(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.opened.notify_all();
    }

    /// Hangs while the trap is closed.
    fn pass(&self) {
        let mut closed = self.closed.lock().unwrap();
        if *closed {
            self.most.fetch_max(self.inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            while *closed {
                closed = self.opened.wait(closed).unwrap();
            }
            self.inside.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Opens a trap, whatever happens: a thread inside is waited for.
struct Released<'a>(&'a Trap);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A kernel that negates f16, for which there are plain loops only: it wins its races. It promises so much that it is chosen by its
/// estimate, too.
struct Trapped(Arc<Trap>);

impl Variant<Cpu> for Trapped {
    type Problem = Elementwise;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        NAME.into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        let mine = problem.op == ElementwiseOp::Unary(UnaryOp::Neg) && problem.dtype == DType::F16;
        (!mine).then(|| Decline::because("does neg of f16 only"))
    }
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, problem: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { bytes: Bytes(problem.out_len() / 8 + 1), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        self.0.pass();
        let args = args.typed::<f16>([problem.lhs_len(), 0, problem.out_len()])?;
        args.out.iter_mut().zip(args.lhs).for_each(|(out, x)| *out = -*x);
        Ok(())
    }
}

/// A runtime with that kernel.
fn trapped(builder: Builder) -> (Runtime, Arc<Trap>) {
    let trap = Arc::<Trap>::default();
    (builder.kernel(Trapped(Arc::clone(&trap))).build().unwrap(), trap)
}

fn estimating(builder: Builder) -> (Runtime, Arc<Trap>) {
    trapped(builder.patience(Patience::Estimate).longest_call(Nanos::from_millis(300)))
}

fn problem(size: usize) -> Problem {
    format!("elementwise.neg:f16:{size}").parse().unwrap()
}

fn negates(rt: &Runtime, size: usize) {
    let x = Tensor::full(&[size], f16::ONE).unwrap();
    assert_eq!(rt.neg(&x).unwrap(), Tensor::full(&[size], f16::NEG_ONE).unwrap());
}

fn chosen(rt: &Runtime, size: usize) -> String {
    rt.explain(&problem(size)).unwrap().winner().unwrap().name.to_string()
}

fn why(rt: &Runtime, size: usize) -> String {
    let decision = rt.planner().survey(&rt.explain(&problem(size)).unwrap());
    let its = decision.rivals.iter().find(|rival| &*rival.name == NAME).unwrap();
    its.out_because().unwrap_or_default()
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let watch = Stopwatch::start();
    while !is_so() {
        assert!(watch.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_kernel_that_hangs_in_a_call_is_left_behind_and_the_next_best_answers() {
    let (rt, trap) = trapped(fresh());
    negates(&rt, 100_000);
    assert_eq!(chosen(&rt, 100_000), NAME);
    trap.set(true);
    negates(&rt, 100_000);
    let facts = rt.wisdom().all_facts();
    let late = |outcome: &Outcome| matches!(outcome, Outcome::Failed { kind: FailureKind::TimedOut, .. });
    assert!(facts.iter().any(|fact| fact.key.kernel == NAME && late(&fact.outcome)), "{facts:?}");
    // Nothing more is asked of it, at any size.
    for size in [100_000, 200_000, 300_000] {
        negates(&rt, size);
        assert!(why(&rt, size).contains("still hangs in this process"), "{}", why(&rt, size));
    }
    assert_eq!(trap.most.load(Ordering::Relaxed), 1);
}

#[test]
fn calls_of_many_threads_leave_one_thread_behind() {
    let (rt, trap) = estimating(fresh());
    negates(&rt, 5000);
    assert_eq!(chosen(&rt, 5000), NAME);
    trap.set(true);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..3).for_each(|_| negates(&rt, 5000)));
        }
    });
    assert_eq!(trap.most.load(Ordering::Relaxed), 1);
}

#[test]
fn a_kernel_of_unknown_time_has_as_long_as_the_builder_says() {
    let (rt, trap) = trapped(fresh().patience(Patience::Estimate).longest_call(LONG));
    negates(&rt, 5000);
    trap.set(true);
    std::thread::scope(|scope| {
        let _released = Released(&trap);
        let call = scope.spawn(|| negates(&rt, 5000));
        wait_until("it was not called", || trap.inside.load(Ordering::Relaxed) == 1);
        trap.set(false);
        call.join().unwrap();
    });
    assert_eq!((chosen(&rt, 5000).as_str(), why(&rt, 5000).as_str()), (NAME, ""));
}

#[test]
fn expressions_are_answered_too() {
    let (rt, trap) = estimating(fresh());
    let x = Tensor::full(&[70_000], f16::ONE).unwrap();
    let is_right = || (-rt.lazy(&x)).to_vec().unwrap().iter().all(|found| *found == f16::NEG_ONE);
    assert!(is_right());
    trap.set(true);
    assert!((0..3).all(|_| is_right()));
    assert_eq!(trap.most.load(Ordering::Relaxed), 1);
}

#[test]
fn a_kernel_that_hangs_on_the_callers_thread_is_named_and_others_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (rt, trap) = estimating(kept_in(dir.path()));
    // Handing over would cost more than the call, so that after the first calls it is no longer done.
    (0..40).for_each(|_| negates(&rt, 500));
    assert_eq!(chosen(&rt, 500), NAME);
    trap.set(true);
    std::thread::scope(|scope| {
        let _released = Released(&trap);
        let stuck = scope.spawn(|| negates(&rt, 500));
        wait_until("it was not noticed", || !why(&rt, 500).is_empty());
        (0..3).for_each(|_| negates(&rt, 500));
        negates(&rt, 600);
        let told = || {
            let facts = rt.wisdom().all_facts();
            let mut its = facts.iter().filter(|fact| fact.key.kernel == NAME);
            its.any(|fact| matches!(&fact.outcome, Outcome::Failed { kind: FailureKind::TimedOut, .. }))
        };
        wait_until("it is not remembered", told);
        trap.set(false);
        stuck.join().unwrap();
    });
    drop(rt);
    let (rt, trap) = estimating(kept_in(dir.path()));
    trap.set(true);
    (0..3).for_each(|_| negates(&rt, 500));
    assert_eq!(trap.most.load(Ordering::Relaxed), 0, "it is called in the next process");
}
