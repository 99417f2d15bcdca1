// An invocation does a row (or a vector of rows side by side) and waits for nobody.
override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    let id = number * WIDTH + invocation;
    if (id >= params[0].x) {
        return;
    }
    let steps = params[0].y;
    let stride = params[0].z;
    let first = id / stride * steps * stride + id % stride;
    let row = look(first, steps, stride);
$WRITE
}
