fn take(s: Many, x: V) -> Many {
    return Many(s.squares + x * x);
}

