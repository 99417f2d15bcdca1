fn op_add(a: f64, b: f64) -> f64 {
    return a + b;
}

fn op_sub(a: f64, b: f64) -> f64 {
    return a - b;
}

fn op_mul(a: f64, b: f64) -> f64 {
    return a * b;
}

fn op_div(a: f64, b: f64) -> f64 {
    return a / b;
}
