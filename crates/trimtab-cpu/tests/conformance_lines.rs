//! Every kernel of convolution, pooling, rows, scans and sorting × every point × a table of problems agrees with the reference.

mod conform;

use conform::conform;
use trimtab_core::Operation;

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
    ];
    let mut problems = all_of(&["f32", "f64"], &["conv"], &shapes);
    let behind = [
        "1x5x5x1,1x3x3x1",
        "2x7x9x3,4x3x3x3:nhwc,pad1",
        "1x8x33x4,9x1x1x4:nhwc,bias,relu",
        "2x6x5x4,6x1x1x2:nhwc,groups2,bias",
        "1x9x37x6,6x3x3x1:nhwc,pad1,groups6",
        "1x12x12x4,6x3x3x2:nhwc,stride2x1,pad1,dilation2,groups2,bias,gelu",
        "2x17x3,5x4x3:nhwc,stride2,pad1",
        "1x4x5x6x2,3x2x3x1x2:nhwc,pad1x0x2",
    ];
    problems.extend(all_of(&["f32", "f64"], &["conv"], &behind[1..]));
    // Large enough for several tiles and threads; checked by sampling.
    problems.extend(
        ["conv:f32:2x32x28x28,48x32x3x3:pad1,bias,relu", "conv:f16:1x2x5x5,3x2x3x3"].map(String::from),
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
