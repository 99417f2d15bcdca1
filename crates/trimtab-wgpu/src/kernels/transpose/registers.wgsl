override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    if number * WIDTH + invocation >= params[1].z {
        return;
    }
    let block = block_of(number * WIDTH + invocation);
    let right = min(block.left + params[6].x, params[0].x);
    let bottom = min(block.top + params[6].y, params[0].y);
    for (var x = block.left; x < right; x++) {
        for (var y = block.top; y < bottom; y++) {
            MOVE
        }
    }
}
