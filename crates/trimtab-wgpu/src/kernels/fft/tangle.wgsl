@group(0) @binding(0) var<storage, read> given: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> made: array<vec2<f32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;

// Half as many complex numbers whose transform back are the evens and odds of real ones: an invocation a number.
@compute @workgroup_size(WIDTH)
$MAIN
    let id = number * WIDTH + invocation;
    if (id >= params[0].x) {
        return;
    }
    let half = params[0].y;
    let row = id / half;
    let bin = id % half;
    way = -1.0;
    var here = given[row * (half + 1u) + bin];
    var there = conjugate(given[row * (half + 1u) + half - bin]);
    // What real numbers cannot have is not looked at.
    if (bin == 0u) {
        here.y = 0.0;
        there.y = 0.0;
    }
    let scale = bitcast<f32>(params[1].z);
    made[id] = scale * (here + there + quarter(times(here - there, turn(bin, params[1].x))));
}
