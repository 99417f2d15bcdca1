//! Right kernels give right results, on shapes that fit no tile; counters are what theory says.

mod support;

use support::*;
use trimtab_ptx::{Counters, GlobalMemory, GridLaunch, Module};

/// Shapes that fit, and shapes that do not.
const SHAPES: [(usize, usize, usize); 7] =
    [(1, 1, 1), (16, 16, 16), (17, 5, 33), (40, 37, 29), (3, 70, 1), (64, 32, 8), (33, 47, 65)];

fn multiply(
    file: &str,
    kernel: &str,
    tile: usize,
    block: [u32; 3],
    (m, n, k): (usize, usize, usize),
) -> Counters {
    let mut memory = memory();
    let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
    let (at_a, at_b) = (upload(&mut memory, &a), upload(&mut memory, &b));
    let at_c = empty::<f32>(&mut memory, m * n);
    let grid = [n.div_ceil(tile) as u32, m.div_ceil(tile) as u32, 1];
    let launch =
        GridLaunch::new(grid, block).u64(at_a).u64(at_b).u64(at_c).u32(m as u32).u32(n as u32).u32(k as u32);
    let counters = run(&module(file), kernel, &mut memory, &launch);
    let what = format!("{kernel} {m}x{n}x{k}");
    assert_close(&download(&memory, at_c, m * n), &product(&a, &b, m, n, k), 1e-5, &what);
    counters
}

#[test]
fn products_are_right_on_ragged_shapes() {
    for shape in SHAPES {
        multiply("matmul", "naive", 16, [16, 16, 1], shape);
        multiply("tiled", "tiled", 16, [16, 16, 1], shape);
        multiply("matmul", "blocked", 32, [64, 1, 1], shape);
    }
}

#[test]
fn asynchronous_copies_bring_what_was_asked_for() {
    for (m, n, k) in [(1, 4, 4), (32, 32, 16), (33, 36, 40), (50, 8, 20)] {
        multiply("copies", "async_matmul", 32, [128, 1, 1], (m, n, k));
    }
}

#[test]
fn multiply_adds_and_loads_are_counted() {
    let counters = multiply("matmul", "naive", 16, [16, 16, 1], (32, 32, 32));
    assert_eq!(counters.fused_multiply_adds, 32 * 32 * 32);
    assert_eq!((counters.blocks, counters.barriers, counters.shared_requests), (4, 0, 0));
    // A warp is two rows of 16: two words of a, one run of 64 bytes of b.
    assert_eq!(counters.global_requests, 32 * (2 * 32 + 1));
    assert_eq!(counters.global_sectors, 32 * 32 * (2 + 2) + 32 * 4);
    let tiled = multiply("tiled", "tiled", 16, [16, 16, 1], (32, 32, 32));
    assert_eq!(tiled.barriers, 4 * 4);
    assert_eq!(tiled.simt_efficiency(), 1.0);
}

fn transpose(file: &str, h: usize, w: usize) -> Counters {
    let mut memory = memory();
    let x = numbers(h * w, 3);
    let (from, to) = (upload(&mut memory, &x), empty::<f32>(&mut memory, h * w));
    let grid = [w.div_ceil(32) as u32, h.div_ceil(32) as u32, 1];
    let launch = GridLaunch::new(grid, [32, 8, 1]).u64(from).u64(to).u32(h as u32).u32(w as u32);
    let counters = run(&module(file), "transpose", &mut memory, &launch);
    let y: Vec<f32> = download(&memory, to, h * w);
    assert!((0..h * w).all(|at| y[at % w * h + at / w] == x[at]));
    counters
}

#[test]
fn bank_conflicts_are_seen_and_padding_removes_them() {
    for (h, w) in [(1, 1), (31, 65), (64, 64)] {
        transpose("transpose", h, w);
    }
    let (padded, unpadded) = (transpose("transpose", 64, 64), transpose("transpose_unpadded", 64, 64));
    assert_eq!(padded.bank_conflicts(), 1.0);
    // Half of the accesses conflict, 32 times each.
    assert_eq!(unpadded.bank_conflicts(), 16.5);
    assert_eq!((padded.coalescing(), unpadded.coalescing()), (1.0, 1.0));
}

