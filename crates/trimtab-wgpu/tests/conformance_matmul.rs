//! Every matmul kernel × every legal point on every adapter against the reference.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod conform;

use trimtab_core::Operation;

#[test]
fn every_point_of_every_kernel_agrees_with_the_reference() {
    let compared = conform::conforms(
        Operation::Matmul,
        &[
            "matmul:f32:67x129x65",
            "matmul:f32:68x132x36",
            "matmul:f32:20x12x16:t,n",
            "matmul:f32:20x12x16:n,t",
            "matmul:f32:20x12x16:t,t",
        ],
    );
    println!("{compared} runs compared");
    assert!(compared > 200, "{compared}");
}
