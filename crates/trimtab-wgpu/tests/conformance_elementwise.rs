//! Every elementwise kernel at every legal point against the CPU's reference.

mod conform;

use trimtab_core::Operation;

#[test]
fn contiguous_operands_agree_with_the_reference_at_every_point() {
    let problems = [
        "elementwise.add:f32:1",
        "elementwise.add:f32:1000",
        "elementwise.add:f32:65537",
        "elementwise.add:f32:0",
    ];
    assert!(conform::conforms(Operation::Elementwise, &problems) > 30);
}
