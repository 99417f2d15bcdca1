//! Every elementwise kernel at every point against the reference, special values, integer edges, accuracy.

use super::{facts, launch};
use trimtab_core::{
    BinaryOp, DType, DeviceFacts, Elementwise, ElementwiseOp, LaunchError, Point, Problem, UnaryOp,
};
use trimtab_cpu::Pool;
use trimtab_cpu::kernels::elementwise::kernels;
use trimtab_operands::Element;

/// Distance in units of the last place, of the type's smallest normal number near zero.
fn ulps<T: Element>(found: T, wanted: T) -> f64 {
    let (found, wanted) = (found.to_f64(), wanted.to_f64());
    if found == wanted || (found.is_nan() && wanted.is_nan()) {
        return 0.0;
    }
    if !found.is_finite() || !wanted.is_finite() {
        return f64::INFINITY;
    }
    let (epsilon, smallest) = match T::DTYPE {
        DType::F32 => (f64::from(f32::EPSILON), f64::from(f32::MIN_POSITIVE)),
        _ => (f64::EPSILON, f64::MIN_POSITIVE),
    };
    let unit = wanted.abs().max(smallest).log2().floor().exp2() * epsilon;
    (found - wanted).abs() / unit
}

fn operand<T: Element>(len: u64, seed: u64) -> Vec<T> {
    (0..len).map(|i| T::from_f64(((i * 37 + seed * 11) % 41) as f64 * 0.37 - 6.0 + seed as f64)).collect()
}

fn tolerance(op: ElementwiseOp, dtype: DType) -> f64 {
    match (op, dtype) {
        (_, DType::I32) => 0.0,
        // `4 + 3·|2u|` with |x| up to 10: see `math`.
        (ElementwiseOp::Unary(UnaryOp::Gelu), _) => 300.0,
        (ElementwiseOp::Unary(UnaryOp::Exp | UnaryOp::Log | UnaryOp::Tanh | UnaryOp::Sigmoid), _)
        | (ElementwiseOp::Binary(BinaryOp::Pow), _) => 4.0,
        _ => 0.0,
    }
}

fn compare<T: Element>(
    problem: &Elementwise,
    lhs: &[T],
    rhs: &[T],
    pool: &Pool,
    facts: &DeviceFacts,
) -> usize {
    let (kernels, erased) = (kernels(), Problem::from(*problem));
    let reference = kernels.last().unwrap();
    let wanted = launch(reference.as_ref(), &erased, &Point::EMPTY, lhs, rhs, pool);
    let mut points = 0;
    for kernel in &kernels {
        let space = kernel.space(&erased, facts);
        assert!(space.points().len() <= 24, "{problem}: {} points", space.points().len());
        assert_eq!(space.points().is_empty(), kernel.declines(&erased, facts).is_some());
        for point in space.points() {
            let label = format!("{problem} {} {}", kernel.info().name, space.name(point));
            points += 1;
            match (&wanted, launch(kernel.as_ref(), &erased, point, lhs, rhs, pool)) {
                (Ok(wanted), Ok(found)) => {
                    for (i, (&found, &wanted)) in found.iter().zip(wanted).enumerate() {
                        let error = ulps(found, wanted);
                        let limit = tolerance(problem.op, T::DTYPE);
                        assert!(error <= limit, "{label} [{i}]: {found} for {wanted}, {error} ulp");
                    }
                }
                (wanted, found) => assert_eq!(wanted.as_ref().err(), found.as_ref().err(), "{label}"),
            }
            let work = kernel.work(&erased, point, facts);
            assert!(work.threads >= 1 && (work.threads > 1) == (work.launches > 0), "{label} {work:?}");
        }
    }
    points
}

const UNARY: [u64; 12] = [0, 1, 2, 7, 15, 16, 17, 63, 64, 65, 257, 40_003];

#[test]
fn every_kernel_at_every_point_agrees_with_the_reference_on_unary_functions() {
    let (pool, facts) = (Pool::new(2), facts());
    for op in UnaryOp::ALL {
        for len in UNARY {
            for dtype in [DType::F32, DType::F64, DType::I32] {
                let Ok(problem) = Elementwise::unary(op, dtype, &[len]) else { continue };
                match dtype {
                    DType::F32 => compare::<f32>(&problem, &operand(len, 1), &[], &pool, &facts),
                    DType::F64 => compare::<f64>(&problem, &operand(len, 1), &[], &pool, &facts),
                    DType::I32 => compare::<i32>(&problem, &operand(len, 1), &[], &pool, &facts),
                    _ => unreachable!("not among those compared"),
                };
            }
        }
    }
}

