//! Reductions on a GPU against the processor: every kernel, every legal point, and operands of our own for what the random
//! ones do not reach (NaN, infinities, overflow, long sums, more than a binding).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::{KernelId, LaunchError, Operation, Problem};
use trimtab_cpu::{CpuDevice, CpuOptions};
use trimtab_operands::{Element, Expected, Operands, Slice, f16};
use trimtab_wgpu::{GpuDevice, tolerance};

#[test]
fn every_point_of_every_kernel_agrees_with_the_processor() {
    let compared = conform::conforms(
        Operation::Reduce,
        &[
            "reduce.sum:f32:1",
            "reduce.sum:f32:4099",
            "reduce.sum:f32:65536",
            "reduce.sum:f32:300007",
            "reduce.sum:f32:37x64:axis1",
            "reduce.sum:f32:5x4096:axis1",
            "reduce.sum:f32:7x1031:axis1",
            "reduce.sum:f32:1031x7:axis0",
            "reduce.sum:f32:3x2000x12:axis1",
            "reduce.sum:f32:2x300x67:axis1",
            "reduce.sum:f32:70001x3:axis1",
            "reduce.sum:f32:0",
            "reduce.sum:f32:4x0:axis1",
            "reduce.sum:f32:0x4:axis1",
        ],
    );
    assert!(compared > 400, "{compared}");
}

/// The adapters; without one nothing is tested, which must not read as passed.
fn devices() -> Vec<GpuDevice> {
    conform::devices()
}

