//! Every reduction kernel at every point against the reference, special values, overflow, accuracy of sums.

use super::{facts, launch};
use trimtab_core::{DType, DeviceFacts, LaunchError, Point, Problem, Reduce, ReduceOp};
use trimtab_cpu::kernels::reduce::kernels;
use trimtab_cpu::{Args, Pool};
use trimtab_operands::Element;

/// Floats agree within this share of the sum of absolute values (sums) or of the result (products): 2 ulp a block of 64.
const TOLERANCE: f64 = 64.0;

fn compare<T: Element>(problem: &Reduce, input: &[T], pool: &Pool, facts: &DeviceFacts) -> usize {
    let (kernels, erased) = (kernels(), Problem::from(*problem));
    let wanted = launch(kernels.last().unwrap().as_ref(), &erased, &Point::EMPTY, input, &[], pool);
    let epsilon = if T::DTYPE == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
    let size = input.iter().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
    let mut points = 0;
    for kernel in &kernels {
        let space = kernel.space(&erased, facts);
        assert!(space.points().len() <= 24, "{problem}");
        assert_eq!(space.points().is_empty(), kernel.declines(&erased, facts).is_some());
        for point in space.points() {
            points += 1;
            let label = format!("{problem} {} {}", kernel.info().name, space.name(point));
            match (&wanted, launch(kernel.as_ref(), &erased, point, input, &[], pool)) {
                (Ok(wanted), Ok(found)) => {
                    for (found, wanted) in found.iter().zip(wanted) {
                        let scale = match problem.op {
                            ReduceOp::Sum => size * problem.len as f64,
                            ReduceOp::Mean => size,
                            ReduceOp::Prod => wanted.to_f64().abs().max(1e-30) * problem.len as f64,
                            _ => 0.0,
                        };
                        let exact = T::DTYPE == DType::I32 || scale == 0.0;
                        let limit = if exact { 0.0 } else { scale * epsilon * TOLERANCE };
                        let (found, wanted) = (found.to_f64(), wanted.to_f64());
                        let same = found == wanted || (found.is_nan() && wanted.is_nan());
                        assert!(same || (found - wanted).abs() <= limit, "{label}: {found} for {wanted}");
                    }
                }
                (wanted, found) => assert_eq!(wanted.as_ref().err(), found.as_ref().err(), "{label}"),
            }
        }
    }
    points
}

fn operand<T: Element>(len: u64, op: ReduceOp) -> Vec<T> {
    let value = |i: u64| match op {
        ReduceOp::Prod if T::DTYPE == DType::I32 => [1.0, -1.0, 1.0, 1.0, 2.0][(i % 97 % 5) as usize],
        ReduceOp::Prod => 0.9 + ((i * 37) % 41) as f64 * 0.005,
        _ => ((i * 37) % 41) as f64 * 0.77 - 13.0,
    };
    (0..len).map(|i| T::from_f64(value(i))).collect()
}

#[test]
fn every_kernel_at_every_point_agrees_with_the_reference() {
    let (pool, facts) = (Pool::new(2), facts());
    let shapes: [(u64, u64, u64); 24] = [
        (1, 0, 1),
        (0, 5, 1),
        (3, 0, 4),
        (1, 5, 0),
        (1, 1, 1),
        (1, 7, 1),
        (1, 16, 1),
        (1, 17, 1),
        (1, 63, 1),
        (1, 1023, 1),
        (1, 4097, 1),
        (1, 70_001, 1),
        (5, 33, 1),
        (3, 20_011, 1),
        (2, 40_009, 1),
        (700, 101, 1),
        (1, 5, 2),
        (1, 33, 3),
        (4, 65, 17),
        (2, 3, 513),
        (1, 40, 5000),
        (1, 300, 301),
        (70_000, 1, 1),
        (1, 1, 70_000),
    ];
    let mut points = 0;
    for op in ReduceOp::ALL {
        for (outer, len, inner) in shapes {
            for dtype in [DType::F32, DType::F64, DType::I32] {
                if op == ReduceOp::Mean && dtype == DType::I32 {
                    continue;
                }
                let problem = Reduce { op, dtype, outer, len, inner };
                let count = problem.input_len();
                points += match dtype {
                    DType::F32 => compare::<f32>(&problem, &operand(count, op), &pool, &facts),
                    DType::F64 => compare::<f64>(&problem, &operand(count, op), &pool, &facts),
                    DType::I32 => compare::<i32>(&problem, &operand(count, op), &pool, &facts),
                    _ => unreachable!("not among those compared"),
                };
            }
        }
    }
    assert!(points > 1000, "{points}");
}

#[test]
fn parts_of_a_sum_may_be_larger_than_the_element_type_holds() {
    let (pool, facts) = (Pool::new(2), facts());
    for (outer, len, inner) in [(1, 100, 1), (1, 70_001, 1), (700, 101, 1), (1, 300, 301)] {
        let problem = Reduce { op: ReduceOp::Mean, dtype: DType::F32, outer, len, inner };
        let input = vec![3e38f32; problem.input_len() as usize];
        for kernel in kernels() {
            for point in kernel.space(&problem.into(), &facts).points() {
                let found = launch(kernel.as_ref(), &problem.into(), point, &input, &[], &pool).unwrap();
                assert!(found.iter().all(|&mean| mean == 3e38), "{problem} {} {point:?}", kernel.info().name);
            }
        }
        // Terms that cancel.
        let problem = Reduce { op: ReduceOp::Sum, ..problem };
        let sign = |i: u64| if i / inner % len < len / 2 { 3e38 } else { -3e38 };
        let input: Vec<f32> = (0..problem.input_len()).map(sign).collect();
        compare(&problem, &input, &pool, &facts);
    }
}

