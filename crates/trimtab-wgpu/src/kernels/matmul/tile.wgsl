    if (number >= params[0].w) {
        return;
    }
    let tile = tile_of(number);
    let rows = params[0].x;
    let columns = params[0].y;
    let inner = params[0].z;
