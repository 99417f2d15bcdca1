fn value(row: Row, x: V, at: u32) -> V {
    let low = bitcast<U>(x) == U(0xff800000u);
    let bits = select(bitcast<U>((x - row.less) - row.by), U(0xff800000u), low);
    return bitcast<V>(select(bits, U(0x7fc00000u), row.odd != U(0u)));
}

