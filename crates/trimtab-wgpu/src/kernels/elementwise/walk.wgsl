override WIDTH: u32 = 64u;

// Row 0: items to handle, items of an invocation, step; row 1: where a workgroup and an invocation begin; from row 2 on for
// each axis, outermost first: its size, two strides, and the step's digit.
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, $ROWS>;

@compute @workgroup_size(WIDTH)
$MAIN
    let count = params[0].x;
    let items = params[0].y;
    let step = params[0].z;
    var at = number * params[1].x + invocation * params[1].y;
$ONCE$DIGITS
    for (var item = 0u; item < items; item++) {
        if at < count {
            $EACH;
        }
        at += step;
$ADVANCE
    }
}
