// For the floats A stands for.
fn op_add(a: A, b: A) -> A {
    return a + b;
}

fn op_sub(a: A, b: A) -> A {
    return a - b;
}

fn op_mul(a: A, b: A) -> A {
    return a * b;
}

fn op_div(a: A, b: A) -> A {
    return a / b;
}

