@group(0) @binding(0) var<storage, read> input: array<$OF>;
@group(0) @binding(1) var<storage, read_write> output: array<$KEPT>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

override WIDTH: u32 = 64u;

var<workgroup> entries: array<E, WIDTH>;

// A workgroup looks through a part of a line: its invocations through every so manieth element, then two by two.
@compute @workgroup_size(WIDTH)
$MAIN
    let parts = params[0].w;
    let line = number / parts;
    let len = params[0].y;
    let stride = params[0].z;
    let first = line / stride * len * stride + line % stride;
    var best = END;
    if (line < params[0].x) {
        for (var at = number % parts * WIDTH + invocation; at < len; at += parts * WIDTH) {
            let place = first + at * stride;
            let entry = $ENTRY;
            if (is_behind(best, entry)) {
                best = entry;
            }
        }
    }
    entries[invocation] = best;
    for (var apart = WIDTH / 2u; apart > 0u; apart = apart / 2u) {
        workgroupBarrier();
        if (invocation < apart && is_behind(entries[invocation], entries[invocation + apart])) {
            entries[invocation] = entries[invocation + apart];
        }
    }
    workgroupBarrier();
    if (invocation == 0u && line < params[0].x) {
        output[number] = $RESULT;
    }
}
