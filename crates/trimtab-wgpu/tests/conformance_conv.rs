//! Every kernel of convolution and pooling against the CPU's reference, and what they decline.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::{Device, KernelId, Operation, Problem};
use trimtab_operands::Element;

/// Compares, and says if fewer runs were compared than there are problems.
fn conforms(operation: Operation, problems: &[&str], points: usize) {
    let compared = conform::conforms_at_first(operation, problems, points);
    assert!(compared >= problems.len(), "{compared} runs of {} problems", problems.len());
}

#[test]
fn convolutions_agree_with_the_reference_at_every_point() {
    conforms(
        Operation::Conv,
        &["conv:f32:2x5x7x9,35x5x3x3:pad1", "conv:f32:1x33x19x3,40x3x3x3:nhwc,pad1,bias,relu"],
        usize::MAX,
    );
}

#[test]
fn convolutions_of_every_shape_agree_with_the_reference() {
    conforms(
        Operation::Conv,
        &[
            "conv:f32:1x1x1,1x1x1",
            "conv:f32:0x3x8x8,4x3x3x3",
            "conv:f32:2x3x4x4,0x3x3x3",
            "conv:f32:1x0x4x5,9x0x3x3:pad1,bias",
            "conv:f32:1x2x0x4,9x2x3x3:pad2",
            "conv:f32:2x3x17,9x3x4:stride2,pad1",
            "conv:f32:1x1x5x5,1x1x3x3",
            "conv:f32:2x3x7x9,8x3x3x3:pad4",
            "conv:f32:1x4x8x33,9x4x1x1",
            "conv:f32:2x4x6x5,18x2x1x1:groups2,bias",
            "conv:f32:1x4x9x8,8x4x1x1:stride2",
            "conv:f32:1x6x9x37,6x1x3x3:pad1,groups6",
            "conv:f32:2x6x9x8,12x1x5x3:pad2x1,groups6,bias,relu",
            "conv:f32:1x4x12x12,24x2x3x3:stride2x1,pad1,dilation2,groups2,bias,tanh",
            "conv:f32:1x3x11x40,17x3x7x7:pad3,bias,gelu",
            "conv:f32:1x2x4x5x6,9x2x2x3x1:pad1x0x2,bias,sigmoid",
            "conv:f32:3x2x65x3,2x2x65x3",
            "conv:f32:1x13x17x19,11x13x5x3:pad2x1",
            "conv:f32:1x15x31x33,17x15x3x3:pad1",
            "conv:f32:1x3x23x29,9x3x3x3:stride3x2,pad1",
            "conv:f32:1x2x31,8x2x5:stride7,pad3,dilation3",
            "conv:f32:1x3x7x8x9,8x3x3x3x3:stride2x1x3,pad1,dilation1x2x1,bias",
            "conv:f32:1x5x5x1,1x3x3x1:nhwc",
            "conv:f32:2x7x9x3,4x3x3x3:nhwc,pad1",
            "conv:f32:1x8x33x4,9x1x1x4:nhwc,bias,relu",
            "conv:f32:2x6x5x4,18x1x1x2:nhwc,groups2,bias",
            "conv:f32:1x9x37x6,6x3x3x1:nhwc,pad1,groups6",
            "conv:f32:1x12x12x4,6x3x3x2:nhwc,stride2x1,pad1,dilation2,groups2,bias,gelu",
            "conv:f32:2x17x3,8x4x3:nhwc,stride2,pad1",
            "conv:f32:1x4x5x6x2,8x2x3x1x2:nhwc,pad1x0x2",
        ],
        3,
    );
}

#[test]
fn convolutions_of_every_type_agree_with_the_reference() {
    conforms(
        Operation::Conv,
        &[
            "conv:f16:1x6x9x17,16x6x3x3:pad1,bias,gelu",
            "conv:f16:1x9x17x6,16x3x3x6:nhwc,pad1",
            "conv:f64:1x6x9x17,16x6x3x3:pad1,bias,relu",
            "conv:f64:1x9x17x6,16x3x3x3:nhwc,pad1,groups2",
        ],
        3,
    );
}

