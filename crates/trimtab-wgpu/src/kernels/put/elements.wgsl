@group(0) @binding(0) var<storage, read> around: array<T>;
@group(0) @binding(1) var<storage, read> block: array<T>;
@group(0) @binding(2) var<storage, read_write> result: array<T>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 5>;

override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    for (var at = number * WIDTH + invocation; at < params[0].x; at += params[0].y) {
        var rest = at;
        var place = 0u;
        var stride = 1u;
        var inside = true;
        // At most four axes, the last first; what is before the block wraps and is past its end.
        for (var axis = 0u; axis < min(params[0].z, 4u); axis++) {
            let own = params[axis + 1u];
            let within = rest % own.x - own.y;
            inside = inside && within < own.z;
            place += within * stride;
            stride = stride * own.z;
            rest = rest / own.x;
        }
        if (inside) {
            result[at] = block[place];
        } else {
            result[at] = around[$AROUND];
        }
    }
}
