//! Conformance: every kernel at every point agrees with the reference on a table of shapes.

use trimtab_core::{
    Bytes, Cache, DType, DeviceFacts, DeviceKind, Fingerprint, Habits, LaunchError, Matmul, Operand, Point,
    Problem,
};
use trimtab_cpu::kernels::{Kernels, matmul::kernels};
use trimtab_cpu::{Args, Pool};
use trimtab_operands::{Element, Slice};

/// Ours, and those around each CBLAS that is found or named.
fn all_kernels() -> Kernels {
    kernels(&trimtab_testing::blas_libraries())
}

fn device(threads: u32) -> DeviceFacts {
    let cache = |level, kib: u64| Cache { level, size: Bytes(kib << 10), shared_by: 1, line: 64 };
    DeviceFacts {
        adapter: None,
        id: "cpu".to_string(),
        name: "test".to_string(),
        kind: DeviceKind::Cpu,
        habits: Habits::HOST,
        fingerprint: Fingerprint("test".to_string()),
        cores: None,
        threads,
        caches: vec![cache(1, 32), cache(2, 64)],
        vector_bytes: None,
        features: Vec::new(),
        numa_nodes: None,
        memory: None,
        notes: Vec::new(),
    }
}

/// A small generator: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Integers from -3 to 3: sums stay exact in f32.
    fn integers<T: Element>(&mut self, len: u64) -> Vec<T> {
        (0..len).map(|_| T::from_f64((self.next() % 7) as f64 - 3.0)).collect()
    }

    /// Reals from -1 to 1.
    fn reals<T: Element>(&mut self, len: u64) -> Vec<T> {
        (0..len).map(|_| T::from_f64((self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0)).collect()
    }
}

fn run<T: Element>(
    kernel: &dyn trimtab_core::AnyKernel<trimtab_cpu::Cpu>,
    problem: &Matmul,
    point: &Point,
    lhs: &[T],
    rhs: &[T],
    pool: &Pool,
) -> Result<Vec<T>, LaunchError> {
    // What is in the result before must not leak.
    let mut out = vec![T::from_f64(f64::NAN); problem.out_len() as usize];
    let args = Args { inputs: &[T::erase(lhs), T::erase(rhs)], out: T::erase_mut(&mut out), pool };
    kernel.launch(&Problem::Matmul(*problem), point, args)?;
    Ok(out)
}

const OPERANDS: [Operand; 2] = [Operand::PLAIN, Operand::TRANSPOSED];

/// (batch, m, n, k)
const SHAPES: &[(u64, u64, u64, u64)] = &[
    (1, 0, 3, 2),
    (1, 3, 0, 2),
    (1, 3, 2, 0),
    (0, 2, 2, 2),
    (1, 1, 1, 1),
    (1, 1, 1, 100),
    (1, 4, 4, 4),
    (1, 1, 37, 5),
    (1, 37, 1, 5),
    (1, 1, 5, 131),
    (1, 5, 1, 131),
    (1, 1, 300, 1),
    (1, 300, 1, 1),
    (1, 2, 3, 5),
    (1, 7, 11, 13),
    (1, 13, 17, 1),
    (1, 15, 31, 17),
    (1, 16, 32, 16),
    (1, 17, 33, 65),
    (1, 63, 65, 64),
    (1, 3, 130, 7),
    (1, 130, 3, 7),
    (1, 25, 50, 300),
    (3, 5, 7, 9),
    (7, 1, 9, 4),
    (33, 4, 4, 4),
];

/// Fewer, for thread counts and block sizes that small shapes do not reach.
const LARGE: &[(u64, u64, u64, u64)] = &[
    (1, 97, 161, 263),
    (1, 161, 97, 67),
    (2, 100, 120, 90),
    (1, 1, 2300, 500),
    (1, 2300, 1, 500),
    (1, 40, 700, 20),
];

