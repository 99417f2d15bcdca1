//! Results are looked at again, at default settings: a kernel that is right on small stand-ins and wrong in a caller's call is found
//! out, before the caller gets its first wrong result or soon after.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::borrow::Cow;
use support::{NoSettings, fresh, kept_in};
use trimtab::advanced::core::{
    Bytes, DType, Decline, Device, DeviceFacts, Elementwise, ElementwiseOp, KernelVersion, LaunchError,
    Nanos, Patience, Problem, UnaryOp, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu};
use trimtab::advanced::tune::Stopwatch;
use trimtab::{Builder, Runtime, Tensor};

/// A user's kernel that negates, but for what it sees in its operand.
struct Negates(fn(&[f32]) -> bool);

impl Variant<Cpu> for Negates {
    type Problem = Elementwise;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        "user.negates".into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &Elementwise, _: &DeviceFacts) -> Option<Decline> {
        let mine = problem.op == ElementwiseOp::Unary(UnaryOp::Neg) && problem.dtype == DType::F32;
        (!mine).then(|| Decline::because("does neg of f32 only"))
    }
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, problem: &Elementwise, _: NoSettings, _: &DeviceFacts) -> Work {
        // So little to do that it is chosen by estimate.
        Work { bytes: Bytes(problem.out_len() / 8 + 1), threads: 1, lanes: 1, ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        let args = args.typed::<f32>([problem.lhs_len(), 0, problem.out_len()])?;
        let sign = if (self.0)(args.lhs) { 1.0 } else { -1.0 };
        args.out.iter_mut().zip(args.lhs).for_each(|(out, x)| *out = sign * x);
        Ok(())
    }
}

fn is_right(rt: &Runtime, size: usize, value: f32) -> bool {
    let x = Tensor::full(&[size], value).unwrap();
    rt.neg(&x).unwrap().to_vec().iter().all(|found| *found == -value)
}

/// Why the kernel is out.
fn why(rt: &Runtime, size: usize) -> String {
    let problem: Problem = format!("elementwise.neg:f32:{size}").parse().unwrap();
    let decision = rt.planner().survey(&rt.explain(&problem).unwrap());
    let its = decision.rivals.iter().find(|rival| &*rival.name == "user.negates").unwrap();
    its.out_because().unwrap_or_default()
}

fn estimating(builder: Builder, lies: fn(&[f32]) -> bool) -> Runtime {
    builder.patience(Patience::Estimate).kernel(Negates(lies)).build().unwrap()
}

#[test]
fn a_kernel_that_is_wrong_at_some_sizes_only_never_delivers_it() {
    let large = |x: &[f32]| x.len() > 20_000_000;
    let some = |x: &[f32]| (70_001..70_100).contains(&x.len());
    for (lies, honest, wrong) in [(large as fn(&[f32]) -> bool, 100_000, 20_000_003), (some, 70_100, 70_007)]
    {
        for builder in [fresh(), fresh().patience(Patience::Estimate)] {
            let rt = builder.kernel(Negates(lies)).build().unwrap();
            assert!(is_right(&rt, honest, 1.5));
            for _ in 0..3 {
                assert!(is_right(&rt, wrong, 1.5), "{wrong}");
            }
        }
    }
    let rt = estimating(fresh(), large);
    assert!(is_right(&rt, 20_000_003, 1.5));
    assert!(why(&rt, 20_000_003).contains("in a live call"), "{}", why(&rt, 20_000_003));
    assert!(rt.stats().wrong >= 1);
}

