// A weighted sum of an element and its neighbours up to `radius` away along both axes, as in a simulation of heat or waves. Each work item
// makes px * py elements of the result. `tx`, `ty`, `px`, `py`, `local_memory` and `unrolled` are the parameters of space.toml.
#define RADIUS 2
#define WIDTH (tx * px)
#define HEIGHT (ty * py)

#if unrolled
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("nounroll")
#endif

// What lies outside is zero.
float at(global const float *given, int n, int y, int x) {
    return y >= 0 && y < n && x >= 0 && x < n ? given[y * n + x] : 0.0f;
}

kernel void stencil(global const float *given, global float *out, int n) {
    const int left = get_group_id(0) * WIDTH, top = get_group_id(1) * HEIGHT;
    const int column = get_local_id(0), row = get_local_id(1);
#if local_memory
    local float tile[HEIGHT + 2 * RADIUS][WIDTH + 2 * RADIUS];
    for (int y = row; y < HEIGHT + 2 * RADIUS; y += ty)
        for (int x = column; x < WIDTH + 2 * RADIUS; x += tx)
            tile[y][x] = at(given, n, top + y - RADIUS, left + x - RADIUS);
    barrier(CLK_LOCAL_MEM_FENCE);
#define HERE(y, x) tile[(y) - top + RADIUS][(x) - left + RADIUS]
#else
#define HERE(y, x) at(given, n, y, x)
#endif
    UNROLL for (int j = 0; j < py; j++) {
        UNROLL for (int i = 0; i < px; i++) {
            const int y = top + row + j * ty, x = left + column + i * tx;
            if (y >= n || x >= n) continue;
            float sum = 0.5f * HERE(y, x);
            for (int r = 1; r <= RADIUS; r++)
                sum += (HERE(y - r, x) + HERE(y + r, x) + HERE(y, x - r) + HERE(y, x + r)) * (0.0625f / r);
            out[y * n + x] = sum;
        }
    }
}
