fn take(s: Many, x: V) -> Many {
    let count = s.count + A(1.0);
    let off = x - s.mean;
    let mean = s.mean + off * V(A(1.0) / count);
    return Many(count, mean, s.squares + off * (x - mean));
}

