// Rounds to the nearest, to even where two are as near: what is left of `size` without its last `cut` bits.
fn rounded(size: u32, cut: u32) -> u32 {
    let low = size & ((1u << cut) - 1u);
    let half = 1u << (cut - 1u);
    let high = size >> cut;
    if (low > half || (low == half && (high & 1u) == 1u)) {
        return high + 1u;
    }
    return high;
}

// A whole number as f32 of so many digits.
fn float_of(x: u32, digits: u32) -> u32 {
    if (x == 0u) {
        return 0u;
    }
    let sign = x & 0x80000000u;
    var size = x;
    if (sign != 0u) {
        size = 0u - x;
    }
    var high = firstLeadingBit(size);
    if (high >= digits) {
        size = rounded(size, high + 1u - digits);
        if (size == (1u << digits)) {
            size = size >> 1u;
            high = high + 1u;
        }
    } else {
        size = size << (digits - 1u - high);
    }
    return sign | ((high + 127u) << 23u) | ((size << (24u - digits)) & 0x7fffffu);
}

fn half_of(x: u32) -> u32 {
    let sign = (x >> 16u) & 0x8000u;
    let size = x & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    // From 65520 on.
    if (size >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    if (size >= 0x38800000u) {
        return sign | (rounded(size, 13u) - (0x38000000u >> 13u));
    }
    // Half of the smallest there is, and less.
    if (size <= 0x33000000u) {
        return sign;
    }
    return sign | rounded((size & 0x7fffffu) | 0x800000u, 126u - (size >> 23u));
}

fn float_of_half(x: u32) -> u32 {
    let sign = (x & 0x8000u) << 16u;
    let exponent = (x >> 10u) & 0x1fu;
    let digits = x & 0x3ffu;
    if (exponent == 31u) {
        return sign | 0x7f800000u | (digits << 13u);
    }
    if (exponent > 0u) {
        return sign | ((exponent + 112u) << 23u) | (digits << 13u);
    }
    if (digits == 0u) {
        return sign;
    }
    let high = firstLeadingBit(digits);
    return sign | ((high + 103u) << 23u) | ((digits << (23u - high)) & 0x7fffffu);
}

fn brain_of(x: u32) -> u32 {
    if ((x & 0x7fffffffu) > 0x7f800000u) {
        return (x >> 16u) | 0x40u;
    }
    return rounded(x, 16u);
}

fn whole_of(x: u32) -> u32 {
    if ((x & 0x7fffffffu) > 0x7f800000u) {
        return 0u;
    }
    let number = bitcast<f32>(x);
    if (number >= 2147483648.0) {
        return 0x7fffffffu;
    }
    if (number <= -2147483648.0) {
        return 0x80000000u;
    }
    return bitcast<u32>(i32(number));
}