#[test]
fn reductions_add_up_with_shuffles_and_atomics() {
    for n in [1, 3, 31, 1000, 4099] {
        let mut memory = memory();
        let x = numbers(n, 4);
        let (from, to) = (upload(&mut memory, &x), upload(&mut memory, &[0f32]));
        let mut launch = GridLaunch::new([3, 1, 1], [128, 1, 1]).u64(from).u64(to).u32(n as u32);
        launch.dynamic_shared = 16;
        let counters = run(&module("others"), "reduce", &mut memory, &launch);
        let sum: f64 = x.iter().map(|x| f64::from(*x)).sum();
        assert_close(&download(&memory, to, 1), &[sum], 1e-4, &format!("sum of {n}"));
        assert_eq!((counters.atomics, counters.shuffles), (3, 3 * 5 * 5));
    }
}

#[test]
fn functions_of_the_math_library_are_right() {
    type Function = fn(f64) -> f64;
    let functions: [(Function, f32, f32); 12] = [
        (f64::exp, -20.0, 20.0),
        (f64::ln, 1e-6, 1e6),
        (f64::sin, -1e6, 1e6),
        (f64::tanh, -9.0, 9.0),
        (f64::sqrt, 0.0, 1e9),
        (|x| 1.0 / x, 0.1, 1e9),
        (erf, -4.0, 4.0),
        (|x| x.powf(1.7f32.into()), 0.0, 1e3),
        (|x| 1.0 / x.sqrt(), 1e-3, 1e9),
        (f64::floor, -1e3, 1e3),
        (|x| x % f64::from(0.7f32), -1e3, 1e3),
        (|x| x / 3.0, -1e3, 1e3),
    ];
    let module = module("others");
    for (which, (function, least, most)) in functions.iter().enumerate() {
        let mut memory = memory();
        let x: Vec<f32> = numbers(777, 5).iter().map(|x| least + (x + 1.0) / 2.0 * (most - least)).collect();
        let (from, to) = (upload(&mut memory, &x), empty::<f32>(&mut memory, x.len()));
        let launch = GridLaunch::new([7, 1, 1], [128, 1, 1]).u64(from).u64(to).u32(777).u32(which as u32);
        run(&module, "functions", &mut memory, &launch);
        let y: Vec<f32> = download(&memory, to, x.len());
        for (x, y) in x.iter().zip(y) {
            let expected = function(f64::from(*x));
            let error = (f64::from(y) - expected).abs();
            assert!(error <= 4e-7 * expected.abs().max(1e-3), "function {which} of {x}: {y}, not {expected}");
        }
    }
}

/// Abramowitz and Stegun's series, enough terms for 4.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..120 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn doubles_are_computed_as_doubles() {
    let functions: [fn(f64) -> f64; 7] =
        [f64::exp, f64::ln, f64::sqrt, |x| 1.0 / x, |x| (x * 1e6).sin(), |x| x.powf(1.7), |x| x * x * x];
    for (which, function) in functions.iter().enumerate() {
        let mut memory = memory();
        let x: Vec<f64> = numbers(100, 6).iter().map(|x| f64::from(*x) + 1.5).collect();
        let (from, to) = (upload(&mut memory, &x), empty::<f64>(&mut memory, 100));
        let launch = GridLaunch::new([2, 1, 1], [64, 1, 1]).u64(from).u64(to).u32(100).u32(which as u32);
        run(&module("others"), "doubles", &mut memory, &launch);
        for (x, y) in x.iter().zip(download::<f64>(&memory, to, 100)) {
            let expected = function(*x);
            assert!(
                (y - expected).abs() <= 1e-15 * expected.abs().max(1.0),
                "{which} of {x}: {y}, not {expected}"
            );
        }
    }
}

