
// Signs and comparisons of doubles that were computed: WGSL does not show their bits, but a NaN stays one as f32.
fn is_nan(x: f64) -> bool {
    return (bitcast<u32>(f32(x)) & 0x7fffffffu) > 0x7f800000u;
}

fn op_neg(x: f64) -> f64 {
    return -x;
}

fn op_abs(x: f64) -> f64 {
    return abs(x);
}

fn op_relu(x: f64) -> f64 {
    return select(x, f64(0.0), !is_nan(x) && x < f64(0.0));
}

fn op_min(a: f64, b: f64) -> f64 {
    return select(b, a, is_nan(a) || (!is_nan(b) && a < b));
}

fn op_max(a: f64, b: f64) -> f64 {
    return select(b, a, is_nan(a) || (!is_nan(b) && a > b));
}
