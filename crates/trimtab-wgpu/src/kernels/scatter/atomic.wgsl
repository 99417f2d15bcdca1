@group(0) @binding(0) var<storage, read> added: array<u32>;
@group(0) @binding(2) var<storage, read_write> result: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    let all = params[0].x;
    let inner = params[0].y;
    let count = params[0].z;
    let len = params[0].w;
    for (var at = number * WIDTH + invocation; at < all; at += params[1].x) {
        let row = at / inner;
        let place = place_of($NTH, len);
        if (place < len) {
            add((row / count * len + place) * inner + at % inner, added[at]);
        }
    }
}