#[test]
fn a_kernel_that_is_wrong_for_some_values_only_is_found_out_by_the_audit_of_later_calls() {
    let rt = estimating(fresh(), |x| x.first() == Some(&2.5));
    // The first calls of a user's kernel are all looked at.
    (0..40).for_each(|_| assert!(is_right(&rt, 400_000, 1.5)));
    let (start, mut wrong) = (Stopwatch::start(), 0);
    while why(&rt, 400_000).is_empty() && start.elapsed() < Nanos::from_millis(30_000) {
        wrong += u32::from(!is_right(&rt, 400_000, 2.5));
    }
    assert!(why(&rt, 400_000).contains("in a live call"), "after {wrong} wrong results");
    // It is named before the next best is in force.
    while !is_right(&rt, 400_000, 2.5) && start.elapsed() < Nanos::from_millis(40_000) {}
    assert!(is_right(&rt, 400_000, 2.5));
    // At other sizes too: a point that lied does not answer anywhere.
    assert!(is_right(&rt, 300_000, 2.5));
}

#[test]
fn a_kernel_that_was_edited_under_its_old_version_is_checked_again() {
    let dir = tempfile::tempdir().unwrap();
    let problem = "elementwise.neg:f32:5000";
    {
        let rt = kept_in(dir.path()).kernel(Negates(|_| false)).build().unwrap();
        let decision = rt.planner().survey(&rt.explain(&problem.parse().unwrap()).unwrap());
        let its = decision.rivals.iter().find(|rival| &*rival.name == "user.negates").unwrap();
        let key = trimtab::advanced::wisdom::FactKey {
            device: rt.cpu().facts().fingerprint.0.clone(),
            kernel: "user.negates".to_string(),
            version: "1".to_string(),
            problem: problem.to_string(),
            point: its.point_name.clone(),
            condition: trimtab::advanced::core::Condition::Quiet,
        };
        let stats = trimtab::advanced::wisdom::Stats::single(1.0);
        rt.wisdom().record(key, trimtab::advanced::wisdom::Outcome::Timed(stats));
    }
    let rt = estimating(kept_in(dir.path()), |_| false);
    assert!(is_right(&rt, 5000, 1.5));
    let chosen = rt.explain(&problem.parse().unwrap()).unwrap();
    assert_eq!(&*chosen.winner().unwrap().name, "user.negates", "what is remembered counts");
    drop(rt);
    let rt = estimating(kept_in(dir.path()), |_| true);
    assert!(is_right(&rt, 5000, 1.5));
    assert!(why(&rt, 5000).contains("wrong"), "{}", why(&rt, 5000));
}

#[test]
fn a_call_that_could_not_be_looked_at_does_not_count_as_one_that_was() {
    let rt = estimating(fresh(), |x| x.first() == Some(&2.5));
    // Numbers so large that kernels that are right need not agree.
    (0..5).for_each(|_| assert!(is_right(&rt, 50, 1e7)));
    (0..30).for_each(|_| assert!(is_right(&rt, 50, 1.5)));
    assert!(is_right(&rt, 50, 2.5), "the thirty-first that can be looked at");
}

#[test]
fn the_first_calls_of_a_users_kernel_are_all_looked_at() {
    for size in [50, 5000, 400_000] {
        let rt = estimating(fresh(), |x| x.first() == Some(&2.5));
        for value in [1.5, 1.5, 2.5, 2.5] {
            assert!(is_right(&rt, size, value), "{size}");
        }
        assert!(why(&rt, size).contains("in a live call"), "{}", why(&rt, size));
    }
}

#[test]
fn a_kernel_that_lies_about_small_problems_after_many_calls_is_found_out() {
    for size in [50, 5000] {
        let rt = estimating(fresh(), |x| x.first() == Some(&2.5));
        (0..40).for_each(|_| assert!(is_right(&rt, size, 1.5)));
        let wrong = (0..200_000).take_while(|_| why(&rt, size).is_empty());
        let wrong = wrong.filter(|_| !is_right(&rt, size, 2.5)).count();
        assert!(why(&rt, size).contains("in a live call"), "{size}: after {wrong} wrong results");
        assert!(is_right(&rt, size, 2.5));
    }
}

#[test]
fn expressions_are_looked_at_too() {
    let rt = estimating(fresh(), |x| x.len() > 200_000);
    let x = Tensor::full(&[300_000], 1.5f32).unwrap();
    let value = (-rt.lazy(&x)).to_vec().unwrap();
    assert!(value.iter().all(|found| *found == -1.5));
}
