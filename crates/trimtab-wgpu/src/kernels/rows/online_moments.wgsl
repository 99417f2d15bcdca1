struct $S {
    count: A,
    mean: $V,
    squares: $V,
}

fn empty_$N() -> $S {
    return $S(A(0.0), $V(A(0.0)), $V(A(0.0)));
}

// Parts have means of their own; two merge by their distance.
fn merge_$N(a: $S, b: $S) -> $S {
    if (b.count == A(0.0)) {
        return a;
    }
    let count = a.count + b.count;
    let part = b.count / count;
    let off = b.mean - a.mean;
    return $S(count, a.mean + off * part, a.squares + b.squares + off * off * (a.count * part));
}