#[test]
fn sixteen_bits_keep_what_is_stated_also_of_numbers_they_do_not_hold() {
    let (channels, height, width, outputs) = (9usize, 7usize, 8usize, 12usize);
    let problem: Problem = "conv:f32:1x9x7x8,12x9x3x3:pad1".parse().unwrap();
    let odd = [300.0f32, 1e6, -3e15, 1e-7, -1e-12, 0.0];
    let made = |len: usize, salt: usize| -> Vec<f32> {
        let number = |at: usize| match (at * 7 + salt) % 41 {
            0 => odd[(at / 41 + salt) % odd.len()],
            rest => rest as f32 / 20.0 - 1.0,
        };
        (0..len).map(number).collect()
    };
    let (operand, weights) = (made(channels * height * width, 3), made(outputs * channels * 9, 5));
    let exact = |place: usize| {
        let (output, y, x) = (place / (height * width), place / width % height, place % width);
        let mut sums = (0.0f64, 0.0f64);
        for at in 0..channels * 9 {
            let (channel, dy, dx) = (at / 9, at / 3 % 3, at % 3);
            let (Some(y), Some(x)) = ((y + dy).checked_sub(1), (x + dx).checked_sub(1)) else { continue };
            if y < height && x < width {
                let value = operand[(channel * height + y) * width + x];
                let term = f64::from(value) * f64::from(weights[output * channels * 9 + at]);
                sums = (sums.0 + term, sums.1 + term.abs());
            }
        }
        sums
    };
    let mut ran = 0;
    for device in conform::devices() {
        let at = device.table().iter().position(|kernel| kernel.info().name == "gpu.conv.halves").unwrap();
        let kernel = KernelId(at as u32);
        for point in device.space(kernel, &problem).points() {
            let mut out = vec![f32::NAN; outputs * height * width];
            let inputs = [Element::erase(&operand), Element::erase(&weights)];
            device.launch(kernel, &problem, point, &inputs, Element::erase_mut(&mut out)).unwrap();
            let stated = device.work(kernel, &problem, point).error;
            for (place, found) in out.iter().enumerate() {
                let (exact, size) = exact(place);
                let off = (f64::from(*found) - exact).abs();
                assert!(off <= stated * size, "{point:?} {place}: {found}, not {exact}, of sizes {size}");
            }
            ran += 1;
        }
    }
    conform::ran_where_halves_are("gpu.conv.halves", ran);
}

#[test]
fn pooling_agrees_with_the_reference_at_every_point() {
    let shapes = [
        "1x1x1:window1",
        "0x3x8x8:window3x3",
        "3x0x5x5:window2x2",
        "2x3x17:window3,stride2,pad1",
        "2x3x7x9:window3x2,stride2,pad1x0",
        "1x2x33x65:window5x5,pad2",
        "1x5x8x9:window2x3,dilation2x1",
        "1x2x5x6x7:window2x3x2,stride1x2x1,pad0x1x1",
        "2x7x9x3:window3x3,stride2,pad1,nhwc",
        "1x3x9x9:window9x9",
        "2x2x31x33:window7x7,stride4,pad3",
        "2x5x6x7x3:window3x3x3,stride2x1x3,pad1,nhwc",
    ];
    let of = |op: &str, dtype: &str| shapes.map(|shape| format!("pool.{op}:{dtype}:{shape}"));
    for dtype in ["f32", "f16", "f64"] {
        let problems = [of("max", dtype), of("mean", dtype)].concat();
        let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
        conforms(Operation::Pool, &problems, usize::MAX);
    }
}

#[test]
fn what_a_kernel_does_not_take_is_declined_with_the_reason() {
    let devices = conform::devices();
    for (name, text, reason) in [
        (
            "gpu.conv.implicit",
            "conv:f32:1x6x9x37,6x1x3x3:pad1,groups6",
            "takes at least 8 channels of the result a group and as many places, this has 1 and 333",
        ),
        ("gpu.conv.direct", "conv:f64:1x3x9x9,4x3x3x3:gelu", "WGSL has no gelu of 64-bit floats"),
    ] {
        for device in &devices {
            let kernel = device.table().iter().find(|kernel| kernel.info().name == name).unwrap();
            let declined = kernel.declines(&text.parse().unwrap(), device.facts());
            assert_eq!(declined.map(|decline| decline.to_string()).as_deref(), Some(reason), "{name} {text}");
        }
    }
}
