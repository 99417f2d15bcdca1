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
    let end = min(len, begin + ITEMS);
    let here = before_this(invocation, total(first, stride, begin, end));
    var before = merge(starts[number], here);
    for (var at = begin; at < end; at++) {
        let place = first + at * stride;
$EMIT
    }
}
