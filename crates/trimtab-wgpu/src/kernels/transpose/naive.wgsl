override WIDTH: u32 = 64u;

@group(0) @binding(0) var<storage, read> operand: array<T>;
@group(0) @binding(1) var<storage, read_write> result: array<T>;
// Row 0: elements, items, step; row 1: where a workgroup and an invocation begin; from row 2 on for each axis, outermost
// first: its size, its strides in the operand and in the result, and the step's digit.
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, ROWS>;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let count = params[0].x;
    let items = params[0].y;
    let step = params[0].z;
    let number = group.y * groups.x + group.x;
    var at = number * params[1].x + local * params[1].y;
    DIGITS
    for (var item = 0u; item < items; item++) {
        if at < count {
            result[TO] = operand[FROM];
        }
        at += step;
        ADVANCE
    }
}
