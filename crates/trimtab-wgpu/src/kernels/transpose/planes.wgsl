// Row 0: the operand's last axis, the result's last axis, and blocks along each; row 1: the stride in the operand of the
// result's last axis, the stride in the result of the operand's last axis, and the number of blocks; then for each axis
// they are repeated along: its size, and its strides in the operand and in the result. All counted in squares of a vector's
// side where V is a vector. Row 6: a block's squares along the operand's and along the result's last axis.
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 7>;

struct Block {
    // First column and row of the block, and where its plane begins.
    left: u32,
    top: u32,
    from_base: u32,
    to_base: u32,
}

fn block_of(number: u32) -> Block {
    var block: Block;
    block.left = number % params[0].z * params[6].x;
    var rest = number / params[0].z;
    block.top = rest % params[0].w * params[6].y;
    rest = rest / params[0].w;
    for (var axis = 2u; axis < 6u; axis++) {
        let digit = rest % params[axis].x;
        rest = rest / params[axis].x;
        block.from_base += digit * params[axis].y;
        block.to_base += digit * params[axis].z;
    }
    return block;
}
