@group(0) @binding(0) var<storage, read> input: array<$INPUT>;
@group(0) @binding(1) var<storage, read_write> output: array<$OUTPUT>;
@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 2>;

override WIDTH: u32 = 64u;
override TILE: u32 = 128u;

var<workgroup> entries: array<E, TILE>;

// A tile of lines that are filled up to a power of two lies wherever it lies among all: a part of a line, or several.
@compute @workgroup_size(WIDTH)
$MAIN
    let filled = params[0].w;
    for (var nth = invocation; nth < TILE; nth += WIDTH) {
        let everywhere = number * TILE + nth;
        let line = everywhere / filled;
        let at = everywhere % filled;
        var entry = END;
        $LOAD
        entries[nth] = entry;
    }
    for (var run = params[1].x; run <= params[1].y; run = run * 2u) {
        for (var apart = min(run, TILE) / 2u; apart > 0u; apart = apart / 2u) {
            workgroupBarrier();
            for (var pair = invocation; pair < TILE / 2u; pair += WIDTH) {
                let low = pair % apart;
                let nth = (pair - low) * 2u + low;
                let a = entries[nth];
                let b = entries[nth + apart];
                // The second half of a longer run is sorted backwards.
                let backwards = (((number * TILE + nth) % filled) & run) != 0u;
                if (is_behind(a, b) != backwards) {
                    entries[nth] = b;
                    entries[nth + apart] = a;
                }
            }
        }
    }
    workgroupBarrier();
    for (var nth = invocation; nth < TILE; nth += WIDTH) {
        let everywhere = number * TILE + nth;
        let line = everywhere / filled;
        let at = everywhere % filled;
        $STORE
    }
}
