//! A user's kernel with hundreds of settings, some of which fail or lie: searched on the processor, remembered, and right.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::borrow::Cow;
use std::path::Path;
use support::kept_in;
use trimtab::advanced::core::{
    Bytes, DType, Decline, DeviceFacts, Elementwise, ElementwiseOp, KernelVersion, LaunchError, Nanos,
    Patience, Problem, UnaryOp, Variant, VariantClass, Work,
};
use trimtab::advanced::cpu::{Args, Cpu};
use trimtab::advanced::plan::{Reason, Rival, TuneRequest};
use trimtab::{Runtime, Tensor};

trimtab::advanced::core::config! {
    /// How often the work is done, and in which pieces.
    struct Settings { rounds, piece, padding }
}

/// Negates; some settings do so many times over, some fail, and the fastest lie.
struct Adjustable;

impl Variant<Cpu> for Adjustable {
    type Problem = Elementwise;
    type Config = Settings;

    fn name(&self) -> Cow<'static, str> {
        "user.adjustable".into()
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
    fn configs(&self, _: &Elementwise, _: &DeviceFacts) -> Vec<Settings> {
        let pieces = || [512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384];
        let all = [1, 2, 3, 4, 5].into_iter().flat_map(|rounds| pieces().map(move |piece| (rounds, piece)));
        all.flat_map(|(rounds, piece)| (0..5).map(move |padding| Settings { rounds, piece, padding }))
            .collect()
    }
    fn work(&self, problem: &Elementwise, _: Settings, _: &DeviceFacts) -> Work {
        Work { bytes: Bytes(8 * problem.out_len()), threads: 1, lanes: 16, ..Work::default() }
    }
    fn launch(&self, problem: &Elementwise, settings: Settings, args: Args<'_>) -> Result<(), LaunchError> {
        let args = args.typed::<f32>([problem.lhs_len(), 0, problem.out_len()])?;
        if settings.padding == 3 {
            return Err(LaunchError::Kernel("no such padding".to_string()));
        }
        for _ in 0..settings.rounds {
            let pieces =
                args.out.chunks_mut(settings.piece as usize).zip(args.lhs.chunks(settings.piece as usize));
            for (out, lhs) in pieces {
                out.iter_mut().zip(lhs).for_each(|(out, x)| *out = -x);
            }
            std::hint::black_box(&mut *args.out);
        }
        if settings.padding == 4
            && let Some(first) = args.out.first_mut()
        {
            *first = 7.0;
        }
        Ok(())
    }
}

fn runtime(dir: &Path) -> Runtime {
    let builder = kept_in(dir).device("cpu").no_blas();
    builder.kernel(Adjustable).build().unwrap()
}

fn problem() -> Problem {
    "elementwise.neg:f32:20000".parse().unwrap()
}

#[test]
fn hundreds_of_settings_are_searched_and_those_that_fail_or_lie_are_never_chosen() {
    // A sweep meets every padding within five points, on whatever machine this runs.
    let request = TuneRequest {
        strategy: "sweep".parse().ok(),
        evals: Some(60),
        ..TuneRequest::new(Patience::Measure, Nanos::from_millis(60_000))
    };
    // A machine that is held up in the kernel's first run may take it for hopeless: then once more, from nothing.
    let is_tried = |rival: &Rival| &*rival.name == "user.adjustable" && rival.out_because().is_some();
    let tuned = || {
        let dir = tempfile::tempdir().unwrap();
        let rt = runtime(dir.path());
        let decision = rt.tune(&problem(), &request, &mut |_| ()).unwrap();
        (dir, rt, decision)
    };
    let mut tries = (0..5).map(|_| tuned());
    let (dir, rt, decision) = tries.find(|tuned| tuned.2.rivals.iter().any(is_tried)).unwrap();
    assert!(decision.space() > 250 && decision.evaluations <= 60, "{}", decision.evaluations);
    assert_eq!(decision.strategy().map(|strategy| strategy.name()), Some("sweep"));
    let x = Tensor::from_vec((0..20_000).map(|at| at as f32).collect(), &[20_000]).unwrap();
    let expected: Vec<f32> = (0..20_000).map(|at| -(at as f32)).collect();
    assert_eq!(rt.neg(&x).unwrap().to_vec(), expected);
    let asked = decision.rivals.iter().filter(|rival| &*rival.name == "user.adjustable");
    let out: Vec<String> = asked.filter_map(|rival| rival.out_because()).collect();
    assert!(out.iter().any(|why| why.contains("no such padding")), "{out:?}");
    assert!(out.iter().any(|why| why.contains("wrong")), "{out:?}");
    drop(rt);

    let rt = runtime(dir.path());
    let again = rt.tune(&problem(), &request, &mut |_| ()).unwrap();
    assert_eq!((again.reason, again.runs), (Reason::Remembered, 0));
    assert_eq!(rt.neg(&x).unwrap().to_vec(), expected);
}

#[test]
fn a_call_with_hundreds_of_settings_is_answered_rightly() {
    let dir = tempfile::tempdir().unwrap();
    let rt = runtime(dir.path());
    let x = Tensor::full(&[20_000], 2.0f32).unwrap();
    for _ in 0..3 {
        assert_eq!(rt.neg(&x).unwrap(), Tensor::full(&[20_000], -2.0).unwrap());
    }
    assert!(rt.planner().known(&problem(), trimtab::advanced::plan::TermsId::default()).is_some());
}
