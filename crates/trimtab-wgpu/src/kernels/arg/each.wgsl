@group(0) @binding(0) var<storage, read> input: array<T>;
@group(0) @binding(1) var<storage, read_write> output: array<R>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

override WIDTH: u32 = 64u;

// An invocation looks through a line and waits for nobody.
@compute @workgroup_size(WIDTH)
$MAIN
    let line = number * WIDTH + invocation;
    if (line >= params[0].x) {
        return;
    }
    let len = params[0].y;
    let stride = params[0].z;
    let first = line / stride * len * stride + line % stride;
    var best = END;
    for (var at = 0u; at < len; at++) {
        let entry = entry_of(input[first + at * stride], at);
        if (is_behind(best, entry)) {
            best = entry;
        }
    }
    output[line] = result_of(best);
}
