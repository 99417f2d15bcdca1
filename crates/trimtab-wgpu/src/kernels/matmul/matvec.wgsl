override WIDTH: u32;
override SPLIT: u32;
$MEMORY
@compute @workgroup_size(WIDTH * SPLIT)
$MAIN
$TILE
    let results = $RESULTS;
    // Neighbours read neighbours.
    let place = $PLACE;
    let share = $SHARE;
    let first = ($GROUP * WIDTH + place) * $EACHu;
    // Results behind the last stand for the last: read again, never written.
    let result = min(first, results - $EACHu);
$SUMS    for (var at = share * $STEPu; at < inner; at += SPLIT * $STEPu) {
$ROUND    }
$GATHER    if ($WRITER first < results) {
$STORES    }
}
