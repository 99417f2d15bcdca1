struct $S {
    most: $V,
    sum: $V,
    odd: $U,
}

fn empty_$N() -> $S {
    return $S($V(LOWEST), $V(0.0), $U(0u));
}

fn merge_$N(a: $S, b: $S) -> $S {
    let most = max(a.most, b.most);
    let of_a = a.sum * exp(max(a.most - most, $V(-104.0)));
    return $S(most, of_a + b.sum * exp(max(b.most - most, $V(-104.0))), a.odd | b.odd);
}

