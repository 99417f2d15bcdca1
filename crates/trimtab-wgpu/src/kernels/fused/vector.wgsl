override WIDTH: u32 = 64u;

// Row 0: vectors, items, step; row 1: where a workgroup and an invocation begin; rows 2 and 3, where inputs are found by row or
// column: rows and vectors of a row, and the step's digits.
@group(0) @binding(PARAMS) var<uniform> params: array<vec4<u32>, ROWS>;

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
ONCE    DIGITS
    for (var item = 0u; item < items; item++) {
        if at < count {
            result[at] = EACH;
        }
        at += step;
        ADVANCE
    }
}
