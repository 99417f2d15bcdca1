//! Every kernel of convolution, pooling, rows, scans and sorting × every point × a table of problems agrees with the reference.

mod conform;

use conform::conform;
use trimtab_core::{DType, Operation};

/// Texts of every type, detail and shape.
fn all_of(dtypes: &[&str], details: &[&str], shapes: &[&str]) -> Vec<String> {
    let mut problems = Vec::new();
    for dtype in dtypes {
        for detail in details {
            problems.extend(shapes.iter().map(|shape| format!("{detail}:{dtype}:{shape}")));
        }
    }
    problems
}

#[test]
fn every_convolution_kernel_at_every_point_agrees_with_the_reference() {
    let shapes = [
        "1x1x1,1x1x1",
        "2x3x17,5x3x4:stride2,pad1",
        "1x1x5x5,1x1x3x3",
        "1x1x5x5,1x1x3x3:pad1",
        "2x3x7x9,4x3x3x3:pad1",
        "2x3x7x9,4x3x3x3:pad4",
        "1x4x8x33,9x4x1x1",
        "2x4x6x5,6x2x1x1:groups2,bias",
        "1x4x9x8,8x4x1x1:stride2",
        "1x6x9x37,6x1x3x3:pad1,groups6",
        "2x6x9x8,12x1x5x3:pad2x1,groups6,bias,relu",
        "1x4x12x12,6x2x3x3:stride2x1,pad1,dilation2,groups2,bias,tanh",
        "1x3x11x40,17x3x7x7:pad3,bias,gelu",
        "1x2x4x5x6,3x2x2x3x1:pad1x0x2,bias,sigmoid",
        "3x2x65x3,2x2x65x3",
        "0x3x8x8,4x3x3x3",
        "1x16x14x14,32x16x3x3:pad1,bias,relu",
        "1x3x2x2,4x3x3x3:pad1",
        // Nothing: no channels, no results, no space but padding.
        "1x0x4x5,3x0x3x3:pad1,bias",
        "2x3x4x4,0x3x3x3",
        "1x2x0x4,3x2x3x3:pad2",
        // Primes, and powers of two give or take one.
        "1x13x17x19,11x13x5x3:pad2x1",
        "1x15x31x33,17x15x3x3:pad1",
        "2x17x15x16,31x17x3x3:pad1,bias,relu",
        "1x40x9x7,63x40x3x3:pad1",
        // Steps that leave some out, and windows with holes.
        "1x3x23x29,5x3x3x3:stride3x2,pad1",
        "1x2x17x18,3x2x2x2:stride5x4",
        "1x2x31,3x2x5:stride7,pad3,dilation3",
        "1x3x7x8x9,4x3x3x3x3:stride2x1x3,pad1,dilation1x2x1,bias",
        // Tiles that are cut at an edge, or hold one result.
        "1x8x3x3,4x8x3x3",
        "3x8x1x1,5x8x3x3:pad1",
        "1x8x4x5,6x8x3x3:pad4,bias",
        "1x9x2x41,9x9x3x3:pad1,bias,gelu",
        // A window of its own for every channel.
        "2x5x13x17,10x1x3x3:stride2,pad1,groups5",
        "1x7x9x40,7x1x3x5:pad1x6,dilation2x3,groups7,bias,tanh",
        "1x3x129,3x1x7:stride3,pad3,groups3,bias,relu",
        "1x4x5x6x7,4x1x3x3x3:pad1,groups4",
        "1x1x65x33,3x1x5x5:pad7",
    ];
    let mut problems = all_of(&["f32", "f64"], &["conv"], &shapes);
    let behind = [
        "1x5x5x1,1x3x3x1:nhwc",
        "2x7x9x3,4x3x3x3:nhwc,pad1",
        "1x8x33x4,9x1x1x4:nhwc,bias,relu",
        "2x6x5x4,6x1x1x2:nhwc,groups2,bias",
        "1x9x37x6,6x3x3x1:nhwc,pad1,groups6",
        "1x12x12x4,6x3x3x2:nhwc,stride2x1,pad1,dilation2,groups2,bias,gelu",
        "2x17x3,5x4x3:nhwc,stride2,pad1",
        "1x4x5x6x2,3x2x3x1x2:nhwc,pad1x0x2",
        "1x4x5x0,3x3x3x0:nhwc,pad1,bias",
        "1x17x19x13,11x5x3x13:nhwc,pad2x1",
        "2x15x16x17,31x3x3x17:nhwc,pad1,bias,relu",
        "1x9x7x40,63x3x3x40:nhwc,pad1",
        "1x23x29x3,5x3x3x3:nhwc,stride3x2,pad5",
        "3x1x1x8,5x3x3x8:nhwc,pad1",
        "1x2x41x9,9x3x3x9:nhwc,pad1,bias,gelu",
        "2x13x17x33,33x3x3x1:nhwc,stride2,pad1,groups33,bias,gelu",
        "1x129x16,16x7x1:nhwc,stride3,pad3,groups16",
        "1x4x5x6x9,9x3x3x3x1:nhwc,pad1,dilation1x1x2,groups9,bias,relu",
        "1x9x8x3,6x3x3x1:nhwc,pad1,groups3",
    ];
    problems.extend(all_of(&["f32", "f64"], &["conv"], &behind));
    // Large enough for several tiles, bands and threads; checked by sampling.
    problems.extend(
        [
            "conv:f32:2x32x28x28,48x32x3x3:pad1,bias,relu",
            "conv:f32:2x28x28x32,48x3x3x32:nhwc,pad1,bias,relu",
            "conv:f32:1x2x70x515,2x1x3x3:pad1,groups2,bias",
            "conv:f32:1x70x33x40,40x3x3x1:nhwc,pad1,groups40,bias",
            "conv:f16:1x2x5x5,3x2x3x3",
        ]
        .map(String::from),
    );
    conform(Operation::Conv, &problems);
}

