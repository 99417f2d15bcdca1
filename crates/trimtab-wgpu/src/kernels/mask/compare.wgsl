@group(0) @binding(0) var<storage, read> lhs: array<T>;
@group(0) @binding(1) var<storage, read> rhs: array<T>;
@group(0) @binding(2) var<storage, read_write> result: array<u32>;

override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    for (var word = number * WIDTH + invocation; word < params[0].w; word += params[0].y) {
        var bytes = 0u;
        for (var nth = 0u; nth < 4u; nth++) {
            let at = 4u * word + nth;
            if (at < params[0].x) {
                let places = places_of(at);
                if (holds(lhs[places.x], rhs[places.y])) {
                    bytes = bytes | (1u << (8u * nth));
                }
            }
        }
        result[word] = bytes;
    }
}
