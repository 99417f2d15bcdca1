@compute @workgroup_size(WIDTH)
$MAIN
    if (number >= params[0].x) {
        return;
    }
    let len = params[0].y;
    let stride = params[0].z;
    let id = number / params[0].w;
    let first = id / stride * len * stride + id % stride;
    let begin = min(len, ((number % params[0].w) * WIDTH + invocation) * ITEMS);
    var sum = total(first, stride, begin, min(len, begin + ITEMS));
    states[invocation] = sum;
    for (var half = WIDTH / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (invocation < half) {
            sum = merge(sum, states[invocation + half]);
            states[invocation] = sum;
        }
    }
    if (invocation == 0u) {
        totals[number] = sum;
    }
}
