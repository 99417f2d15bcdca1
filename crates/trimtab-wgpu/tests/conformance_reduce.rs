//! Reductions on a GPU against the processor.

mod conform;

use trimtab_core::Operation;

#[test]
fn quick() {
    let n = conform::conforms(
        Operation::Reduce,
        &["reduce.sum:f32:1000", "reduce.sum:f32:37x64:axis1", "reduce.sum:f32:3x100x12:axis1"],
    );
    eprintln!("{n}");
}
