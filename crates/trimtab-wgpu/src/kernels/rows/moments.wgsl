// The mean, and what the variance is used as.
struct Row {
    less: V,
    by: V,
}

fn conclude(mean: V, squares: V) -> Row {
    let variance = squares / V(A(params[0].w));
    return Row(mean, $BY);
}