#[test]
fn integers_are_as_in_rust() {
    let special = [1, -1, 7, -7, 255, 1 << 31, -(1 << 31), i64::MAX, i64::MIN + 1, 0x1234_5678_9abc];
    let pairs: Vec<(i64, i64)> = special.iter().flat_map(|x| special.iter().map(move |y| (*x, *y))).collect();
    let mut memory = memory();
    let a: Vec<i64> = pairs.iter().map(|pair| pair.0).collect();
    let b: Vec<i64> = pairs.iter().map(|pair| pair.1).collect();
    let (at_a, at_b) = (upload(&mut memory, &a), upload(&mut memory, &b));
    let to = empty::<i64>(&mut memory, 8 * a.len());
    let launch = GridLaunch::new([2, 1, 1], [64, 1, 1]).u64(at_a).u64(at_b).u64(to).u32(a.len() as u32);
    run(&module("others"), "integers", &mut memory, &launch);
    let got: Vec<i64> = download(&memory, to, 8 * a.len());
    for (at, (x, y)) in pairs.into_iter().enumerate() {
        let first_set = |x: i64| if x == 0 { 0 } else { i64::from(x.trailing_zeros()) + 1 };
        let expected = [
            x.wrapping_div(y),
            x.wrapping_rem(y),
            ((i128::from(x) * i128::from(y)) >> 64) as i64,
            i64::from(x as u32 / (y | 1) as u32) + i64::from((x as i32).wrapping_rem((y | 1) as i32)),
            i64::from(x.count_ones()) + i64::from(x.leading_zeros()) * 100 + first_set(x) * 10000,
            x.wrapping_shl(y as u32 & 63) ^ x >> (y & 31) ^ i64::from((x as u32).reverse_bits()),
            i64::from(x as i8) + i64::from(y as i16) * 3 + i64::from((x >> 8) as u8),
            (x as f64 as i64)
                .wrapping_add(y as i32 as f32 as i64)
                .wrapping_add(x.min(y))
                .wrapping_sub(i64::from((x as i32).max(y as i32)))
                .wrapping_add(if x > y { 7 } else { -7 }),
        ];
        assert_eq!(got[8 * at..8 * at + 8], expected, "{x} and {y}");
    }
}

#[test]
fn bytes_of_one_word_belong_to_different_threads() {
    let mut memory = memory();
    let x: Vec<u8> = numbers(5000, 7).iter().map(|x| ((x + 1.0) * 127.0) as u8).collect();
    let from = upload(&mut memory, &x);
    let (counts, flags) = (upload(&mut memory, &[0u32; 256]), empty::<u8>(&mut memory, x.len()));
    let launch = GridLaunch::new([3, 1, 1], [256, 1, 1]).u64(from).u64(counts).u64(flags).u32(5000);
    run(&module("others"), "histogram", &mut memory, &launch);
    let got: Vec<u32> = download(&memory, counts, 256);
    for value in 0..=255u8 {
        assert_eq!(got[usize::from(value)] as usize, x.iter().filter(|x| **x == value).count());
    }
    let flags: Vec<u8> = download(&memory, flags, 5000);
    assert!(x.iter().zip(flags).all(|(x, flag)| flag == u8::from(*x > 127)));
}

#[test]
fn lanes_that_go_apart_meet_again() {
    let x: Vec<i32> = (0..32).map(|i| i * i * i * 97 + 7).collect();
    let mut memory = memory();
    let (from, to) = (upload(&mut memory, &x), empty::<i32>(&mut memory, 32));
    let launch = GridLaunch::new([1, 1, 1], [32, 1, 1]).u64(from).u64(to).u32(32);
    let counters = run(&module("others"), "apart", &mut memory, &launch);
    let digits = |x: i32| x.to_string().into_bytes();
    let odd = x.iter().filter(|x| digits(**x).len() % 2 == 1).count() as i32;
    for (x, got) in x.iter().zip(download::<i32>(&memory, to, 32)) {
        let count = |digit: u8| digits(*x).iter().filter(|known| **known == b'0' + digit).count();
        let most = (0..10u8).rev().max_by_key(|digit| count(*digit)).unwrap_or(0);
        assert_eq!(got, digits(*x).len() as i32 * 10000 + i32::from(most) * 100 + odd + 50, "{x}");
    }
    assert!(counters.simt_efficiency() < 1.0);
}

