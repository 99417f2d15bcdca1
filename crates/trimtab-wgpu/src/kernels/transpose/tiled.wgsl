override TILE: u32 = 16u;
override ROWS: u32 = 4u;
override PAD: u32 = 1u;
override LINES: u32 = TILE / ROWS;
override CELLS: u32 = TILE * (TILE + PAD);

var<workgroup> tile: array<V, CELLS>;

@compute @workgroup_size(TILE, LINES)
$MAIN
    // The same for all invocations of a workgroup, so that they all meet at the barrier.
    if number >= params[1].z {
        return;
    }
    let block = block_of(number);
    let column = block.left + local.x;
    let row = block.top + local.x;
    for (var line = local.y; line < TILE; line += LINES) {
        if column < params[0].x && block.top + line < params[0].y {
            tile[line * (TILE + PAD) + local.x] = operand[block.from_base + (block.top + line) * params[1].x + column];
        }
    }
    workgroupBarrier();
    for (var line = local.y; line < TILE; line += LINES) {
        if row < params[0].y && block.left + line < params[0].x {
            result[block.to_base + (block.left + line) * params[1].y + row] = tile[local.x * (TILE + PAD) + line];
        }
    }
}
