// Runs of 64 steps, and those together: what keeps sums accurate.
fn walk(first: u32, stride: u32, begin: u32, steps: u32) -> Many {
    var total = empty_many();
    var at = begin;
    while (at < steps) {
        var run = empty_many();
        let last = min(steps, at + 64u * WIDTH);
        while (at < last) {
            run = take(run, V(input[first + at * stride]));
            at += WIDTH;
        }
        total = merge_many(total, run);
    }
    return total;
}

override WIDTH: u32 = 64u;

var<workgroup> states: array<One, WIDTH>;

@compute @workgroup_size(WIDTH)
$MAIN
    let id = number;
    if (id >= params[0].x) {
        return;
    }
    let steps = params[0].y;
    let stride = params[0].z;
    let first = id / stride * steps * stride + id % stride;
    var state = together(walk(first, stride, invocation, steps));
    states[invocation] = state;
    for (var half = WIDTH / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (invocation < half) {
            state = merge_one(state, states[invocation + half]);
            states[invocation] = state;
        }
    }
    workgroupBarrier();
    let row = conclude_one(states[0]);
$WRITE
}
