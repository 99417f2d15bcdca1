// Independent chains of multiply-adds: what the device can compute at most.
@group(0) @binding(0) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) local: u32, @builtin(workgroup_id) group: vec3<u32>) {
    let start = f32(local + group.x);
    var a = vec4<f32>(start, start + 1.0, start + 2.0, start + 3.0);
    var b = a + 4.0;
    var c = a + 8.0;
    var d = a + 12.0;
    let factor = vec4<f32>(0.5 + start * 1e-9);
    for (var round = 0u; round < params[0].x; round++) {
        a = fma(a, factor, a);
        b = fma(b, factor, b);
        c = fma(c, factor, c);
        d = fma(d, factor, d);
        a = fma(a, factor, factor);
        b = fma(b, factor, factor);
        c = fma(c, factor, factor);
        d = fma(d, factor, factor);
        a = fma(a, factor, a);
        b = fma(b, factor, b);
        c = fma(c, factor, c);
        d = fma(d, factor, d);
        a = fma(a, factor, factor);
        b = fma(b, factor, factor);
        c = fma(c, factor, factor);
        d = fma(d, factor, factor);
    }
    // Never so; without it the loop has no effect and is left out.
    let sum = a + b + c + d;
    if (sum.x == 12345.678) {
        out[0] = sum;
    }
}
