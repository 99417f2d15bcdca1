fn op_neg(x: i32) -> i32 {
    return bitcast<i32>(0u - bitcast<u32>(x));
}

fn op_abs(x: i32) -> i32 {
    let bits = bitcast<u32>(x);
    return bitcast<i32>(select(bits, 0u - bits, x < 0));
}

fn op_relu(x: i32) -> i32 {
    return max(x, 0);
}

fn op_add(a: i32, b: i32) -> i32 {
    return bitcast<i32>(bitcast<u32>(a) + bitcast<u32>(b));
}

fn op_sub(a: i32, b: i32) -> i32 {
    return bitcast<i32>(bitcast<u32>(a) - bitcast<u32>(b));
}

fn op_mul(a: i32, b: i32) -> i32 {
    return bitcast<i32>(bitcast<u32>(a) * bitcast<u32>(b));
}

fn op_min(a: i32, b: i32) -> i32 {
    return min(a, b);
}

fn op_max(a: i32, b: i32) -> i32 {
    return max(a, b);
}