#[test]
fn every_kernel_at_every_point_agrees_with_the_reference_whatever_is_broadcast() {
    let (pool, facts) = (Pool::new(2), facts());
    let shapes: [(&[u64], &[u64]); 16] = [
        (&[], &[]),
        (&[0], &[0]),
        (&[0, 3], &[3]),
        (&[1], &[1]),
        (&[33], &[33]),
        (&[33], &[1]),
        (&[1], &[129]),
        (&[5, 1], &[1, 3]),
        (&[7, 3], &[3]),
        (&[31, 65], &[65]),
        (&[31, 65], &[31, 1]),
        (&[1, 65], &[31, 1]),
        (&[2, 1, 4, 17], &[1, 3, 1, 17]),
        (&[2, 1, 3, 1, 2, 1], &[1, 2, 1, 2, 1, 3]),
        (&[203, 201], &[201]),
        (&[40_961], &[40_961]),
    ];
    let mut points = 0;
    for op in BinaryOp::ALL {
        for (lhs, rhs) in shapes {
            for dtype in [DType::F32, DType::F64, DType::I32] {
                let problem = Elementwise::binary(op, dtype, lhs, rhs).unwrap();
                let (left, right) = (problem.lhs_len(), problem.rhs_len());
                points += match dtype {
                    DType::F32 => {
                        compare::<f32>(&problem, &operand(left, 1), &operand(right, 3), &pool, &facts)
                    }
                    DType::F64 => {
                        compare::<f64>(&problem, &operand(left, 1), &operand(right, 3), &pool, &facts)
                    }
                    DType::I32 => {
                        compare::<i32>(&problem, &operand(left, 1), &operand(right, 8), &pool, &facts)
                    }
                    _ => unreachable!("not among those compared"),
                };
            }
        }
    }
    assert!(points > 1000, "{points}");
}

#[test]
fn special_values_are_right_in_every_kernel() {
    let (pool, mut facts) = (Pool::new(1), facts());
    facts.threads = 1;
    macro_rules! check {
        ($type:ident) => {
            let tiny = $type::from_bits(1);
            let special = [
                0.0,
                -0.0,
                1.0,
                -1.0,
                0.5,
                -0.5,
                2.0,
                -2.0,
                3.0,
                -3.0,
                2.5,
                1e9,
                -1e9,
                1e30,
                -1e30,
                88.7,
                -87.5,
                -95.0,
                -103.5,
                700.0,
                -740.0,
                tiny,
                -tiny,
                $type::MIN_POSITIVE,
                $type::MAX,
                $type::MIN,
                $type::INFINITY,
                $type::NEG_INFINITY,
                $type::NAN,
                $type::EPSILON,
                16_777_217.0,
                -16_777_215.0,
            ];
            for op in UnaryOp::ALL {
                if op == UnaryOp::Gelu {
                    continue; // below, with its own tolerance
                }
                let problem = Elementwise::unary(op, $type::DTYPE, &[special.len() as u64]).unwrap();
                compare::<$type>(&problem, &special, &[], &pool, &facts);
            }
            let (mut lhs, mut rhs) = (vec![], vec![]);
            for a in special {
                for b in special {
                    lhs.push(a);
                    rhs.push(b);
                }
            }
            for op in BinaryOp::ALL {
                let problem =
                    Elementwise::binary(op, $type::DTYPE, &[lhs.len() as u64], &[rhs.len() as u64]).unwrap();
                compare::<$type>(&problem, &lhs, &rhs, &pool, &facts);
            }
            let gelu = Elementwise::unary(UnaryOp::Gelu, $type::DTYPE, &[6]).unwrap();
            let x = [$type::INFINITY, $type::NEG_INFINITY, $type::NAN, 0.0, -1e30, 1e30];
            for kernel in kernels() {
                for point in kernel.space(&gelu.into(), &facts).points() {
                    let y = launch(kernel.as_ref(), &gelu.into(), point, &x, &[], &pool).unwrap();
                    assert!(y[0] == $type::INFINITY && y[1] == 0.0 && y[2].is_nan(), "{y:?}");
                    assert!(y[3] == 0.0 && y[4] == 0.0 && y[5] == x[5], "{y:?}");
                }
            }
        };
    }
    check!(f32);
    check!(f64);
}

