// A workgroup folds one chunk of COLUMNS neighbouring axes: each invocation its share, then halves upon halves.
override WORKGROUP: u32 = 64u;
override COLUMNS: u32 = 1u;

var<workgroup> states: array<One, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
$MAIN
    let rows = WORKGROUP / COLUMNS;
    let inner = params[1].x;
    let chunks = params[0].w;
    let tiles = params[3].z;
    let row = invocation / COLUMNS;
    let column = (number % tiles) * COLUMNS + invocation % COLUMNS;
    let chunk = (number / tiles) % chunks;
    let outer = number / tiles / chunks;
    let inside = number < params[1].w && column < inner;
    var state = empty_one();
    if (inside) {
        let begin = chunk * params[0].z;
        let last = min(params[0].x, begin + params[0].z);
        let base = params[1].z + outer * params[1].y + column;
        state = together(walk(base, params[0].y, begin + row, last, rows));
$TAIL
    }
    states[invocation] = state;
    for (var half = rows / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (row < half) {
            state = merge_one(state, states[invocation + half * COLUMNS]);
            states[invocation] = state;
        }
    }
    if (inside && row == 0u) {
        store(params[2].w + (outer * params[3].x + chunk) * inner + column, state);
    }
}
