@group(0) @binding(0) var<storage, read> given: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read_write> made: array<vec2<f32>>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;

// One pass of Stockham's over all lines: an invocation takes a butterfly.
@compute @workgroup_size(WIDTH)
$MAIN
    let id = number * WIDTH + invocation;
    if (id >= params[0].x) {
        return;
    }
    let len = params[0].y;
    let inner = params[0].z;
    let done = params[0].w;
    let log = params[1].x;
    way = 1.0 - 2.0 * f32(params[1].y);
    let scale = bitcast<f32>(params[1].z);
    let butterflies = len / $RADIXu;
    let butterfly = (id / inner) % butterflies;
    let first = (id / inner / butterflies) * len * inner + id % inner;
    let kin = butterfly / done;
    let alike = butterfly % done;
    let kins = (1u << log) / $RADIXu;
    var v: array<vec2<f32>, $RADIX>;
    for (var nth = 0u; nth < $RADIXu; nth++) {
        v[nth] = given[first + (alike + done * (kin + kins * nth)) * inner];
    }
    v = transform$RADIX(v);
    for (var nth = 0u; nth < $RADIXu; nth++) {
        let turned = times(v[nth], turn(kin * nth, log));
        made[first + (alike + done * ($RADIXu * kin + nth)) * inner] = scale * turned;
    }
}
