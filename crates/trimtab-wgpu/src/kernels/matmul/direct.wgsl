override WX: u32;
override WY: u32;

@compute @workgroup_size(WX, WY)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let number = group.y * groups.x + group.x;
    if (number >= params[0].w) {
        return;
    }
    let tile = tile_of(number);
    let rows = params[0].x;
    let columns = params[0].y;
    let inner = params[0].z;
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
