// The same sum, written as plainly as can be: what results are compared with.
#define RADIUS 2

static float at(const float *given, int n, int y, int x) {
    return y >= 0 && y < n && x >= 0 && x < n ? given[y * n + x] : 0.0f;
}

void naive(const float *given, float *out, int n) {
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            float sum = 0.5f * at(given, n, y, x);
            for (int r = 1; r <= RADIUS; r++)
                sum += (at(given, n, y - r, x) + at(given, n, y + r, x) + at(given, n, y, x - r) + at(given, n, y, x + r)) *
                       (0.0625f / r);
            out[y * n + x] = sum;
        }
}
