override WX: u32;
override WY: u32;

@compute @workgroup_size(WX, WY)
$MAIN
$TILE
    let first_row = $FIRST_ROW;
    let first_column = (tile.column * WX + local.x) * $TNu;
    if (first_row >= rows || first_column >= columns) {
        return;
    }
    // Rows and columns behind the last stand for the last: read again, never written.
$STARTS
    var at = 0u;
    for (; at + $UNROLLu <= inner; at += $UNROLLu) {
$ROUND    }
$TAIL$STORES}