#[test]
fn a_nan_wins_and_infinities_stay_wherever_they_are() {
    let (pool, facts) = (Pool::new(2), facts());
    for op in ReduceOp::ALL {
        for (outer, len, inner) in [(1, 257, 1), (1, 70_001, 1), (1, 257, 9), (3, 65, 70)] {
            let problem = Reduce { op, dtype: DType::F32, outer, len, inner };
            for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                for at in [0, 100, problem.input_len() as usize - 1] {
                    let mut input = operand::<f32>(problem.input_len(), op);
                    input[at] = special;
                    compare::<f32>(&problem, &input, &pool, &facts);
                    let double: Vec<f64> = input.iter().map(|&x| f64::from(x)).collect();
                    compare::<f64>(&Reduce { dtype: DType::F64, ..problem }, &double, &pool, &facts);
                }
            }
        }
    }
}

#[test]
fn integer_results_are_exact_or_overflow_in_every_kernel() {
    let (pool, facts) = (Pool::new(2), facts());
    let overflow = |op, outer, len, inner, input: &[i32]| {
        let problem = Reduce { op, dtype: DType::I32, outer, len, inner };
        compare::<i32>(&problem, input, &pool, &facts);
        let reference = kernels().pop().unwrap();
        launch(reference.as_ref(), &problem.into(), &Point::EMPTY, input, &[], &pool)
    };
    let failed = Err(LaunchError::Overflow { dtype: "i32" });
    assert_eq!(overflow(ReduceOp::Sum, 1, 2, 1, &[i32::MAX, 1]), failed);
    assert_eq!(overflow(ReduceOp::Sum, 1, 3, 1, &[i32::MAX, 1, -1]), Ok(vec![i32::MAX]));
    assert_eq!(overflow(ReduceOp::Prod, 1, 3, 1, &[i32::MIN, -1, -1]), Ok(vec![i32::MIN]));
    assert_eq!(overflow(ReduceOp::Prod, 1, 2, 1, &[i32::MIN, -1]), failed);
    assert_eq!(overflow(ReduceOp::Prod, 1, 2, 2, &[i32::MAX, 3, i32::MAX, 5]), failed);
    let mut many = vec![i32::MAX; 80_000];
    assert_eq!(overflow(ReduceOp::Prod, 1, 80_000, 1, &many), failed);
    assert_eq!(overflow(ReduceOp::Sum, 1, 80_000, 1, &many), failed);
    assert_eq!(overflow(ReduceOp::Sum, 800, 100, 1, &many), failed);
    assert_eq!(overflow(ReduceOp::Sum, 1, 400, 200, &many), failed);
    many[77_000] = 0;
    assert_eq!(overflow(ReduceOp::Prod, 1, 80_000, 1, &many), Ok(vec![0]));
}

#[test]
fn long_sums_are_at_least_as_accurate_as_pairwise() {
    let (pool, facts) = (Pool::new(2), facts());
    let input = vec![0.1f32; 10_000_000];
    for (outer, len, inner) in [(1, 10_000_000, 1), (1, 1_000_000, 10)] {
        let problem: Problem = Reduce { op: ReduceOp::Sum, dtype: DType::F32, outer, len, inner }.into();
        let wanted = f64::from(0.1f32) * len as f64;
        for kernel in kernels().iter().rev().skip(1) {
            let space = kernel.space(&problem, &facts);
            for point in space.points() {
                let found = launch(kernel.as_ref(), &problem, point, &input, &[], &pool).unwrap();
                for found in found {
                    let error = (f64::from(found) / wanted - 1.0).abs();
                    let label = format!("{} {}", kernel.info().name, space.name(point));
                    assert!(error < 1e-6, "{label}: {found} for {wanted}, {error:e}");
                }
            }
        }
    }
}

#[test]
fn an_extreme_of_nothing_and_sizes_past_counting_are_errors_not_panics() {
    let (pool, facts) = (Pool::new(1), facts());
    for inner in [1, 4] {
        let problem = Reduce { op: ReduceOp::Min, dtype: DType::F32, outer: 2, len: 0, inner };
        compare::<f32>(&problem, &[], &pool, &facts);
    }
    let problem: Problem =
        Reduce { op: ReduceOp::Sum, dtype: DType::F32, outer: 1 << 33, len: 1 << 31, inner: 1 }.into();
    for (kernel, point) in kernels().iter().zip([&[16u32, 4, 1024][..], &[2, 64], &[64, 1], &[]]) {
        let mut out = [0f32; 4];
        let args = Args { inputs: &[f32::erase(&[])], out: f32::erase_mut(&mut out), pool: &pool };
        assert!(kernel.launch(&problem, &Point::new(point), args).is_err());
    }
}
