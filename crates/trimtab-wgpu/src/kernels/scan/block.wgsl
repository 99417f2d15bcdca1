override WIDTH: u32 = 64u;
override ITEMS: u32 = 4u;

var<workgroup> states: array<State, WIDTH>;

// What the invocations before this one have together; what all have stands in the last place.
fn before_this(invocation: u32, own: State) -> State {
    states[invocation] = own;
    var sum = own;
    for (var off = 1u; off < WIDTH; off = off * 2u) {
        workgroupBarrier();
        if (invocation >= off) {
            sum = merge(states[invocation - off], sum);
        }
        workgroupBarrier();
        states[invocation] = sum;
    }
    workgroupBarrier();
    if (invocation > 0u) {
        return states[invocation - 1u];
    }
    return empty();
}

// What the elements of an invocation have together.
fn total(first: u32, stride: u32, begin: u32, end: u32) -> State {
    var sum = empty();
    for (var at = begin; at < end; at++) {
        sum = merge(sum, load(first + at * stride));
    }
    return sum;
}

