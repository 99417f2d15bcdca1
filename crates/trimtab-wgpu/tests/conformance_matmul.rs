//! Every matmul kernel × every legal point on every adapter against the reference.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod conform;

use trimtab_core::{AdapterClass, Device, KernelId, Operation, Problem};
use trimtab_cpu::{CpuDevice, CpuOptions};
use trimtab_operands::{Element, Expected, Operands};
use trimtab_wgpu::{Program, tolerance};

#[test]
fn every_point_agrees_with_the_reference() {
    // Large enough that no point is left out, a multiple of four and of nothing more.
    let compared = conform::conforms(Operation::Matmul, &["matmul:f32:68x260x68"]);
    println!("{compared} runs compared");
    assert!(compared >= 60, "{compared}");
}

#[test]
fn odd_sizes_layouts_and_batches_agree_with_the_reference() {
    let compared = conform::conforms(
        Operation::Matmul,
        &[
            "matmul:f32:17x13x11",
            "matmul:f32:1x1x1",
            "matmul:f32:2x3x5",
            "matmul:f32:20x16x12:t,n",
            "matmul:f32:12x16x8:n,t",
            "matmul:f32:16x16x8:t,t",
            "matmul:f32:13x17x7:t,t",
            // Rows that come by fours on one side only.
            "matmul:f32:11x16x9",
            "matmul:f32:3x11x10x9",
            "matmul:f32:3x11x10x9:ns,n",
            "matmul:f32:3x12x10x9:ts,ts",
            "matmul:f32:5x4x8x4:n,ts",
            // More products than workgroups fit along an axis.
            "matmul:f32:70000x1x1x2",
        ],
    );
    println!("{compared} runs compared");
    assert!(compared >= 120, "{compared}");
}

#[test]
fn products_with_few_vectors_agree_with_the_reference() {
    let compared = conform::conforms(
        Operation::Matmul,
        &[
            "matmul:f32:1x300x260",
            "matmul:f32:44x1x36",
            "matmul:f32:1x44x36:n,t",
            "matmul:f32:41x1x33:t,n",
            "matmul:f32:3x37x35:t,t",
            "matmul:f32:44x8x36:n,t",
            "matmul:f32:2x3x20x16:n,ts",
        ],
    );
    println!("{compared} runs compared");
    assert!(compared >= 80, "{compared}");
}

#[test]
fn halves_and_doubles_agree_with_the_reference() {
    let compared = conform::conforms(
        Operation::Matmul,
        &[
            "matmul:f16:20x16x12",
            "matmul:f16:9x11x7:t,t",
            "matmul:f16:1x33x64:n,t",
            "matmul:f64:20x16x12",
            "matmul:f64:9x11x7:n,t",
        ],
    );
    println!("{compared} runs compared");
    assert!(compared >= 60, "{compared}");
}

/// Every setting of the kernel that cuts f32 to 16 bits, on these operands: products, and what it stated.
fn cut_to_halves(problem: &Problem, lhs: &[f32], rhs: &[f32], mut told: impl FnMut(&[f32], f64)) -> usize {
    let mut ran = 0;
    for device in conform::devices() {
        let at = device.table().iter().position(|kernel| kernel.info().name == "gpu.matmul.halves").unwrap();
        let kernel = KernelId(at as u32);
        for point in device.space(kernel, problem).points() {
            let mut out = vec![f32::NAN; problem.out_len() as usize];
            let inputs = [Element::erase(lhs), Element::erase(rhs)];
            device.launch(kernel, problem, point, &inputs, Element::erase_mut(&mut out)).unwrap();
            told(&out, device.work(kernel, problem, point).error);
            ran += 1;
        }
    }
    ran
}

