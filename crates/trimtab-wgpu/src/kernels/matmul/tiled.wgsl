override TILE: u32;
override DEPTH: u32;

var<workgroup> left: array<A, TILE * TILE * DEPTH>;
var<workgroup> right: array<A, TILE * TILE * DEPTH>;

@compute @workgroup_size(TILE, TILE)
$MAIN
$TILE
    let row = tile.row * TILE + local.y;
    let column = tile.column * TILE + local.x;
    // Neighbours read neighbours: along the inner axis of a plain lhs, along the rows of a transposed one.
    let left_plain = params[3].y == 1u;
    let right_plain = params[3].w == 1u;
    var left_at = local.xy;
    if (!left_plain) {
        left_at = local.yx;
    }
    var right_at = local.xy;
    if (!right_plain) {
        right_at = local.yx;
    }
    let left_row = tile.row * TILE + left_at.y;
    let right_column = tile.column * TILE + right_at.x;
    var sum = A(0.0);
    for (var first = 0u; first < inner; first += TILE * DEPTH) {
        for (var layer = 0u; layer < DEPTH; layer += 1u) {
            let left_inner = first + layer * TILE + left_at.x;
            var a = A(0.0);
            if (left_row < rows && left_inner < inner) {
                a = A(lhs[tile.left + left_row * params[3].x + left_inner * params[3].y]);
            }
            left[left_at.y * TILE * DEPTH + layer * TILE + left_at.x] = a;
            let right_inner = first + layer * TILE + right_at.y;
            var b = A(0.0);
            if (right_column < columns && right_inner < inner) {
                b = A(rhs[tile.right + right_inner * params[3].z + right_column * params[3].w]);
            }
            right[(layer * TILE + right_at.y) * TILE + right_at.x] = b;
        }
        workgroupBarrier();
        for (var at = 0u; at < TILE * DEPTH; at += 1u) {
            sum += left[local.y * TILE * DEPTH + at] * right[at * TILE + local.x];
        }
        workgroupBarrier();
    }
    if (row < rows && column < columns) {
        product[tile.result + row * params[1].w + column] = finished(sum, row, column);
    }
}
