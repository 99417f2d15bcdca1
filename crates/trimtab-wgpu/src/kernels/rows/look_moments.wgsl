fn look(first: u32, steps: u32, stride: u32) -> Row {
    let mean = lanes_sum(sum_all(first, steps, stride, V(0.0))) / V(A(params[0].w));
    return conclude(mean, lanes_sum(sum_squares(first, steps, stride, mean)));
}

