// Doubles as their bits, low word first: signs and comparisons need no 64-bit arithmetic.
fn is_nan(x: vec2<u32>) -> bool {
    let high = x.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && x.x != 0u);
}

// For numbers that are no NaN; the zeros are equal.
fn is_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    let negative_a = a.y >= 0x80000000u;
    let negative_b = b.y >= 0x80000000u;
    if negative_a != negative_b {
        return negative_a && ((a.y | b.y) & 0x7fffffffu | a.x | b.x) != 0u;
    }
    let smaller = a.y < b.y || (a.y == b.y && a.x < b.x);
    let equal = a.y == b.y && a.x == b.x;
    return !equal && (smaller != negative_a);
}

fn op_neg(x: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(x.x, x.y ^ 0x80000000u);
}

fn op_abs(x: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(x.x, x.y & 0x7fffffffu);
}

fn op_relu(x: vec2<u32>) -> vec2<u32> {
    let zero = x.y >= 0x80000000u && !is_nan(x) && (x.y != 0x80000000u || x.x != 0u);
    return select(x, vec2<u32>(0u, 0u), zero);
}

fn op_min(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(b, a, is_nan(a) || (!is_nan(b) && is_less(a, b)));
}

fn op_max(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return select(b, a, is_nan(a) || (!is_nan(b) && is_less(b, a)));
}
