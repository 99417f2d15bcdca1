// A product of square matrices. A workgroup of tx * ty invocations makes a block of the result, each invocation rx * ry elements of it.
// `tx`, `ty`, `rx`, `ry`, `depth` and `tiled` are the parameters of space.toml.
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@group(0) @binding(3) var<uniform> n: u32;

const width = tx * rx;
const height = ty * ry;
var<workgroup> of_a: array<f32, height * depth>;
var<workgroup> of_b: array<f32, depth * width>;

@compute @workgroup_size(tx, ty)
fn matmul(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) own: vec3<u32>) {
    let left = group.x * width;
    let top = group.y * height;
    let number = own.y * tx + own.x;
    var sums: array<f32, rx * ry>;
    for (var start = 0u; start < n; start += depth) {
        if (tiled) {
            for (var at = number; at < height * depth; at += tx * ty) {
                of_a[at] = a[(top + at / depth) * n + start + at % depth];
            }
            for (var at = number; at < depth * width; at += tx * ty) {
                of_b[at] = b[(start + at / width) * n + left + at % width];
            }
            workgroupBarrier();
        }
        for (var k = 0u; k < depth; k++) {
            for (var j = 0u; j < ry; j++) {
                let row = own.y + j * ty;
                var from_a: f32;
                if (tiled) { from_a = of_a[row * depth + k]; } else { from_a = a[(top + row) * n + start + k]; }
                for (var i = 0u; i < rx; i++) {
                    let column = own.x + i * tx;
                    var from_b: f32;
                    if (tiled) { from_b = of_b[k * width + column]; } else { from_b = b[(start + k) * n + left + column]; }
                    sums[j * rx + i] += from_a * from_b;
                }
            }
        }
        if (tiled) { workgroupBarrier(); }
    }
    for (var j = 0u; j < ry; j++) {
        for (var i = 0u; i < rx; i++) {
            c[(top + own.y + j * ty) * n + left + own.x + i * tx] = sums[j * rx + i];
        }
    }
}
