@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;

override WIDTH: u32 = 64u;

fn half_at(at: u32) -> u32 {
    return (input[at / 2u] >> (16u * (at % 2u))) & 0xffffu;
}

fn made(at: u32) -> u32 {
    return $MADE;
}

@compute @workgroup_size(WIDTH)
$MAIN
    for (var word = number * WIDTH + invocation; word < params[0].y; word += params[0].z) {
        if ($PAIRS) {
            var both = made(2u * word);
            if (2u * word + 1u < params[0].x) {
                both |= made(2u * word + 1u) << 16u;
            }
            output[word] = both;
        } else {
            output[word] = made(word);
        }
    }
}
