override WIDTH: u32 = 64u;

@group(0) @binding(0) var<storage, read> operand: array<V>;
@group(0) @binding(1) var<storage, read_write> result: array<V>;
// As in the tiled kernel, all counted in squares of a vector's side where V is a vector; row 1 also has the number of
// blocks, and row 6 a block's squares along the operand's and along the result's last axis.
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 7>;

@compute @workgroup_size(WIDTH)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let number = (group.y * groups.x + group.x) * WIDTH + local;
    if number >= params[1].z {
        return;
    }
    let left = number % params[0].z * params[6].x;
    var rest = number / params[0].z;
    let top = rest % params[0].w * params[6].y;
    rest = rest / params[0].w;
    var from_base = 0u;
    var to_base = 0u;
    for (var axis = 2u; axis < 6u; axis++) {
        let digit = rest % params[axis].x;
        rest = rest / params[axis].x;
        from_base += digit * params[axis].y;
        to_base += digit * params[axis].z;
    }
    let right = min(left + params[6].x, params[0].x);
    let bottom = min(top + params[6].y, params[0].y);
    for (var x = left; x < right; x++) {
        for (var y = top; y < bottom; y++) {
            MOVE
        }
    }
}
