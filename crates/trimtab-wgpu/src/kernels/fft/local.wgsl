@group(0) @binding(0) var<storage, read> given: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> made: array<vec2<f32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;
override LEN: u32 = 64u;
override LINES: u32 = 1u;

// Twice the lines of the workgroup: a pass reads one half and writes the other.
var<workgroup> numbers: array<vec2<f32>, 2u * LINES * LEN>;

$STEPS

// Where a number of the workgroup's lines is in memory; side by side, neighbours of a line or neighbouring lines.
fn place(first: u32, line: u32, at: u32) -> u32 {
    let inner = params[0].z;
    let id = first + line;
    return (id / inner) * LEN * inner + at * inner + id % inner;
}

@compute @workgroup_size(WIDTH)
$MAIN
    let count = params[0].x;
    let apart = params[0].z > 1u;
    let first = number * LINES;
    way = 1.0 - 2.0 * f32(params[1].y);
    let scale = bitcast<f32>(params[1].z);
    for (var nth = invocation; nth < LINES * LEN; nth += WIDTH) {
        var line = nth / LEN;
        var at = nth % LEN;
        if (apart) {
            line = nth % LINES;
            at = nth / LINES;
        }
        var value = vec2<f32>(0.0, 0.0);
        if (first + line < count) {
            value = given[place(first, line, at)];
        }
        numbers[line * LEN + at] = value;
    }
    var done = 1u;
    var here = 0u;
    for (var rest = LEN; rest > 1u; ) {
        workgroupBarrier();
        let there = LINES * LEN - here;
        $PASS
        here = there;
    }
    workgroupBarrier();
    for (var nth = invocation; nth < LINES * LEN; nth += WIDTH) {
        var line = nth / LEN;
        var at = nth % LEN;
        if (apart) {
            line = nth % LINES;
            at = nth / LINES;
        }
        if (first + line < count) {
            made[place(first, line, at)] = scale * numbers[here + line * LEN + at];
        }
    }
}