#[test]
fn every_operation_of_every_type_agrees_with_the_processor() {
    let cpu = CpuDevice::new(CpuOptions { threads: None, blas: None, ..CpuOptions::default() });
    let mut problems = Vec::new();
    for dtype in ["f32", "f64", "f16", "i32"] {
        for op in ["sum", "mean", "min", "max", "prod"] {
            if (op, dtype) != ("mean", "i32") {
                problems.push(format!("reduce.{op}:{dtype}:1027"));
                problems.push(format!("reduce.{op}:{dtype}:3x65x4:axis1"));
            }
        }
        problems.push(format!("reduce.prod:{dtype}:0"));
        problems.push(format!("reduce.prod:{dtype}:0x3:axis0"));
    }
    let mut compared = 0;
    for device in devices() {
        for text in &problems {
            let problem: Problem = text.parse().unwrap();
            let mut operands = Operands::new(&problem);
            let expected = Expected::new(&cpu, &problem, &operands).unwrap();
            for (number, kernel) in device.table().iter().enumerate() {
                let space = kernel.space(&problem, device.facts());
                // What differs between the other points does not depend on the operation.
                for index in some_points(space.points().len()) {
                    let point = &space.points()[index];
                    let what = format!("{} {} {text}", kernel.info().name, space.name(point));
                    operands.out.poison();
                    let (lhs, id) = (operands.inputs[0].slice(), KernelId(number as u32));
                    let ran =
                        device.launch(id, &problem, point, &[lhs, Slice::None], operands.out.slice_mut());
                    assert_eq!(ran, Ok(()), "{what}");
                    let checked = expected.check_within(&problem, &operands.out, tolerance(&problem));
                    assert_eq!(checked, Ok(()), "{what}");
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

/// The first, a middle and the last of so many points.
fn some_points(count: usize) -> Vec<usize> {
    let mut chosen = if count == 0 { vec![] } else { vec![0, count / 2, count - 1] };
    chosen.dedup();
    chosen
}

/// What every kernel makes of these elements at some of its points.
fn results<T: Element>(problem: &str, elements: &[T]) -> Vec<(String, Result<Vec<T>, LaunchError>)> {
    let problem: Problem = problem.parse().unwrap();
    let Problem::Reduce(reduce) = problem else { panic!("{problem}") };
    let mut all = Vec::new();
    for device in devices() {
        for (number, kernel) in device.table().iter().enumerate() {
            let space = kernel.space(&problem, device.facts());
            for index in some_points(space.points().len()) {
                let point = &space.points()[index];
                let mut out = vec![T::from_f64(77.0); reduce.out_len() as usize];
                let (lhs, id) = (T::erase(elements), KernelId(number as u32));
                let ran = device.launch(id, &problem, point, &[lhs, Slice::None], T::erase_mut(&mut out));
                all.push((
                    format!("{problem} {} {}", kernel.info().name, space.name(point)),
                    ran.map(|()| out),
                ));
            }
        }
    }
    assert!(all.len() > 1, "{problem}");
    all
}

/// Operation, what most elements are, the others by position, and the result.
type Case<'a, T, R> = (&'a str, T, &'a [(usize, T)], R);

/// One result of elements that are all `base` but for some.
fn one_of<T: Element>(
    op: &str,
    len: usize,
    base: T,
    others: &[(usize, T)],
) -> Vec<(String, Result<T, LaunchError>)> {
    let mut elements = vec![base; len];
    others.iter().for_each(|&(at, value)| elements[at] = value);
    let problem = format!("reduce.{op}:{}:{len}", T::DTYPE);
    results(&problem, &elements).into_iter().map(|(what, ran)| (what, ran.map(|out| out[0]))).collect()
}

#[test]
fn a_nan_wins_minimum_and_maximum_wherever_it_is() {
    let quiet_and_signed = [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xffc0_1234)];
    for op in ["min", "max"] {
        for (number, nan) in quiet_and_signed.into_iter().enumerate() {
            for (what, got) in
                one_of(op, 1027, 1.0f32, &[([0, 500, 1023, 1026][number], nan), (3, f32::INFINITY)])
            {
                assert!(got.as_ref().unwrap().is_nan(), "{what}: {got:?}");
            }
        }
        for (what, got) in one_of(op, 200, f64::NEG_INFINITY, &[(77, -f64::NAN)]) {
            assert!(got.as_ref().unwrap().is_nan(), "{what}: {got:?}");
        }
        for (what, got) in one_of(op, 200, f16::ONE, &[(199, f16::NAN)]) {
            assert!(got.as_ref().unwrap().is_nan(), "{what}: {got:?}");
        }
    }
}

#[test]
fn infinities_and_signs_come_out_of_every_operation_as_from_the_processor() {
    let (inf, tiny) = (f32::INFINITY, f32::MIN_POSITIVE);
    let cases: [Case<f32, f32>; 9] = [
        ("min", -1.0, &[(5, -inf), (6, inf)], -inf),
        ("max", -1.0, &[(5, -inf)], -1.0),
        ("max", -inf, &[], -inf),
        ("min", inf, &[(1026, f32::MAX)], f32::MAX),
        ("sum", 1.0, &[(1000, inf)], inf),
        ("mean", 1.0, &[(1000, -inf)], -inf),
        ("prod", 2.0, &[(0, -1.0)], -inf),
        ("prod", 1.0, &[(0, 1e30), (1, 1e30), (700, -1e-30), (1026, 1e-30)], -1.0),
        ("prod", 1.0, &[(0, tiny), (1, tiny), (2, 1.0 / tiny)], tiny),
    ];
    for (op, base, others, expected) in cases {
        for (what, got) in one_of(op, 1027, base, others) {
            let got = got.unwrap();
            let close = got == expected || (got / expected - 1.0).abs() < 1e-5;
            assert!(close, "{what}: {got}, expected {expected}");
        }
    }
    for (what, got) in one_of("sum", 100, 1.0f32, &[(3, inf), (90, -inf)]) {
        assert!(got.as_ref().unwrap().is_nan(), "{what}: {got:?}");
    }
    for (what, got) in one_of("max", 100, -1.0e300f64, &[(99, -0.5)]) {
        assert_eq!(got, Ok(-0.5), "{what}");
    }
    for (what, got) in one_of("min", 100, 1.0e-300f64, &[(99, 1.0e-301), (3, 2.0)]) {
        assert_eq!(got, Ok(1.0e-301), "{what}");
    }
    // Half of what f16 can hold, many times: the f32 behind it holds the sum, the result does not.
    for (what, got) in one_of("sum", 100, f16::from_f32(30000.0), &[]) {
        assert_eq!(got, Ok(f16::INFINITY), "{what}");
    }
    for (what, got) in one_of("mean", 100, f16::from_f32(30000.0), &[]) {
        assert_eq!(got, Ok(f16::from_f32(30000.0)), "{what}");
    }
}

#[test]
fn integers_are_exact_or_an_overflow() {
    let overflow = Err(LaunchError::Overflow { dtype: "i32" });
    let cases: [Case<i32, Result<i32, LaunchError>>; 13] = [
        ("min", i32::MAX, &[(7, i32::MIN)], Ok(i32::MIN)),
        ("max", i32::MIN, &[], Ok(i32::MIN)),
        ("max", i32::MIN, &[(1026, i32::MAX)], Ok(i32::MAX)),
        ("sum", 0, &[(0, i32::MAX), (1026, 1)], overflow.clone()),
        ("sum", 0, &[(0, i32::MAX), (1, i32::MAX), (900, i32::MIN), (1026, i32::MIN)], Ok(-2)),
        ("sum", 0, &[(0, i32::MIN)], Ok(i32::MIN)),
        ("sum", i32::MIN, &[], overflow.clone()),
        ("prod", 1, &[(0, 65536), (1026, 65536)], overflow.clone()),
        ("prod", 1, &[(0, 65536), (1, 65536), (1026, 0)], Ok(0)),
        ("prod", 1, &[(0, i32::MIN), (5, -1)], overflow.clone()),
        ("prod", 1, &[(0, i32::MIN), (5, -1), (1026, -1)], Ok(i32::MIN)),
        ("prod", -1, &[(3, 46341), (800, 46341)], overflow),
        ("prod", -1, &[(3, 46340), (800, 46340)], Ok(-(46340 * 46340))),
    ];
    for (op, base, others, expected) in cases {
        for (what, got) in one_of(op, 1027, base, others) {
            assert_eq!(got, expected, "{what}");
        }
    }
}

#[test]
fn a_long_sum_is_as_accurate_as_one_in_pairs() {
    let len = 16 << 20;
    let elements = vec![0.1f32; len];
    let exact = f64::from(0.1f32) * len as f64;
    for (what, got) in results(&format!("reduce.sum:f32:{len}"), &elements) {
        let error = (f64::from(got.unwrap()[0]) / exact - 1.0).abs();
        assert!(error < 1e-5, "{what}: {error:e}");
    }
    // One invocation's longest walk.
    let len = 1 << 20;
    let exact = f64::from(0.1f32) * len as f64;
    for (what, got) in results(&format!("reduce.mean:f32:{len}"), &elements[..len]) {
        let error = (f64::from(got.unwrap()[0]) * len as f64 / exact - 1.0).abs();
        assert!(error < 1e-5, "{what}: {error:e}");
    }
}

#[test]
fn an_operand_larger_than_a_binding_is_seen_in_parts() {
    // 64 Mi and one, cut within the axis; then rows, cut between them.
    let len = (64 << 20) + 1;
    let elements: Vec<i32> = (0..len).map(|at| at % 7 - 3).collect();
    let exact: i64 = elements.iter().map(|&value| i64::from(value)).sum();
    for (what, got) in results(&format!("reduce.sum:i32:{len}"), &elements) {
        assert_eq!(got.map(|out| i64::from(out[0])), Ok(exact), "{what}");
    }
    let rows = 1 << 10;
    let row = 1 << 16;
    for (what, got) in results(&format!("reduce.max:i32:{rows}x{row}:axis1"), &elements[..rows * row]) {
        assert_eq!(got.map(|out| out.iter().all(|&value| value == 3)), Ok(true), "{what}");
    }
}
