//! A device asked about problems that nobody could have meant, and kernels that panic when they are asked.

use std::borrow::Cow;
use trimtab_core::{
    Attention, DType, Decline, Device, DeviceFacts, KernelId, KernelVersion, LaunchError, Matmul, Point,
    Problem, Variant, VariantClass, Work, erase,
};
use trimtab_cpu::{Args, Cpu, CpuDevice, CpuOptions, Slice, SliceMut};

trimtab_core::config! {
    struct NoSettings {}
}

/// A kernel that divides by the number of columns wherever it is asked.
struct Divides;

impl Variant<Cpu> for Divides {
    type Problem = Matmul;
    type Config = NoSettings;
    fn name(&self) -> Cow<'static, str> {
        "divides".into()
    }
    fn version(&self) -> KernelVersion {
        "1".into()
    }
    fn class(&self) -> VariantClass {
        VariantClass::Custom
    }
    fn declines(&self, problem: &Matmul, _: &DeviceFacts) -> Option<Decline> {
        (problem.m / problem.n > 9).then(|| Decline::because("too tall"))
    }
    fn configs(&self, problem: &Matmul, _: &DeviceFacts) -> Vec<NoSettings> {
        (0..1 / problem.n).map(|_| NoSettings {}).collect()
    }
    fn work(&self, problem: &Matmul, _: NoSettings, _: &DeviceFacts) -> Work {
        Work { threads: (1 / problem.n) as u32, ..Work::default() }
    }
    fn launch(&self, _: &Matmul, _: NoSettings, _: Args<'_>) -> Result<(), LaunchError> {
        Ok(())
    }
}

#[test]
fn a_kernel_that_panics_when_asked_declines_and_a_hand_made_problem_is_declined_by_all() {
    let kernels = vec![erase(Divides)];
    let device = CpuDevice::new(CpuOptions { threads: Some(1), kernels, ..CpuOptions::default() });
    let Some(at) = device.kernels().iter().position(|info| info.name == "divides") else {
        unreachable!("it was given")
    };
    let kernel = KernelId(at as u32);
    let Ok(empty) = Matmul::new(DType::F32, 1, 0, 1) else { unreachable!("sizes may be zero") };
    let problem = Problem::from(empty);
    let decline = device.declines(kernel, &problem).map(|decline| decline.to_string());
    assert!(decline.is_some_and(|reason| reason.contains("divide by zero")));
    assert!(device.space(kernel, &problem).points().is_empty());
    assert_eq!(device.work(kernel, &problem, &Point::EMPTY), Work::default());
    let huge = Problem::from(Matmul { m: u64::MAX, n: 2, k: 2, ..empty });
    for number in 0..device.kernels().len() as u32 {
        assert!(device.declines(KernelId(number), &huge).is_some(), "{number}");
    }
}

/// Launches every kernel of the device that takes a problem, at each of its points, on operands as they are given; answers how many did it.
fn launched(device: &CpuDevice, problem: &Problem, inputs: &[Slice<'_>], out: &mut [bool]) -> usize {
    let mut done = 0;
    for number in 0..device.kernels().len() as u32 {
        let kernel = KernelId(number);
        for point in device.space(kernel, problem).points() {
            let outcome = device.launch(kernel, problem, point, inputs, SliceMut::Bool(out));
            done += usize::from(outcome.is_ok());
        }
    }
    done
}

#[test]
fn bytes_are_never_taken_for_truth_values() {
    let device = CpuDevice::new(CpuOptions { threads: Some(2), ..CpuOptions::default() });
    let bytes = [2u8; 4];
    let (bytes, indices) = (Slice::U8(&bytes), Slice::I64(&[1, 0]));
    let none: [Slice<'_>; 0] = [];
    for (text, inputs) in [
        ("transpose:u8:2x2:1.0", vec![bytes]),
        ("transpose:bool:2x2:1.0", vec![bytes]),
        ("transpose:i16:2x1:1.0", vec![bytes]),
        ("gather:u8:2x2:axis0,count2", vec![bytes, indices]),
        ("concat:u8:2,2", vec![Slice::U8(&[2; 2]), Slice::U8(&[2; 2])]),
        ("put:u8:4,4:at0,fill", vec![bytes]),
        ("cast:u8:4:i8", vec![bytes]),
        ("elementwise.add:u8:4", vec![bytes, bytes]),
    ] {
        let problem: Problem = text.parse().unwrap();
        let mut out = [false; 4];
        assert_eq!(launched(&device, &problem, &inputs, &mut out), 0, "{text}");
        assert_eq!(launched(&device, &problem, &none, &mut out), 0, "{text}");
        assert_eq!(out, [false; 4], "{text}");
    }
    let moved: Problem = "transpose:bool:2x2:1.0".parse().unwrap();
    let mut out = [false; 4];
    assert!(launched(&device, &moved, &[Slice::Bool(&[true, false, true, true])], &mut out) > 0);
    assert_eq!(out, [true, true, false, true]);
}

#[test]
fn settings_and_problems_made_by_hand_never_share_a_result_or_read_past_an_operand() {
    let device = CpuDevice::new(CpuOptions { threads: Some(2), ..CpuOptions::default() });
    let named = |name: &str| {
        let at = device.kernels().iter().position(|info| info.name == name).unwrap();
        KernelId(at as u32)
    };
    let scatter: Problem = "scatter:f32:16x4:axis0,count8".parse().unwrap();
    let (data, added, mut out) = (vec![1.0f32; 64], vec![1.0f32; 32], vec![0.0f32; 64]);
    let inputs = [Slice::F32(&data), Slice::I64(&[0; 8]), Slice::F32(&added)];
    let mut split = |split: u32| {
        let point = Point::new(&[2, split]);
        device.launch(named("cpu.scatter.owned"), &scatter, &point, &inputs, SliceMut::F32(&mut out))
    };
    assert!(matches!(split(3), Err(LaunchError::Point(_))));
    assert_eq!(split(2), Ok(()));
    let blind =
        Attention { dtype: DType::F32, causal: true, batch: 1, queries: 8, keys: 1, depth: 4, width: 1 };
    let problem = Problem::from(blind);
    let inputs = [Slice::F32(&data[..32]), Slice::F32(&data[..4]), Slice::F32(&data[..1])];
    for name in ["online", "apart", "single", "reference"] {
        let kernel = named(&format!("cpu.attention.{name}"));
        let seeing = Problem::from(Attention { keys: 8, ..blind });
        let space = device.space(kernel, &seeing);
        let outcome =
            device.launch(kernel, &problem, &space.points()[0], &inputs, SliceMut::F32(&mut out[..8]));
        assert!(outcome.is_err(), "{name}");
    }
    assert!(blind.seen(7) <= blind.keys && blind.seen(0) == 0);
}
