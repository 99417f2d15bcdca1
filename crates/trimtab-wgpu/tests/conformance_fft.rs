//! Fourier transforms on a GPU against the processor: every kernel, every legal point.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::Operation;

/// Every point: short and long lines, several to a workgroup and fewer than fit, several axes.
const WHOLE: [&str; 5] = ["2", "64", "5x256", "3x1024", "8x32x16:2d"];
/// The first points: every doubling, lines beyond workgroup memory, a batch that no workgroup divides.
const AT_FIRST: [&str; 13] = [
    "4",
    "8",
    "16",
    "32",
    "128",
    "512",
    "2048",
    "4096",
    "131072",
    "33x16",
    "2x64x128:2d",
    "2x4x8x16:3d",
    "65536x8",
];

#[test]
fn every_kernel_of_transforms_at_every_point_agrees_with_the_processor() {
    let mut compared = 0;
    let ops = ["forward:complex64", "inverse:complex64", "real:f32", "inverse_real:complex64"];
    for (shapes, points) in [(&WHOLE[..], usize::MAX), (&AT_FIRST[..], 2)] {
        let texts = ops.iter().flat_map(|op| shapes.iter().map(move |shape| format!("fft.{op}:{shape}")));
        let texts: Vec<String> = texts.collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        compared += conform::conforms_at_first(Operation::Fft, &texts, points);
    }
    assert!(compared > 250, "{compared}");
}
