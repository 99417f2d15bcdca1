override TILE: u32 = 16u;
override ROWS: u32 = 4u;
override PAD: u32 = 1u;
override LINES: u32 = TILE / ROWS;
override CELLS: u32 = TILE * (TILE + PAD);

@group(0) @binding(0) var<storage, read> operand: array<T>;
@group(0) @binding(1) var<storage, read_write> result: array<T>;
// Row 0: the operand's last axis, the result's last axis, and tiles along each; row 1: the stride in the operand of the
// result's last axis, the stride in the result of the operand's last axis, and the number of tiles; then for each axis
// they are repeated along: its size, and its strides in the operand and in the result.
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 6>;

var<workgroup> tile: array<T, CELLS>;

@compute @workgroup_size(TILE, LINES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let number = group.y * groups.x + group.x;
    // The same for all invocations of a workgroup, so that they all meet at the barrier.
    if number >= params[1].z {
        return;
    }
    let wide = params[0].x;
    let high = params[0].y;
    let left = number % params[0].z * TILE;
    var rest = number / params[0].z;
    let top = rest % params[0].w * TILE;
    rest = rest / params[0].w;
    var from_base = 0u;
    var to_base = 0u;
    for (var axis = 2u; axis < 6u; axis++) {
        let digit = rest % params[axis].x;
        rest = rest / params[axis].x;
        from_base += digit * params[axis].y;
        to_base += digit * params[axis].z;
    }
    for (var line = local.y; line < TILE; line += LINES) {
        if left + local.x < wide && top + line < high {
            tile[line * (TILE + PAD) + local.x] = operand[from_base + (top + line) * params[1].x + left + local.x];
        }
    }
    workgroupBarrier();
    for (var line = local.y; line < TILE; line += LINES) {
        if top + local.x < high && left + line < wide {
            result[to_base + (left + line) * params[1].y + top + local.x] = tile[local.x * (TILE + PAD) + line];
        }
    }
}
