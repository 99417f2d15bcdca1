// What results are compared with.
void naive(const float *a, const float *b, float *c, unsigned n) {
    for (unsigned y = 0; y < n; y++)
        for (unsigned x = 0; x < n; x++) {
            double sum = 0;
            for (unsigned k = 0; k < n; k++) sum += (double)a[y * n + k] * b[k * n + x];
            c[y * n + x] = (float)sum;
        }
}
