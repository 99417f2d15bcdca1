// A workgroup folds one chunk of COLUMNS neighbouring axes: each invocation its share, then halves upon halves.
override WORKGROUP: u32 = 64u;
override COLUMNS: u32 = 1u;

var<workgroup> states: array<One, WORKGROUP>;

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = group.y * groups.x + group.x;
    let rows = WORKGROUP / COLUMNS;
    let inner = params[1].x;
    let chunks = params[0].w;
    let tiles = params[3].z;
    let row = local / COLUMNS;
    let column = (tile % tiles) * COLUMNS + local % COLUMNS;
    let chunk = (tile / tiles) % chunks;
    let outer = tile / tiles / chunks;
    let inside = tile < params[1].w && column < inner;
    var state = empty_one();
    if (inside) {
        let begin = chunk * params[0].z;
        let last = min(params[0].x, begin + params[0].z);
        let base = params[1].z + outer * params[1].y + column;
        state = together(walk(base, params[0].y, begin + row, last, rows));
$TAIL
    }
    states[local] = state;
    for (var half = rows / 2u; half > 0u; half = half / 2u) {
        workgroupBarrier();
        if (row < half) {
            state = merge_one(state, states[local + half * COLUMNS]);
            states[local] = state;
        }
    }
    if (inside && row == 0u) {
        store(params[2].w + (outer * params[3].x + chunk) * inner + column, state);
    }
}
