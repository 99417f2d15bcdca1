@group(0) @binding(0) var<storage, read> operand: array<T>;
@group(0) @binding(1) var<storage, read_write> result: array<T>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    let part = params[0].y;
    for (var at = number * WIDTH + invocation; at < params[0].x; at += params[1].x) {
        result[at / part * params[0].z + params[0].w + at % part] = operand[at];
    }
}
