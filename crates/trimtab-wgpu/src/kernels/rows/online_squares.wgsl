struct $S {
    squares: $V,
}

fn empty_$N() -> $S {
    return $S($V(0.0));
}

fn merge_$N(a: $S, b: $S) -> $S {
    return $S(a.squares + b.squares);
}