#[test]
fn signs_of_zero_survive_where_the_function_keeps_them() {
    let (pool, facts) = (Pool::new(1), facts());
    for op in [UnaryOp::Tanh, UnaryOp::Sqrt, UnaryOp::Neg] {
        let problem: Problem = Elementwise::unary(op, DType::F32, &[20]).unwrap().into();
        for kernel in kernels() {
            for point in kernel.space(&problem, &facts).points() {
                let y = launch(kernel.as_ref(), &problem, point, &[-0.0f32; 20], &[], &pool).unwrap();
                let negative = op != UnaryOp::Neg;
                assert!(y.iter().all(|y| *y == 0.0 && y.is_sign_negative() == negative), "{}", op.name());
            }
        }
    }
}

#[test]
fn integers_wrap_and_negative_powers_round_toward_zero() {
    let (pool, facts) = (Pool::new(2), facts());
    let edge = [i32::MIN, i32::MAX, -1, 1, 2, -2, 3, 46_341, -7];
    let mut wide: Vec<i32> = Vec::new();
    let mut other: Vec<i32> = Vec::new();
    for a in edge {
        for b in edge {
            wide.push(a);
            other.push(b);
        }
    }
    // Long enough that the parallel kernel takes it.
    let (wide, other) = (wide.repeat(500), other.repeat(500));
    for op in BinaryOp::ALL {
        let len = wide.len() as u64;
        let problem = Elementwise::binary(op, DType::I32, &[len], &[len]).unwrap();
        compare::<i32>(&problem, &wide, &other, &pool, &facts);
    }
    let one = |op, a: i32, b: i32| {
        let problem: Problem = Elementwise::binary(op, DType::I32, &[1], &[1]).unwrap().into();
        let reference = kernels().pop().unwrap();
        launch(reference.as_ref(), &problem, &Point::EMPTY, &[a], &[b], &pool).map(|out| out[0])
    };
    assert_eq!(one(BinaryOp::Div, i32::MIN, -1), Ok(i32::MIN));
    assert_eq!(one(BinaryOp::Pow, -1, -3), Ok(-1));
    assert_eq!(one(BinaryOp::Pow, -1, i32::MIN), Ok(1));
    assert_eq!(one(BinaryOp::Pow, 1, -9), Ok(1));
    assert_eq!(one(BinaryOp::Pow, 2, -1), Ok(0));
    assert_eq!(one(BinaryOp::Pow, 0, 0), Ok(1));
    assert!(one(BinaryOp::Pow, 0, -1).is_err());
}

#[test]
fn a_division_by_zero_fails_with_its_first_index_in_every_kernel() {
    let (pool, facts) = (Pool::new(2), facts());
    let len = 60_000u64;
    let lhs = vec![0i32; len as usize];
    for (op, zero, text) in [
        (BinaryOp::Div, 0, "division by zero at element 7;"),
        (BinaryOp::Pow, -1, "zero to a negative power at element 7;"),
    ] {
        let mut rhs = vec![1i32; len as usize];
        rhs[7] = zero;
        rhs[59_000] = zero;
        let problem: Problem = Elementwise::binary(op, DType::I32, &[len], &[len]).unwrap().into();
        for kernel in kernels() {
            for point in kernel.space(&problem, &facts).points() {
                let error = launch(kernel.as_ref(), &problem, point, &lhs, &rhs, &pool).unwrap_err();
                assert!(error.to_string().starts_with(text), "{error}");
            }
        }
    }
}

/// The largest error of a function over many arguments, per number of lanes.
fn worst<T: Element>(op: ElementwiseOp, x: &[T], y: &[T], weight: impl Fn(f64) -> f64) -> f64 {
    let pool = Pool::new(1);
    let len = x.len() as u64;
    let problem: Problem = match op {
        ElementwiseOp::Unary(op) => Elementwise::unary(op, T::DTYPE, &[len]).unwrap().into(),
        ElementwiseOp::Binary(op) => Elementwise::binary(op, T::DTYPE, &[len], &[len]).unwrap().into(),
    };
    let kernels = kernels();
    let wanted = launch(kernels.last().unwrap().as_ref(), &problem, &Point::EMPTY, x, y, &pool).unwrap();
    let mut worst = 0.0;
    // Every level the processor has, also those the space leaves out.
    for lanes in [16, 8, 4] {
        let point = Point::new(&[lanes, 1, 1, 0]);
        let Ok(found) = launch(kernels[0].as_ref(), &problem, &point, x, y, &pool) else { continue };
        for ((&found, &wanted), x) in found.iter().zip(&wanted).zip(x) {
            worst = f64::max(worst, ulps(found, wanted) / weight(x.to_f64()));
        }
    }
    println!("{} {}: {worst:.2} ulp", op.name(), T::DTYPE);
    worst
}

