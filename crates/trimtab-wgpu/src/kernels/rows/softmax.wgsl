fn value(row: Row, x: V, at: u32) -> V {
    let bits = bitcast<U>(exp_of(x - row.less) * row.by);
    return bitcast<V>(select(bits, U(0x7fc00000u), row.odd != U(0u)));
}