#[test]
fn every_pooling_kernel_at_every_point_agrees_with_the_reference() {
    let shapes = [
        "1x1x1:window1",
        "2x3x17:window3,stride2,pad1",
        "2x3x7x9:window3x3",
        "2x3x7x9:window3x2,stride2,pad1x0",
        "1x2x33x65:window5x5,pad2",
        "1x5x8x9:window2x3,dilation2x1",
        "1x2x5x6x7:window2x3x2,stride1x2x1,pad0x1x1",
        "2x7x9x3:window3x3,stride2,pad1,nhwc",
        "1x33x17x5:window2x2,nhwc",
        "1x5x6x7x4:window2x3x2,pad0x1x1,nhwc",
        "4x16x56x57:window3x3,stride2,pad1",
        "0x3x8x8:window3x3",
        "3x0x5x5:window2x2",
        "1x1x1x1:window3x3,pad1",
        "1x3x13x11:window5x3,stride3x2,pad2x1",
        "2x2x31x33:window7x7,stride4,pad3",
        "1x3x9x9:window9x9",
        "1x2x19x23:window3x3,stride5,dilation3",
        "1x7x127:window2,stride2",
        "1x129x3:window4,stride3,pad1,nhwc",
        "1x17x16x15:window5x5,stride2,pad4,nhwc",
        "2x5x6x7x3:window3x3x3,stride2x1x3,pad1,nhwc",
    ];
    conform(Operation::Pool, &all_of(&["f32", "f64", "f16"], &["pool.max", "pool.mean"], &shapes));
}

/// Shapes and axes of what is done along one.
const LINES: [&str; 16] = [
    "1",
    "2",
    "7",
    "17",
    "1025",
    "70001",
    "3x7",
    "33x65",
    "300x301",
    "5x4099",
    "3x7:axis0",
    "33x65:axis0",
    "5x9x3:axis1",
    "7x300x33:axis1",
    "2x65x129:axis1",
    "0x5",
];

/// The same with words behind the axis.
fn with(words: &str) -> Vec<String> {
    let joined = |shape: &&str| match shape.contains(":axis") {
        true => format!("{shape},{words}"),
        false => format!("{shape}:{words}"),
    };
    LINES.iter().map(joined).collect()
}

