// The same few bytes read again and again: what caches move at most.
@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> lhs: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    var sum = vec4<f32>(0.0);
    for (var read = 0u; read < params[0].x; read++) {
        sum += lhs[(id.x + read * 256u) & params[0].y];
    }
    // Never so; without it the loop has no effect and is left out.
    if (sum.x == 12345.678) {
        out[0] = sum;
    }
}
