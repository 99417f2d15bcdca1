// An invocation scans a line and waits for nobody.
override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    let id = number * WIDTH + invocation;
    if (id >= params[0].x) {
        return;
    }
    let len = params[0].y;
    let stride = params[0].z;
    let first = id / stride * len * stride + id % stride;
    var before = empty();
    for (var at = 0u; at < len; at++) {
        let place = first + at * stride;
$EMIT
    }
}
