@group(0) @binding(0) var<storage, read> given: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> made: array<vec2<f32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;

// The spectrum of real numbers from that of their evens and odds as complex ones: an invocation a bin.
@compute @workgroup_size(WIDTH)
$MAIN
    let id = number * WIDTH + invocation;
    if (id >= params[0].x) {
        return;
    }
    let half = params[0].y;
    let row = id / (half + 1u);
    let bin = id % (half + 1u);
    let here = given[row * half + bin % half];
    let there = conjugate(given[row * half + (half - bin) % half]);
    let odds = 0.5 * quarter(here - there);
    made[id] = 0.5 * (here + there) + times(odds, turn(bin, params[1].x));
}
