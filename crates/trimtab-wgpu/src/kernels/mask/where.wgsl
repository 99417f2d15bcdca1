@group(0) @binding(0) var<storage, read> truth: array<u32>;
@group(0) @binding(1) var<storage, read> yes: array<T>;
@group(0) @binding(2) var<storage, read> no: array<T>;
@group(0) @binding(3) var<storage, read_write> result: array<T>;

override WIDTH: u32 = 64u;

@compute @workgroup_size(WIDTH)
$MAIN
    for (var at = number * WIDTH + invocation; at < params[0].w; at += params[0].y) {
        let places = places_of(at);
        let byte = (truth[places.x / 4u] >> (8u * (places.x % 4u))) & 0xffu;
        if (byte != 0u) {
            result[at] = yes[places.y];
        } else {
            result[at] = no[places.z];
        }
    }
}
