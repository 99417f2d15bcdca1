// Invocations pass words to their neighbours; BARRIER is a barrier, or nothing to compare with.
@group(0) @binding(0) var<storage, read_write> out: array<u32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

var<workgroup> words: array<u32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32) {
    var word = local;
    for (var round = 0u; round < params[0].x; round++) {
        words[local] = word;
        BARRIER
        word = words[(local + 1u) & 63u] * 1664525u + 1013904223u;
        BARRIER
    }
    // Never so; without it the loop has no effect and is left out.
    if (word == 77u && local == 77u) {
        out[0] = word;
    }
}
