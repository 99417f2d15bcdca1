// One function an element: what is larger than all before shrinks their sum, what is not is shrunk.
fn take(s: Many, x: V) -> Many {
    let finite = (bitcast<U>(x) & U(0x7fffffffu)) < U(0x7f800000u);
    let there = select(s.most, x, finite);
    let shrunk = exp_of(-abs(there - s.most));
    let sum = select(s.sum + shrunk, s.sum * shrunk + V(1.0), there > s.most);
    return Many(max(s.most, there), select(s.sum, sum, finite), s.odd | odd_of(x));
}

