fn look(first: u32, steps: u32, stride: u32) -> Row {
    var most = V(LOWEST);
    var odd = U(0u);
    for (var at = 0u; at < steps; at++) {
        let x = V(input[first + at * stride]);
        odd |= odd_of(x);
        most = max(most, select(V(LOWEST), x, (bitcast<U>(x) & U(0x7fffffffu)) < U(0x7f800000u)));
    }
    most = lanes_max(most);
    return conclude(most, lanes_sum(sum_exps(first, steps, stride, most)), lanes_or(odd));
}