fn problems(dtype: DType, shapes: &[(u64, u64, u64, u64)]) -> Vec<Matmul> {
    let mut problems = Vec::new();
    for &(batch, m, n, k) in shapes {
        for (lhs, rhs) in OPERANDS.into_iter().flat_map(|lhs| OPERANDS.map(|rhs| (lhs, rhs))) {
            let shared: &[(bool, bool)] = if batch > 1 {
                &[(false, false), (true, false), (false, true), (true, true)]
            } else {
                &[(false, false)]
            };
            for &(lhs_shared, rhs_shared) in shared {
                let lhs = Operand { shared: lhs_shared, ..lhs };
                let rhs = Operand { shared: rhs_shared, ..rhs };
                problems.push(Matmul::batched(dtype, batch, m, n, k, lhs, rhs).unwrap());
            }
        }
    }
    problems
}

fn conform<T: Element>(shapes: &[(u64, u64, u64, u64)]) {
    let (kernels, pool, mut random) = (all_kernels(), Pool::new(3), Random(1));
    let reference = kernels.last().unwrap();
    for problem in problems(T::DTYPE, shapes) {
        for exact in [true, false] {
            let make =
                |random: &mut Random, len| if exact { random.integers(len) } else { random.reals(len) };
            let lhs: Vec<T> = make(&mut random, problem.lhs_len());
            let rhs: Vec<T> = make(&mut random, problem.rhs_len());
            let expected = run(&**reference, &problem, &Point::EMPTY, &lhs, &rhs, &pool).unwrap();
            let unit = if T::DTYPE == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
            let tolerance = if exact { 0.0 } else { unit * (problem.k as f64 + 2.0) };
            for kernel in &kernels {
                let space = kernel.space(&problem.into(), &device(5));
                // Who gives up digits for time is held to what it states by the conformance tests, and has a few settings more.
                let states = |point| kernel.work(&problem.into(), point, &device(5)).error;
                let is_exact = space.points().iter().all(|point| states(point) == 0.0);
                assert!(
                    space.points().len() <= if is_exact { 24 } else { 54 },
                    "{} has {} points",
                    kernel.info().name,
                    space.points().len()
                );
                // Real data tell about rounding only, which blocks and threads hardly change.
                let points = space.points().iter().filter(|_| exact || is_exact);
                for point in points.take(if exact { usize::MAX } else { 2 }) {
                    let found = run(&**kernel, &problem, point, &lhs, &rhs, &pool).unwrap();
                    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
                        let (found, expected) = (found.to_f64(), expected.to_f64());
                        assert!(
                            (found - expected).abs() <= tolerance,
                            "{} {} {problem} [{at}]: {found} for {expected}",
                            kernel.info().name,
                            space.name(point),
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn every_kernel_agrees_with_the_reference_at_every_point_in_f32() {
    conform::<f32>(SHAPES);
}

#[test]
fn every_kernel_agrees_with_the_reference_at_every_point_in_f64() {
    conform::<f64>(SHAPES);
}

#[test]
fn every_kernel_agrees_with_the_reference_where_blocks_and_threads_matter() {
    conform::<f32>(LARGE);
    conform::<f64>(&LARGE[..2]);
}

#[test]
fn a_not_a_number_or_infinity_in_an_operand_reaches_the_result_even_times_zero() {
    let pool = Pool::new(1);
    for problem in problems(DType::F32, &[(1, 3, 5, 7), (1, 1, 20, 9), (1, 20, 1, 9)]) {
        for special in [f32::NAN, f32::INFINITY] {
            let mut lhs = vec![1.0f32; problem.lhs_len() as usize];
            lhs[0] = special;
            let rhs = vec![0.0f32; problem.rhs_len() as usize];
            for kernel in all_kernels() {
                for point in kernel.space(&problem.into(), &device(1)).points() {
                    let out = run(&*kernel, &problem, point, &lhs, &rhs, &pool).unwrap();
                    // The first stored element belongs to the first row whichever way the operand is stored.
                    let row = problem.n as usize;
                    assert!(
                        out[..row].iter().all(|value| value.is_nan()),
                        "{} {problem}",
                        kernel.info().name
                    );
                    assert!(out[row..].iter().all(|&value| value == 0.0), "{} {problem}", kernel.info().name);
                }
            }
        }
    }
}

#[test]
fn operands_of_the_wrong_length_or_type_are_refused() {
    let pool = Pool::new(1);
    let problem = Matmul::new(DType::F32, 1, 3, 4).unwrap();
    for kernel in all_kernels() {
        // Kernels of other types have no settings for these.
        let Some(&point) = kernel.space(&problem.into(), &device(1)).points().first() else { continue };
        let (four, twelve, twelve_doubles) = ([0.0f32; 4], [0.0f32; 12], [0.0f64; 12]);
        for (lhs, rhs, out) in [
            (Slice::F32(&four), Slice::F32(&four), 3),
            (Slice::F32(&twelve), Slice::F32(&twelve), 3),
            (Slice::F32(&four), Slice::F32(&twelve), 2),
            (Slice::F32(&four), Slice::F64(&twelve_doubles), 3),
            (Slice::None, Slice::F32(&twelve), 3),
        ] {
            let mut out = vec![0.0f32; out];
            let args = Args { inputs: &[lhs, rhs], out: f32::erase_mut(&mut out), pool: &pool };
            let outcome = kernel.launch(&problem.into(), &point, args);
            assert!(
                matches!(outcome, Err(LaunchError::Operand { .. })),
                "{}: {outcome:?}",
                kernel.info().name
            );
        }
    }
}

#[test]
fn sizes_whose_product_wraps_around_to_the_length_of_the_operands_are_refused() {
    let pool = Pool::new(1);
    let half = 1u64 << 32;
    // Written by hand: `Matmul::batched` refuses it. 2^32 · 2^32 wraps to 0, the length of an empty operand.
    let plain = Operand::PLAIN;
    let problem = Matmul { dtype: DType::F32, lhs: plain, rhs: plain, batch: 1, m: half, n: half, k: half };
    for kernel in all_kernels() {
        let small = Matmul::new(DType::F32, 1, 8, 8).unwrap();
        let Some(&point) = kernel.space(&small.into(), &device(1)).points().first() else { continue };
        let mut out: [f32; 0] = [];
        let args = Args { inputs: &[], out: f32::erase_mut(&mut out), pool: &pool };
        assert!(kernel.launch(&problem.into(), &point, args).is_err(), "{}", kernel.info().name);
    }
}

#[test]
fn a_point_of_other_settings_is_refused_or_computes_the_right_result() {
    let (pool, problem) = (Pool::new(2), Matmul::new(DType::F32, 1, 40, 50).unwrap());
    let mut random = Random(2);
    let (lhs, rhs) = (random.integers::<f32>(problem.lhs_len()), random.integers::<f32>(problem.rhs_len()));
    let kernels = all_kernels();
    let expected = run(&**kernels.last().unwrap(), &problem, &Point::EMPTY, &lhs, &rhs, &pool).unwrap();
    for kernel in &kernels {
        let axes = kernel.space(&problem.into(), &device(2)).axes().len();
        for _ in 0..200 {
            let values: Vec<u32> = (0..axes)
                .map(|_| [0, 1, 2, 3, 7, 128, 256, 512, u32::MAX][random.next() as usize % 9])
                .collect();
            if let Ok(found) = run(&**kernel, &problem, &Point::new(&values), &lhs, &rhs, &pool) {
                assert_eq!(found, expected, "{} {values:?}", kernel.info().name);
            }
        }
    }
}

#[test]
fn the_reference_comes_last_and_names_are_unique_and_the_work_is_counted() {
    let kernels = all_kernels();
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.info().name).collect();
    assert_eq!(names.last().unwrap(), "cpu.matmul.reference");
    for (nth, name) in names.iter().enumerate() {
        assert!(!names[..nth].contains(name), "{names:?}");
    }
    let problem = Matmul::new(DType::F64, 64, 64, 64).unwrap();
    for kernel in &kernels {
        for point in kernel.space(&problem.into(), &device(4)).points() {
            let work = kernel.work(&problem.into(), point, &device(4));
            assert_eq!(work.flops.0, 2 * 64 * 64 * 64, "{}", kernel.info().name);
            assert!(work.bytes.0 >= 3 * 64 * 64 * 8, "{}", kernel.info().name);
            assert_eq!(work.launches, u32::from(work.threads > 1), "{}", kernel.info().name);
        }
    }
}
