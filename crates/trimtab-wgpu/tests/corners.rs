//! GPUs answer as NumPy where definitions have corners: ties, what is not a number, both zeros, places named twice, and the signs and scales of
//! transforms. Every kernel, every legal point.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;
#[path = "../../trimtab-cpu/tests/data/numpy.rs"]
mod numpy;

use numpy::{Corner, corners, off, same, transforms};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_core::{Device, KernelId, Operation, Problem};
use trimtab_operands::Data;
use trimtab_wgpu::GpuDevice;

/// What every kernel that takes a problem makes of it, at every point.
fn each_made(devices: &[GpuDevice], corner: &Corner, mut told: impl FnMut(&str, &Data)) {
    let Corner { problem, inputs, wanted } = corner;
    for device in devices {
        for (number, kernel) in device.table().iter().enumerate() {
            if device.declines(KernelId(number as u32), problem).is_some() {
                continue;
            }
            let space = kernel.space(problem, device.facts());
            for point in space.points() {
                let mut out = Data::zeros(problem.out_dtype().unwrap(), wanted.len());
                out.poison();
                let slices: Vec<_> = inputs.iter().map(Data::slice).collect();
                let ran = device.launch(KernelId(number as u32), problem, point, &slices, out.slice_mut());
                let what = format!("{} {} {problem}", kernel.info().name, space.name(point));
                assert_eq!(ran, Ok(()), "{what}");
                told(&what, &out);
            }
        }
    }
}

#[test]
fn every_kernel_says_what_numpy_says_where_definitions_have_corners() {
    let devices = conform::devices();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for corner in corners() {
        let Corner { problem, inputs, wanted } = &corner;
        each_made(&devices, &corner, |what, out| {
            assert!(same(problem, out, wanted), "{what} of {inputs:?}: {out:?}, not {wanted:?}");
            *counts.entry(problem.operation().name()).or_default() += 1;
        });
    }
    println!("{counts:?}");
    let asked: Vec<&str> = counts.keys().copied().collect();
    let all = [
        "arg", "concat", "fused", "gather", "mask", "pool", "put", "reduce", "rows", "scan", "scatter",
        "sort",
    ];
    assert_eq!(asked, all);
}

#[test]
fn transforms_have_the_signs_scales_and_half_spectra_of_numpy() {
    let (devices, mut runs) = (conform::devices(), 0);
    for corner in transforms() {
        each_made(&devices, &corner, |what, out| {
            let (off, allowed) = off(&corner.problem, out, &corner.wanted);
            assert!(off <= allowed, "{what}: off by {off:e}, allowed {allowed:e}");
            runs += 1;
        });
    }
    println!("{runs} runs");
    assert!(runs > 50, "{runs}");
}

/// A problem of every operation.
const EACH: [&str; 19] = [
    "matmul:f32:64x64x64",
    "elementwise.add:f32:4096",
    "reduce.sum:f32:4096",
    "transpose:f32:64x64",
    "fused.relu(add(mul(a,#0),b)):f32:64x64:all,columns",
    "conv:f32:1x16x16x16,16x16x3x3:pad1",
    "pool.max:f32:1x16x16x16:window3x3,pad1",
    "rows.softmax:f32:64x64",
    "attention:f32:2x16x16x16",
    "scan.sum:f32:4096",
    "sort:f32:4096",
    "arg.sort:f32:4096",
    "cast:f32:4096:bf16",
    "fft.forward:complex64:16x256",
    "gather:f32:64x64:axis0,count100",
    "scatter:f32:64x64:axis0,count100",
    "mask.lt:f32:4096",
    "concat:f32:64x3,64x5",
    "put:f32:60x60,56x56:at2x2,fill",
];

#[test]
fn every_operation_has_a_kernel_on_a_gpu_with_settings_to_choose_between() {
    let problems: Vec<Problem> = EACH.iter().map(|text| text.parse().unwrap()).collect();
    let asked: BTreeSet<&str> = problems.iter().map(|problem| problem.operation().name()).collect();
    let all = Operation::ALL.into_iter().filter(|operation| *operation != Operation::Custom);
    assert_eq!(asked, all.map(Operation::name).collect::<BTreeSet<_>>());
    for device in &conform::devices() {
        for problem in &problems {
            let spaces = device.table().iter().map(|kernel| kernel.space(problem, device.facts()));
            let most = spaces.map(|space| space.points().len()).max();
            assert!(most > Some(1), "{} on {}: {most:?}", problem, device.facts().id);
        }
    }
}
