// A workgroup folds one axis: each invocation its share, each subgroup its invocations, one invocation the subgroups.
// No subgroup is smaller than LEAST, so that no two of them share a place.
override WORKGROUP: u32 = 64u;
override LEAST: u32 = 4u;

var<workgroup> states: array<One, (WORKGROUP + LEAST - 1u) / LEAST>;

@compute @workgroup_size(WORKGROUP)
$LANE_MAIN
    let inside = number < params[1].w;
    let places = (WORKGROUP + LEAST - 1u) / LEAST;
    if (invocation < places) {
        states[invocation] = empty_one();
    }
    var state = empty_one();
    if (inside) {
        let base = params[1].z + number * params[1].y;
        state = together(walk(base, 1u, invocation, params[0].x, WORKGROUP));
$TAIL
    }
    state = over_subgroup(state);
    workgroupBarrier();
    if (lane == 0u) {
        states[invocation / LEAST] = state;
    }
    workgroupBarrier();
    if (inside && invocation == 0u) {
        var all = states[0];
        for (var place = 1u; place < places; place++) {
            all = merge_one(all, states[place]);
        }
        store(params[2].w + number * params[3].x, all);
    }
}
