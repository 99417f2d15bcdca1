fn is_nan(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// e to the power of x for x that is no NaN: what overflows or vanishes is decided here, not by the function.
fn exp_safe(x: f32) -> f32 {
    let value = bitcast<u32>(exp(clamp(x, -104.0, 89.0)));
    return bitcast<f32>(select(select(value, 0x7f800000u, x > 88.72284), 0u, x < -103.97208));
}

fn unit_sigmoid(x: f32) -> f32 {
    let e = exp(-min(abs(x), 104.0));
    return select(1.0, e, x < 0.0) / (1.0 + e);
}

// The logarithm to base two of a positive finite number, also of one too small for adapters that flush to zero.
fn log2_positive(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if bits < 0x00800000u {
        return log2(f32(bits)) - 149.0;
    }
    return log2(x);
}

fn op_neg(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u);
}

fn op_abs(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
}

fn op_relu(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    return bitcast<f32>(select(bits, 0u, bits > 0x80000000u && bits <= 0xff800000u));
}

fn op_exp(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    return exp_safe(x);
}

fn op_log(x: f32) -> f32 {
    var bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) == 0u {
        bits = 0xff800000u;
    } else if bits > 0x80000000u {
        bits = 0x7fc00000u;
    } else if bits < 0x00800000u {
        return log(f32(bits)) - 103.278929903431851103;
    } else if bits < 0x7f800000u {
        return log(x);
    }
    return bitcast<f32>(bits);
}

fn op_sqrt(x: f32) -> f32 {
    var bits = bitcast<u32>(x);
    if bits > 0x80000000u {
        bits = 0x7fc00000u;
    } else if bits != 0x80000000u && bits < 0x7f800000u {
        return sqrt(x);
    }
    return bitcast<f32>(bits);
}

fn op_tanh(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    let size = abs(x);
    let square = x * x;
    // Near zero the quotient would cancel.
    let small = x * (1.0 + square * (-0.33333333 + square * (0.13333333 + square * -0.053968254)));
    let e = exp(-2.0 * min(size, 44.0));
    let large = (1.0 - e) / (1.0 + e);
    return select(select(large, -large, x < 0.0), small, size < 0.25);
}

fn op_sigmoid(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    return unit_sigmoid(x);
}

fn op_gelu(x: f32) -> f32 {
    if is_nan(x) {
        return x;
    }
    // Beyond this the factor is zero or one; the cube must not overflow.
    let near = clamp(x, -1e4, 1e4);
    return max(x, -1e4) * unit_sigmoid(near * (1.5957691216 + 0.0713548162726 * (near * near)));
}

fn op_min(a: f32, b: f32) -> f32 {
    let takes_a = is_nan(a) || (!is_nan(b) && a < b);
    return bitcast<f32>(select(bitcast<u32>(b), bitcast<u32>(a), takes_a));
}

fn op_max(a: f32, b: f32) -> f32 {
    let takes_a = is_nan(a) || (!is_nan(b) && a > b);
    return bitcast<f32>(select(bitcast<u32>(b), bitcast<u32>(a), takes_a));
}

// WGSL's pow is undefined for negative bases; the cases are those of C.
fn op_pow(a: f32, b: f32) -> f32 {
    let size = bitcast<u32>(a) & 0x7fffffffu;
    let power = bitcast<u32>(b) & 0x7fffffffu;
    if power == 0u || bitcast<u32>(a) == 0x3f800000u {
        return 1.0;
    }
    var bits = 0x7fc00000u;
    if size <= 0x7f800000u && power <= 0x7f800000u {
        // From 2^24 on every number is whole and even.
        let whole = power >= 0x4b800000u || trunc(b) == b;
        let odd = power < 0x4b800000u && whole && (u32(abs(b)) & 1u) == 1u;
        let grows = (size > 0x3f800000u) == (bitcast<u32>(b) < 0x80000000u);
        if size == 0x3f800000u && power == 0x7f800000u {
            bits = 0x3f800000u;
        } else if size == 0u || size == 0x7f800000u || power == 0x7f800000u {
            bits = select(0u, 0x7f800000u, grows);
        } else {
            let exponent = b * log2_positive(bitcast<f32>(size));
            let value = bitcast<u32>(exp2(clamp(exponent, -150.0, 128.0)));
            bits = select(select(value, 0x7f800000u, exponent >= 128.0), 0u, exponent < -150.0);
            if size != bitcast<u32>(a) && !whole {
                bits = 0x7fc00000u;
            }
        }
        if odd {
            bits = bits | (bitcast<u32>(a) & 0x80000000u);
        }
    }
    return bitcast<f32>(bits);
}
