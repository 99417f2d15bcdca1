fn op_div(a: i32, b: i32) -> i32 {
    if b == 0 {
        atomicMax(&status[0], 1u);
    }
    // The smallest number divided by minus one wraps; some processors trap instead, also in lanes that are masked.
    let quotient = a / select(b, 1, b == 0 || b == -1);
    return select(quotient, bitcast<i32>(0u - bitcast<u32>(a)), b == -1);
}

fn op_pow(a: i32, b: i32) -> i32 {
    if b < 0 {
        if a == 0 {
            atomicMax(&status[0], 1u);
        }
        return select(select(0, select(-1, 1, (b & 1) == 0), a == -1), 1, a == 1);
    }
    var result = 1u;
    var base = bitcast<u32>(a);
    // At most 31 rounds.
    for (var power = bitcast<u32>(b); power > 0u; power = power >> 1u) {
        if (power & 1u) == 1u {
            result = result * base;
        }
        base = base * base;
    }
    return bitcast<i32>(result);
}