#[test]
fn every_kernel_of_rows_at_every_point_agrees_with_the_reference() {
    let all = ["softmax", "log_softmax", "logsumexp", "variance", "layer_norm", "rms_norm"];
    let all = all.map(|op| format!("rows.{op}"));
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let mut problems = all_of(&["f32", "f64", "f16"], &all, &LINES);
    let scaled = with("scale");
    let scaled: Vec<&str> = scaled.iter().map(String::as_str).collect();
    problems.extend(all_of(&["f32", "f64"], &["rows.layer_norm", "rows.rms_norm"], &scaled));
    let shifted = with("scale,shift");
    let shifted: Vec<&str> = shifted.iter().map(String::as_str).collect();
    problems.extend(all_of(&["f32", "f64"], &["rows.layer_norm"], &shifted));
    conform(Operation::Rows, &problems);
}

#[test]
fn every_kernel_of_attention_at_every_point_agrees_with_the_reference() {
    let shapes = [
        "1x1x1x1",
        "1x1x7x3",
        "2x3x5x4x7",
        "3x17x33x8",
        "1x31x31x16",
        "2x65x129x20x12",
        "1x1x1025x64",
        "4x1x300x32",
        "2x130x70x9",
        "1x3x2000x5x1",
        "0x5x5x4",
        "2x0x5x4",
        "1x40x70x0x3",
        "1x5x6x4x0",
    ];
    let mut problems = all_of(&["f32", "f64", "f16"], &["attention"], &shapes);
    let causal = ["1x1x1x1", "1x31x31x16", "3x17x33x8", "2x65x129x20x12", "1x200x300x4", "5x2x9x3"]
        .map(|shape| format!("{shape}:causal"));
    let causal: Vec<&str> = causal.iter().map(String::as_str).collect();
    problems.extend(all_of(&["f32", "f64"], &["attention"], &causal));
    conform(Operation::Attention, &problems);
}

#[test]
fn every_scan_kernel_at_every_point_agrees_with_the_reference() {
    let all = ["scan.sum", "scan.prod", "scan.max", "scan.min"];
    let mut problems = all_of(&["f32", "f64", "i32", "f16"], &all, &LINES);
    let exclusive = with("exclusive");
    let exclusive: Vec<&str> = exclusive.iter().map(String::as_str).collect();
    problems.extend(all_of(&["f32", "i32"], &all, &exclusive));
    problems.push("scan.sum:f32:300001".to_string());
    conform(Operation::Scan, &problems);
}

#[test]
fn every_sorting_kernel_at_every_point_agrees_with_the_reference() {
    let mut problems = all_of(&["f32", "f64", "i32", "f16"], &["sort"], &LINES);
    let descending = with("descending");
    let descending: Vec<&str> = descending.iter().map(String::as_str).collect();
    problems.extend(all_of(&["f32", "i32"], &["sort"], &descending));
    conform(Operation::Sort, &problems);
}

#[test]
fn every_kernel_that_finds_indices_agrees_with_the_reference_at_every_point() {
    let types = ["f32", "f64", "i32", "f16", "bf16"];
    let mut problems = all_of(&types, &["arg.sort"], &LINES);
    // There is no smallest of nothing.
    let some: Vec<&str> = LINES.into_iter().filter(|shape| *shape != "0").collect();
    problems.extend(all_of(&types, &["arg.min", "arg.max"], &some));
    let descending = with("descending");
    let descending: Vec<&str> = descending.iter().map(String::as_str).collect();
    problems.extend(all_of(&["f32", "f64", "i32"], &["arg.sort"], &descending));
    let top = [
        "1:count1",
        "7:count0",
        "17:count17",
        "1025:count10",
        "70001:count300",
        "33x65:count7",
        "33x65:axis0,count9",
    ];
    problems.extend(all_of(&["f32", "f64", "i32", "bf16"], &["arg.top"], &top));
    conform(Operation::Arg, &problems);
}

#[test]
fn every_pair_of_types_is_cast_alike() {
    let mut problems = Vec::new();
    for from in DType::ALL {
        for to in DType::ALL.into_iter().filter(|to| to.is_complex() || !from.is_complex()) {
            problems.extend(["0", "1", "7", "513", "70001"].map(|len| format!("cast:{from}:{len}:{to}")));
        }
    }
    conform(Operation::Cast, &problems);
}
