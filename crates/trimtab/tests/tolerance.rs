//! Accuracy is a constraint: a caller's tolerance opens kernels that are less accurate, and nothing else does.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its runtime has failed")]

mod support;

use std::borrow::Cow;
use support::fresh;
use trimtab::advanced::core::{
    Bytes, Constraints, Decline, Device, DeviceFacts, KernelVersion, LaunchError, Matmul, Nanos, Patience,
    Problem, Tolerance, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu};
use trimtab::advanced::plan::{Standing, TuneRequest};
use trimtab::{Runtime, Tensor};

trimtab::advanced::core::config! {
    /// It has no settings.
    struct NoSettings {}
}

/// A product of operands cut to eleven bits, said to be off by `states`: fast, as it computes one element in place of many.
struct Rough {
    states: f64,
}

impl Variant<Cpu> for Rough {
    type Problem = Matmul;
    type Config = NoSettings;

    fn name(&self) -> Cow<'static, str> {
        "user.matmul.rough".into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        (problem.to_string() != "matmul:f32:48x48x48").then(|| Decline::because("does one size"))
    }
    fn configs(&self, _: &Matmul, _: &DeviceFacts) -> Vec<NoSettings> {
        vec![NoSettings {}]
    }
    fn work(&self, _: &Matmul, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { bytes: Bytes(1), threads: 1, lanes: 1, error: self.states, ..Work::default() }
    }
    fn launch(&self, problem: &Matmul, _: NoSettings, args: Args<'_>) -> Result<(), LaunchError> {
        let typed = args.typed::<f32>([problem.lhs_len(), problem.rhs_len(), problem.out_len()])?;
        let cut = |x: f32| f32::from_bits(x.to_bits() & 0xffff_e000);
        let (n, k) = (problem.n as usize, problem.k as usize);
        for (at, out) in typed.out.iter_mut().enumerate() {
            let (row, column) = (at / n, at % n);
            *out = (0..k).map(|p| cut(typed.lhs[row * k + p]) * cut(typed.rhs[p * n + column])).sum();
        }
        Ok(())
    }
}

const PRODUCT: &str = "matmul:f32:48x48x48";
/// What cutting both factors to eleven bits may be off.
const CUT: f64 = 2e-3;

fn within(rt: &Runtime, most: f64) -> Runtime {
    let constraints = Constraints { tolerance: Some(Tolerance(most)), ..Constraints::default() };
    rt.constrained(constraints).unwrap()
}

/// Why the kernel of a user is out of a decision, if it is.
fn out(rt: &Runtime) -> Option<String> {
    let decision = rt.explain(&PRODUCT.parse().unwrap()).unwrap();
    let rival = decision.rivals.iter().find(|rival| rival.name.contains("rough")).unwrap();
    match &rival.standing {
        Standing::Excluded(why) | Standing::Quarantined(why) => Some(why.to_string()),
        _ => None,
    }
}

#[test]
fn a_rough_kernel_answers_only_those_who_allow_it() {
    let forced = fresh().kernel(Rough { states: CUT }).build().unwrap();
    let problem: Problem = PRODUCT.parse().unwrap();
    // Whatever is known of it, it answers nobody without a word of theirs.
    for (rt, is_open) in [
        (forced.clone(), false),
        (within(&forced, 1e-3), false),
        (within(&forced, 1e-2), true),
        (forced.clone(), false),
    ] {
        let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(200));
        let decision = rt.tune(&problem, &request, &mut |_| ()).unwrap();
        let chosen = decision.winner().unwrap();
        assert!(is_open || chosen.work.error == 0.0, "{} is off by {}", chosen.name, chosen.work.error);
        let told = out(&rt);
        assert_eq!(told.is_none(), is_open, "{told:?}");
        if let Some(told) = told {
            assert!(told.contains("off by 2.0e-3") && told.contains("tolerance"), "{told}");
        }
        assert_eq!(rt.try_problem(&problem).unwrap().check, Ok(()));
    }
}

#[test]
fn a_kernel_that_is_off_by_more_than_it_states_is_out_whatever_the_caller_allows() {
    let rt = within(&fresh().kernel(Rough { states: 1e-6 }).build().unwrap(), 1e-1);
    let problem: Problem = PRODUCT.parse().unwrap();
    let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(200));
    let decision = rt.tune(&problem, &request, &mut |_| ()).unwrap();
    assert!(!decision.winner().unwrap().name.contains("rough"));
    let told = out(&rt).unwrap();
    assert!(told.contains("wrong") || told.contains("reference"), "{told}");
}