/// Halves whose sums are exact.
fn halves(count: usize, seed: u64) -> Vec<f32> {
    numbers(count, seed).iter().map(|x| (x * 8.0).round() / 4.0).collect()
}

fn bits_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    if x == 0.0 { sign } else { sign | ((bits >> 13 & 0x3ffff) as u16).wrapping_sub(112 << 10) & 0x7fff }
}

#[test]
fn tensor_cores_multiply_as_documented() {
    for k in [16, 48] {
        let (a, b) = (halves(16 * k, 8), halves(8 * k, 9));
        let columns: Vec<f32> = (0..k * 8).map(|at| b[at % 8 * k + at / 8]).collect();
        let expected = product(&a, &columns, 16, 8, k);
        let bf16 = |x: &f32| (x.to_bits() >> 16) as u16;
        let tensor = module("tensor");
        let check = |memory: &mut GlobalMemory, file: &Module, kernel: &str, a: u64, b: u64| {
            let c = empty::<f32>(memory, 16 * 8);
            let launch = GridLaunch::new([1, 1, 1], [32, 1, 1]).u64(a).u64(b).u64(c).u32(k as u32);
            let counters = run(file, kernel, memory, &launch);
            assert_close(&download(memory, c, 16 * 8), &expected, 0.0, kernel);
            assert_eq!(counters.tensor_multiply_adds as usize, 16 * 8 * k, "{kernel}");
        };
        let mut memory = memory();
        let half = |values: &[f32]| values.iter().map(|x| bits_f16(*x)).collect::<Vec<u16>>();
        let (x, y) = (upload(&mut memory, &half(&a)), upload(&mut memory, &half(&b)));
        check(&mut memory, &tensor, "mma_f16", x, y);
        check(&mut memory, &module("ldmatrix"), "mma_ldmatrix", x, y);
        let brain = |values: &[f32]| values.iter().map(bf16).collect::<Vec<u16>>();
        let (x, y) = (upload(&mut memory, &brain(&a)), upload(&mut memory, &brain(&b)));
        check(&mut memory, &tensor, "mma_bf16", x, y);
        let (x, y) = (upload(&mut memory, &a), upload(&mut memory, &b));
        check(&mut memory, &tensor, "mma_tf32", x, y);
        let wide = halves(k * 16, 10);
        let (x, y) = (upload(&mut memory, &half(&a)), upload(&mut memory, &half(&wide)));
        let c = empty::<f32>(&mut memory, 256);
        let launch = GridLaunch::new([1, 1, 1], [32, 1, 1]).u64(x).u64(y).u64(c).u32(k as u32);
        run(&tensor, "wmma_f16", &mut memory, &launch);
        assert_close(&download(&memory, c, 256), &product(&a, &wide, 16, 16, k), 0.0, "wmma_f16");
    }
}

#[test]
fn launches_that_cannot_be_are_refused() {
    let tiled = module("tiled");
    let kernel = tiled.kernel("tiled").unwrap();
    let parameters = |launch: GridLaunch| launch.u64(0).u64(0).u64(0).u32(1).u32(1).u32(1);
    let mut large = parameters(GridLaunch::new([1, 1, 1], [16, 16, 1]));
    large.dynamic_shared = 48 << 10;
    for (launch, part) in [
        (parameters(GridLaunch::new([1, 1, 1], [16, 17, 1])), "compiled for at most 256"),
        (parameters(GridLaunch::new([0, 1, 1], [16, 16, 1])), "nothing to run"),
        (parameters(GridLaunch::new([1, 70_000, 1], [16, 16, 1])), "65535"),
        (parameters(GridLaunch::new([1, 1, 1], [64, 32, 1])), "at most 1024"),
        (GridLaunch::new([1, 1, 1], [16, 16, 1]).u64(0), "bytes of parameters"),
        (large, "bytes of shared memory"),
    ] {
        let error = kernel.launch(&mut memory(), &launch).unwrap_err();
        assert!(error.fault().is_none() && error.to_string().contains(part), "{error}");
    }
}
