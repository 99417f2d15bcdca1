@group(0) @binding(0) var<storage, read> operand: array<T>;
@group(0) @binding(2) var<storage, read_write> result: array<T>;
@group(0) @binding(3) var<storage, read_write> status: array<atomic<u32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(5) var<storage, read> added: array<T>;

override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    let at = number * WIDTH + invocation;
    if (at >= params[0].x) {
        return;
    }
    let inner = params[0].y;
    let count = params[0].z;
    let len = params[0].w;
    let own = at / inner % len;
    let first = at / inner / len * count * inner + at % inner;
    var sum = S(operand[at]);
    for (var nth = 0u; nth < count; nth++) {
        let source = first + nth * inner;
        if (place_of($NTH, len) == own) {
            sum = sum + S(added[source]);
        }
    }
    result[at] = T(sum);
}
