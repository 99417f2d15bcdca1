override WIDTH: u32;
override SPLIT: u32;
$MEMORY
@compute @workgroup_size(WIDTH * SPLIT)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) invocation: u32,
) {
    let number = group.y * groups.x + group.x;
    if (number >= params[0].w) {
        return;
    }
    let tile = tile_of(number);
    let inner = params[0].z;
    let results = $RESULTS;
    // Neighbours read neighbours.
    let place = $PLACE;
    let share = $SHARE;
    let first = ($TILE * WIDTH + place) * $EACHu;
    // Results behind the last stand for the last: read again, never written.
    let result = min(first, results - $EACHu);
$SUMS    for (var at = share * $STEPu; at < inner; at += SPLIT * $STEPu) {
$ROUND    }
$GATHER    if ($WRITER first < results) {
$STORES    }
}
