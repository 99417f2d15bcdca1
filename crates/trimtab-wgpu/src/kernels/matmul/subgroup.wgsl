override WIDTH: u32;

// Sums of the subgroups, at the place of the invocation that leads each; zero at the others.
var<workgroup> parts: array<A, $COUNTu * WIDTH>;

@compute @workgroup_size(WIDTH)
$LANE_MAIN
$TILE
    let first = tile.column * $COUNTu;
    let left = tile.left + tile.row * params[3].x;
    // Columns behind the last stand for the last: read again, never written.
$STARTS    for (var at = invocation; at < inner; at += WIDTH) {
        let a = A(lhs[left + at * params[3].y]);
$ROUND    }
$ADD    // Which invocations make up a subgroup is the driver's to choose: only who leads one is known.
$KEEP    workgroupBarrier();
    if (invocation < $COUNTu && first + invocation < columns) {
        var sum = A(0.0);
        for (var part = 0u; part < WIDTH; part += 1u) {
            sum += parts[invocation * WIDTH + part];
        }
        let at = tile.result + tile.row * params[1].w + first + invocation;
        product[at] = finished(sum, tile.row, first + invocation);
    }
}
