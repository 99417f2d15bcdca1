// An invocation folds one chunk of one axis (or of $WIDTH axes side by side) and waits for nobody.
override WORKGROUP: u32 = 64u;

@compute @workgroup_size(WORKGROUP)
$MAIN
    let id = number * WORKGROUP + invocation;
    let inner = params[1].x;
    let chunks = params[0].w;
    if (id >= params[1].w) {
        return;
    }
    let column = id % inner;
    let chunk = (id / inner) % chunks;
    let outer = id / inner / chunks;
    // Chunks are dealt to bands of neighbours, which take turns within the band.
    let neighbours = params[3].y;
    let band = params[0].z * neighbours;
    let begin = (chunk / neighbours) * band;
    let last = min(params[0].x, begin + band);
    let state = walk(params[1].z + outer * params[1].y + column, params[0].y, begin + chunk % neighbours, last, neighbours);
    let slot = params[2].w + (outer * params[3].x + chunk) * inner * $SIDE + column * $SIDE;
$WRITE
}
