// The largest finite element, what the exponentials' sum is used as, and whether there is something odd in the row: no number (1),
// infinity (2), nothing finite (4). Nothing is computed with what is odd, so that no compiler can get it wrong.
struct Row {
    less: V,
    by: V,
    odd: U,
}

const LOWEST: f32 = -3.4028234663852886e+38;

fn odd_of(x: V) -> U {
    let bits = bitcast<U>(x);
    let none = select(U(0u), U(1u), (bits & U(0x7fffffffu)) > U(0x7f800000u));
    return none | select(U(0u), U(2u), bits == U(0x7f800000u));
}

// Of a number that is not above zero.
fn exp_of(x: V) -> V {
    return exp(max(x, V(-104.0)));
}

fn conclude(most: V, sum: V, odd: U) -> Row {
    // The largest adds one.
    let there = max(sum, V(1.0));
    return Row(most, $BY, odd | select(U(0u), U(4u), sum == V(0.0)));
}