#[test]
fn functions_are_accurate_to_the_stated_ulps_over_wide_ranges() {
    let spread = |low: f64, high: f64| {
        (0..60_000).map(move |i| low + (high - low) * (f64::from(i) + 0.137) / 60_000.0)
    };
    let ranges = [(-110.0, 92.0), (-1.0, 1.0), (-1e-3, 1e-3), (-12.0, 12.0), (-750.0, 715.0)];
    let all: Vec<f64> = ranges.into_iter().flat_map(|(low, high)| spread(low, high)).collect();
    let single: Vec<f32> = all.iter().map(|&x| x as f32).collect();
    let positive: Vec<f64> =
        spread(-1073.9, 1023.9).map(f64::exp2).chain(spread(0.5, 2.0)).chain(spread(0.99, 1.01)).collect();
    let positive_single: Vec<f32> =
        spread(-148.9, 127.9).map(|e| e.exp2() as f32).chain(spread(0.5, 2.0).map(|x| x as f32)).collect();
    for op in [UnaryOp::Exp, UnaryOp::Tanh, UnaryOp::Sigmoid] {
        assert!(worst::<f32>(ElementwiseOp::Unary(op), &single, &[], |_| 1.0) <= 4.0, "{}", op.name());
        assert!(worst::<f64>(ElementwiseOp::Unary(op), &all, &[], |_| 1.0) <= 4.0, "{}", op.name());
    }
    let log = ElementwiseOp::Unary(UnaryOp::Log);
    assert!(worst::<f32>(log, &positive_single, &[], |_| 1.0) <= 3.0);
    assert!(worst::<f64>(log, &positive, &[], |_| 1.0) <= 3.0);
    let gelu = ElementwiseOp::Unary(UnaryOp::Gelu);
    // 2·√(2/π), and that times 0.044715.
    const GELU: (f64, f64) = (1.595_769_121_605_730_9, 0.071_354_816_272_600_24);
    let inner = |x: f64| 4.0 + 3.0 * (x * (GELU.0 + GELU.1 * x * x)).abs();
    assert!(worst::<f32>(gelu, &single, &[], inner) <= 1.0);
    // The reference of f64 has an error of the same size.
    assert!(worst::<f64>(gelu, &all, &[], inner) <= 2.0);
    let exponents: Vec<f32> =
        (0..positive_single.len()).map(|i| (i * 7919 % 4001) as f32 * 0.01 - 20.0).collect();
    assert!(worst::<f32>(ElementwiseOp::Binary(BinaryOp::Pow), &positive_single, &exponents, |_| 1.0) <= 1.0);
}

#[test]
fn operands_that_are_not_the_problems_are_refused_by_every_kernel() {
    let (pool, facts) = (Pool::new(1), facts());
    let problem: Problem = "elementwise.add:f32:100x65,65".parse().unwrap();
    for kernel in kernels() {
        for point in kernel.space(&problem, &facts).points() {
            let short = launch(kernel.as_ref(), &problem, point, &[0f32; 6499], &[0f32; 65], &pool);
            assert!(matches!(short, Err(LaunchError::Operand { operand: "lhs", .. })), "{short:?}");
            let typed = launch(kernel.as_ref(), &problem, point, &[0f64; 6500], &[0f64; 65], &pool);
            assert!(matches!(typed, Err(LaunchError::Operand { .. })), "{typed:?}");
        }
        let nonsense = Point::new(&[3; 4][..kernel.space(&problem, &facts).axes().len()]);
        let outcome = launch(kernel.as_ref(), &problem, &nonsense, &[0f32; 6500], &[0f32; 65], &pool);
        assert_eq!(outcome.is_err(), !nonsense.values().is_empty(), "{}", kernel.info().name);
    }
}

#[test]
fn tiny_problems_are_not_offered_threads_and_large_ones_are_offered_streams() {
    let facts = facts();
    let points = |text: &str| {
        let (kernel, problem) = (&kernels()[0], text.parse::<Problem>().unwrap());
        let space = kernel.space(&problem, &facts);
        space.points().iter().map(|point| space.name(point)).collect::<Vec<_>>()
    };
    assert!(
        points("elementwise.add:f32:16").iter().all(|p| p.contains("threads=1") && p.contains("stream=0"))
    );
    let large = points("elementwise.add:f32:1048576");
    assert!(large.iter().any(|p| p.contains("threads=2")));
    // Stores past the caches exist where there are vectors of eight.
    assert_eq!(large.iter().any(|p| p.contains("stream=1")), large.iter().any(|p| p.contains("lanes=8")));
}
