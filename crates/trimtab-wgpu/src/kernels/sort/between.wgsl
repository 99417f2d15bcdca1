@group(0) @binding(0) var<storage, read_write> entries: array<E>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;

// Pairs that lie further apart than a tile is long.
@compute @workgroup_size(WIDTH)
$MAIN
    let pair = number * WIDTH + invocation;
    if (pair >= params[0].x) {
        return;
    }
    let apart = params[1].y;
    let low = pair % apart;
    let nth = (pair - low) * 2u + low;
    let a = entries[nth];
    let b = entries[nth + apart];
    let backwards = ((nth % params[0].w) & params[1].x) != 0u;
    if (is_behind(a, b) != backwards) {
        entries[nth] = b;
        entries[nth + apart] = a;
    }
}
