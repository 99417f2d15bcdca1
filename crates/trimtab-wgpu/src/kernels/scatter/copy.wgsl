@group(0) @binding(0) var<storage, read> operand: array<u32>;
@group(0) @binding(1) var<storage, read_write> result: array<u32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    let at = number * WIDTH + invocation;
    if (at < params[0].x) {
        result[at] = operand[at];
    }
}