#[test]
fn sixteen_bits_keep_what_is_stated_also_of_numbers_they_do_not_hold() {
    // Within their range, at its ends, and far beyond: large, small and both in one sum.
    let numbers = [[0.3f32, 254.9, 2.4e-7, 0.0], [300.0, 65_504.0, 1e6, -3e15], [1e-7, -1e-12, 3e-39, -0.0]];
    for (text, seed) in
        [("matmul:f32:36x44x70", 1u32), ("matmul:f32:33x35x67:t,n", 2), ("matmul:f32:40x36x64:n,t", 3)]
    {
        let problem: Problem = text.parse().unwrap();
        let Problem::Matmul(p) = problem else { unreachable!() };
        let (m, n, k) = (p.m as usize, p.n as usize, p.k as usize);
        let made = |len: usize, salt: u32| -> Vec<f32> {
            (0..len as u32)
                .map(|at| {
                    let mixed = (at ^ salt.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b) >> 8;
                    let usual = (mixed % 2001) as f32 / 1000.0 - 1.0;
                    match mixed % 64 {
                        0 => numbers[(mixed / 64 % 3) as usize][(mixed / 192 % 4) as usize],
                        _ => usual,
                    }
                })
                .collect()
        };
        let (lhs, rhs) = (made(m * k, seed), made(k * n, seed + 77));
        let left = |row: usize, at: usize| lhs[if p.lhs.transposed { at * m + row } else { row * k + at }];
        let right =
            |at: usize, column: usize| rhs[if p.rhs.transposed { column * k + at } else { at * n + column }];
        let ran = cut_to_halves(&problem, &lhs, &rhs, |out, stated| {
            for (place, found) in out.iter().enumerate() {
                let terms = (0..k).map(|at| f64::from(left(place / n, at)) * f64::from(right(at, place % n)));
                let (exact, size) =
                    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                let off = (f64::from(*found) - exact).abs();
                assert!(off <= stated * size, "{text} {place}: {found}, not {exact}, of sizes {size}");
            }
        });
        conform::ran_where_halves_are("gpu.matmul.halves", ran);
    }
    // What is not a number, and infinities, stay where they are.
    let problem: Problem = "matmul:f32:16x16x40".parse().unwrap();
    let mut lhs = vec![1.0f32; 16 * 40];
    lhs[3 * 40 + 25] = f32::INFINITY;
    lhs[5 * 40 + 39] = f32::NAN;
    cut_to_halves(&problem, &lhs, &[0.5; 40 * 16], |out, _| {
        for (place, found) in out.iter().enumerate() {
            let is_right = match place / 16 {
                3 => *found == f32::INFINITY,
                5 => found.is_nan(),
                _ => *found == 20.0,
            };
            assert!(is_right, "{place}: {found}");
        }
    });
}

#[test]
fn an_empty_inner_axis_gives_zeros_and_no_results_take_no_steps() {
    let compared = conform::conforms(
        Operation::Matmul,
        &[
            "matmul:f32:5x3x0",
            "matmul:f64:4x4x0:t,t",
            "matmul:f32:0x4x4",
            "matmul:f32:4x0x4",
            "matmul:f32:0x4x4x4",
        ],
    );
    assert!(compared >= 20, "{compared}");
}

#[test]
fn an_operand_larger_than_a_binding_is_cut() {
    let cpu = CpuDevice::new(CpuOptions { threads: None, blas: None, ..CpuOptions::default() });
    let devices = conform::devices();
    for device in &devices {
        let adapter = device.facts().adapter.as_deref().unwrap();
        // Rows of 64 KiB, a few more than one binding holds, and an odd number of them.
        let rows = adapter.max_binding.0 / (64 << 10) + 3;
        if rows * (64 << 10) > adapter.max_buffer.0.min(1 << 30) {
            continue;
        }
        for text in [format!("matmul:f32:{rows}x4x16384"), format!("matmul:f32:3x{rows}x16384:n,t")] {
            let problem: Problem = text.parse().unwrap();
            let mut operands = Operands::new(&problem);
            let expected = Expected::new(&cpu, &problem, &operands).unwrap();
            let mut cut = 0;
            for (number, kernel) in device.table().iter().enumerate() {
                let space = kernel.space(&problem, device.facts());
                let fast = kernel.info().name == "gpu.matmul.direct";
                let Some(point) = space.points().first().filter(|_| fast) else { continue };
                let steps = Program::of(kernel.as_ref(), &problem, point, adapter).unwrap().steps.len();
                operands.out.poison();
                let (lhs, rhs) = (
                    operands.inputs[0].slice(),
                    operands.inputs.get(1).map_or(trimtab_operands::Slice::None, |data| data.slice()),
                );
                let id = KernelId(number as u32);
                let ran = device.launch(id, &problem, point, &[lhs, rhs], operands.out.slice_mut());
                assert_eq!(ran, Ok(()), "{text}");
                let checked = expected.check_within(&problem, &operands.out, tolerance(&problem));
                assert_eq!(checked, Ok(()), "{text}");
                cut += usize::from(steps > 1);
            }
            assert_eq!(cut, 1, "{text}");
        }
    }
}

#[test]
fn a_long_inner_axis_is_right_or_declined() {
    for device in &conform::devices() {
        for (k, taken) in [(32_768u64, true), (32_769, false), (300_000, false)] {
            let problem: Problem = format!("matmul:f32:2x3x{k}").parse().unwrap();
            let kernels = device.table().iter().filter(|kernel| kernel.info().operation == Operation::Matmul);
            let takes = kernels.filter(|kernel| kernel.declines(&problem, device.facts()).is_none()).count();
            let software = device.facts().adapter.as_deref().unwrap().class == AdapterClass::Software;
            assert_eq!(takes > 0, taken || !software, "{problem}");
        }
    }
    assert!(conform::conforms(Operation::Matmul, &["matmul:f32:2x3x32768"]) > 10);
}
