// A copy: what memory moves at most.
@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> lhs: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params[0].x) {
        out[id.x] = lhs[id.x];
    }
}
