fn result(row: Row) -> V {
    var bits = select(bitcast<U>(row.less + row.by), U(0xff800000u), row.odd == U(4u));
    bits = select(bits, U(0x7f800000u), (row.odd & U(2u)) != U(0u));
    return bitcast<V>(select(bits, U(0x7fc00000u), (row.odd & U(1u)) != U(0u)));
}

