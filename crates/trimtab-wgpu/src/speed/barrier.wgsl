// A loop with a barrier in every round, or with none.
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
    var word = local;
    for (var round = 0u; round < params[0].x; round++) {
        if (params[0].y != 0u) {
            workgroupBarrier();
        }
        word = word * 1664525u + 1013904223u;
    }
    // Never so; without it the loop has no effect and is left out.
    if (word == 77u && local == 77u) {
        out[0] = word;
    }
}
