@compute @workgroup_size(WIDTH)
$MAIN
    let id = number;
    if (id >= params[0].x) {
        return;
    }
    let len = params[0].y;
    let stride = params[0].z;
    let first = id / stride * len * stride + id % stride;
    var carry = empty();
    for (var block = 0u; block < len; block += WIDTH * ITEMS) {
        let begin = min(len, block + invocation * ITEMS);
        let end = min(len, begin + ITEMS);
        let here = before_this(invocation, total(first, stride, begin, end));
        var before = merge(carry, here);
        for (var at = begin; at < end; at++) {
            let place = first + at * stride;
$EMIT
        }
        carry = merge(carry, states[WIDTH - 1u]);
        workgroupBarrier();
    }
}
