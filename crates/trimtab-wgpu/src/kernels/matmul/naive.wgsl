override WX: u32;
override WY: u32;

@compute @workgroup_size(WX, WY)
$MAIN
$TILE
    let row = tile.row * WY + local.y;
    let column = tile.column * WX + local.x;
    if (row >= rows || column >= columns) {
        return;
    }
    let left_step = params[3].y;
    let right_step = params[3].z;
    var left = tile.left + row * params[3].x;
    var right = tile.right + column * params[3].w;
    var sum = A(0.0);
    var at = 0u;
    for (; at + $UNROLLu <= inner; at += $UNROLLu) {
$STEPS    }
    for (; at < inner; at += 1u) {
        sum += A(lhs[left]) * A(rhs[right]);
        left += left_step;
        right += right_step;
    }
    product[tile.result + row * params[1].w + column] = finished(sum, row, column);
}