#[test]
fn answers_of_a_rough_kernel_are_looked_at_by_what_it_states() {
    let rt = fresh().kernel(Rough { states: CUT }).force("user.matmul.rough").build().unwrap();
    let rt = within(&rt, 1e-2);
    let of = |seed: usize| {
        Tensor::from_fn(&[48, 48], move |at| ((at * 37 + seed) % 101) as f32 / 50.3 - 1.0).unwrap()
    };
    for round in 0..40 {
        let (a, b) = (of(round), of(round + 7));
        let found = rt.matmul(&a, &b).unwrap();
        let exact = |row: usize, column: usize| -> f64 {
            let term = |p: usize| a.get(&[row, p]).unwrap() as f64 * b.get(&[p, column]).unwrap() as f64;
            (0..48).map(term).sum()
        };
        for place in 0..48 {
            let off = (found.get(&[place, place]).unwrap() as f64 - exact(place, place)).abs();
            assert!(off <= 48.0 * CUT, "{off}");
        }
    }
    let stats = rt.stats();
    assert!(stats.audits > 0 && stats.wrong == 0, "{stats:?}");
}

#[test]
fn winograds_larger_tiles_need_a_tolerance_and_keep_what_they_state() {
    let rt = fresh().build().unwrap();
    let problem: Problem = "conv:f32:1x16x20x20,16x16x3x3:pad1".parse().unwrap();
    let large =
        |rt: &Runtime| -> Vec<(trimtab::advanced::core::KernelId, trimtab::advanced::core::Point, bool)> {
            let decision = rt.explain(&problem).unwrap();
            let is_large = |name: &str, point: &str| name == "cpu.conv.winograd" && point.contains("tile=4");
            let rivals = decision.rivals.iter().filter(|rival| is_large(&rival.name, &rival.point_name));
            rivals
                .map(|rival| (rival.kernel, rival.point, matches!(rival.standing, Standing::Excluded(_))))
                .collect()
        };
    let (closed, open) = (large(&rt), large(&within(&rt, 1e-4)));
    assert!(!closed.is_empty() && closed.len() == open.len());
    assert!(closed.iter().all(|rival| rival.2) && open.iter().all(|rival| !rival.2));
    for (kernel, point, _) in open {
        rt.cpu().verify(kernel, &problem, &point, Nanos::from_millis(30_000)).unwrap();
    }
    // As everybody else they are held to what they say.
    let exact = rt.try_problem(&problem).unwrap();
    assert!(exact.check == Ok(()) && exact.tolerance < 1e-5);
}

#[test]
fn a_tolerance_that_says_nothing_is_an_error_that_says_so() {
    let rt = fresh().build().unwrap();
    for wrong in [0.0, 1.0, -1.0, f64::NAN] {
        let constraints = Constraints { tolerance: Some(Tolerance(wrong)), ..Constraints::default() };
        let error = rt.constrained(constraints).unwrap_err().to_string();
        assert!(error.contains("tolerance") && error.contains("1e-2"), "{error}");
        assert!(fresh().constraints(constraints).build().is_err());
    }
}

#[cfg(feature = "wgpu")]
#[test]
fn sixteen_bits_on_a_gpu_need_a_tolerance_and_say_what_would_open_them() {
    let rt = fresh().no_blas().device("gpu0").patience(Patience::Estimate).build().unwrap();
    let has = rt.devices().iter().filter_map(|device| device.facts().adapter.as_ref()).any(|told| told.f16);
    let problem: Problem = "matmul:f32:128x128x128".parse().unwrap();
    let standings = |rt: &Runtime| -> Vec<Option<String>> {
        let decision = rt.explain(&problem).unwrap();
        let cut = decision.rivals.iter().filter(|rival| &*rival.name == "gpu.matmul.halves");
        cut.filter(|rival| !rival.point_name.is_empty())
            .map(|rival| match &rival.standing {
                Standing::Excluded(why) => Some(why.to_string()),
                _ => None,
            })
            .collect()
    };
    for (rt, is_open) in [(rt.clone(), false), (within(&rt, 1e-3), false), (within(&rt, 1e-2), true)] {
        let found = standings(&rt);
        assert_eq!(found.is_empty(), !has, "{found:?}");
        for why in found {
            assert_eq!(why.is_none(), is_open, "{why:?}");
            assert!(why.is_none_or(|why| why.contains("off by 2.1e-3") && why.contains("tolerance")));
        }
        assert_eq!(rt.try_problem(&problem).unwrap().check, Ok(()));
    }
}
