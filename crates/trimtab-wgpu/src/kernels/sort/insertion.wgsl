@group(0) @binding(0) var<storage, read> input: array<T>;
@group(0) @binding(1) var<storage, read_write> output: array<R>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

override WIDTH: u32 = 64u;

// An invocation sorts a line of at most so many elements and waits for nobody.
@compute @workgroup_size(WIDTH)
$MAIN
    let id = number * WIDTH + invocation;
    if (id >= params[0].x) {
        return;
    }
    let len = min(params[0].y, $MOST);
    let stride = params[0].z;
    let first = id / stride * len * stride + id % stride;
    var entries: array<E, $MOST>;
    for (var at = 0u; at < len; at++) {
        let entry = entry_of(input[first + at * stride], at);
        var place = at;
        while (place > 0u) {
            let other = entries[place - 1u];
            if (!is_behind(other, entry)) {
                break;
            }
            entries[place] = other;
            place--;
        }
        entries[place] = entry;
    }
    let count = params[0].w;
    let kept = id / stride * count * stride + id % stride;
    for (var at = 0u; at < min(count, len); at++) {
        output[kept + at * stride] = result_of(entries[at]);
    }
}
