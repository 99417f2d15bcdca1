//! Every transpose kernel at every legal point against the CPU's reference, and bits no generated operand has.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::{KernelId, Operation, Point, Problem};
use trimtab_operands::{Data, SliceMut, f16};
use trimtab_wgpu::Program;

/// Compares, and says if fewer runs were compared than there are problems.
fn conforms(problems: &[&str]) {
    let compared = conform::conforms(Operation::Transpose, problems);
    assert!(compared >= problems.len(), "{compared} runs of {} problems", problems.len());
}

#[test]
fn matrices_agree_with_the_reference_at_every_point() {
    conforms(&[
        "transpose:f32:0x5",
        "transpose:f32:2x2",
        "transpose:f32:1x7",
        "transpose:f32:33x65",
        "transpose:f32:3x1000",
        "transpose:f32:1000x3",
        "transpose:f32:128x132",
    ]);
}

#[test]
fn more_workgroups_than_an_axis_holds_are_spread_over_two() {
    let problem: Problem = "transpose:f32:2900x2901".parse().unwrap();
    let lhs = Data::F32((0..2900 * 2901).map(|index| index as f32).collect());
    let devices = conform::devices();
    for device in &devices {
        let adapter = device.facts().adapter.as_deref().unwrap();
        let mut spread = 0;
        for (number, kernel) in device.table().iter().enumerate() {
            let space = kernel.space(&problem, device.facts());
            let is_spread = |point: &&Point| {
                Program::of(kernel.as_ref(), &problem, point, adapter)
                    .unwrap()
                    .steps
                    .iter()
                    .any(|step| step.groups[1] > 1)
            };
            for point in space.points().iter().filter(is_spread) {
                let mut out = vec![-1.0; 2900 * 2901];
                let none = Data::None;
                let result = SliceMut::F32(&mut out);
                let kernel = KernelId(number as u32);
                let ran = device.launch(kernel, &problem, point, &[lhs.slice(), none.slice()], result);
                assert_eq!(ran, Ok(()), "{}", space.name(point));
                let right =
                    |(index, &value): (usize, &f32)| value == (index % 2900 * 2901 + index / 2900) as f32;
                assert!(out.iter().enumerate().all(right), "{}", space.name(point));
                spread += 1;
            }
        }
        assert!(spread >= 2 || adapter.max_groups > 65_535, "{spread}");
    }
}

#[test]
fn permutations_of_more_axes_agree_with_the_reference_at_every_point() {
    conforms(&[
        "transpose:f32:5x12x20:0.2.1",
        "transpose:f32:6x7x8:2.1.0",
        "transpose:f32:6x7x9:1.0.2",
        "transpose:f32:4x3x5x8:2.0.3.1",
        "transpose:f32:2x3x4x5x6x7:5.4.3.2.1.0",
        "transpose:f32:3x2x4x3x2x4:1.3.5.0.2.4",
    ]);
}

#[test]
fn every_type_agrees_with_the_reference() {
    conforms(&[
        "transpose:i32:21x40",
        "transpose:f16:21x43",
        "transpose:f16:24x40",
        "transpose:f16:2x3x5:2.1.0",
        "transpose:f64:21x40",
        "transpose:f64:2x3x5:2.1.0",
    ]);
}

/// Moves a matrix of rows of 3 with every kernel at every point and compares bits.
fn moved_bit_by_bit(text: &str, lhs: &Data, mut out: Data, bits: impl Fn(&Data) -> Vec<u64>) {
    let problem: Problem = text.parse().unwrap();
    let given = bits(lhs);
    let high = given.len() / 3;
    let wanted: Vec<u64> = (0..given.len()).map(|index| given[index % high * 3 + index / high]).collect();
    let devices = conform::devices();
    for device in &devices {
        for (number, kernel) in device.table().iter().enumerate() {
            let space = kernel.space(&problem, device.facts());
            for point in space.points() {
                out.poison();
                let (kernel, none) = (KernelId(number as u32), Data::None);
                let ran =
                    device.launch(kernel, &problem, point, &[lhs.slice(), none.slice()], out.slice_mut());
                assert_eq!(ran, Ok(()), "{text} {}", space.name(point));
                assert_eq!(bits(&out), wanted, "{text} {}", space.name(point));
            }
        }
    }
}

#[test]
fn bits_are_moved_as_they_are_also_those_of_nans_and_zeros() {
    let words: Vec<u32> =
        [0, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0xffc1_2345, 0x7f80_0001, 1, 0xffff_ffff]
            .to_vec();
    let floats = Data::F32(words.iter().map(|&word| f32::from_bits(word)).collect());
    moved_bit_by_bit("transpose:f32:3x3", &floats, floats.clone(), |data| match data {
        Data::F32(data) => data.iter().map(|value| u64::from(value.to_bits())).collect(),
        _ => Vec::new(),
    });
    let doubles: Vec<f64> =
        words.iter().map(|&word| f64::from_bits(u64::from(word) << 32 | u64::from(!word))).collect();
    let doubles = Data::F64(doubles);
    moved_bit_by_bit("transpose:f64:3x3", &doubles, doubles.clone(), |data| match data {
        Data::F64(data) => data.iter().map(|value| value.to_bits()).collect(),
        _ => Vec::new(),
    });
    let halves: Vec<f16> = [0u16, 0x8000, 0x7c00, 0xfc00, 0x7e01, 1, 0x3c00, 0xbc00, 0x03ff]
        .into_iter()
        .map(f16::from_bits)
        .collect();
    let halves = Data::F16(halves);
    moved_bit_by_bit("transpose:f16:3x3", &halves, halves.clone(), |data| match data {
        Data::F16(data) => data.iter().map(|value| u64::from(value.to_bits())).collect(),
        _ => Vec::new(),
    });
}

#[test]
fn what_a_kernel_does_not_take_is_declined_with_the_reason() {
    let devices = conform::devices();
    let facts = devices[0].facts();
    let limit = facts.adapter.as_deref().unwrap().max_binding.0.min(1 << 30);
    let rows = limit / 4 / 1024 + 1;
    let over = format!("transpose:f32:{rows}x1024");
    let too_large = format!("takes bindings up to {limit} bytes, the operand has {}", limit + 4096);
    let keeps = "the last axis stays last: there is nothing to turn".to_string();
    for (name, text, reason) in [
        ("gpu.transpose.naive", over.as_str(), too_large),
        ("gpu.transpose.tiled", "transpose:f32:2x3x5:1.0.2", keeps.clone()),
        ("gpu.transpose.registers", "transpose:f32:2x3x5:1.0.2", keeps),
    ] {
        let kernel = devices[0].table().iter().find(|kernel| kernel.info().name == name).unwrap();
        let declined = kernel.declines(&text.parse().unwrap(), facts).map(|decline| decline.to_string());
        assert_eq!(declined, Some(reason), "{name} {text}");
    }
}
