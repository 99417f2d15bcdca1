// A product of matrices in tiles; the tile sizes come from the compiler's command line. Prints its time in milliseconds.
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef N
#define N 256
#endif
static float a[N][N], b[N][N], c[N][N];

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void product(void) {
    memset(c, 0, sizeof c);
    for (int i0 = 0; i0 < N; i0 += TILE_I)
        for (int k0 = 0; k0 < N; k0 += TILE_K)
            for (int j0 = 0; j0 < N; j0 += TILE_J)
                for (int i = i0; i < i0 + TILE_I; i++)
                    for (int k = k0; k < k0 + TILE_K; k++)
                        for (int j = j0; j < j0 + TILE_J; j++) c[i][j] += a[i][k] * b[k][j];
}

int main(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) a[i][j] = (i * 7 + j) % 11 - 5, b[i][j] = (i + j * 3) % 13 - 6;
    double best = 1e30;
    for (int repeat = 0; repeat < 5; repeat++) {
        double start = now_ms();
        product();
        double took = now_ms() - start;
        if (took < best) best = took;
    }
    // A row by hand: a tile that leaves something out is no faster way to the result.
    for (int j = 0; j < N; j++) {
        double right = 0;
        for (int k = 0; k < N; k++) right += (double)a[N / 3][k] * b[k][j];
        if (fabs(right - c[N / 3][j]) > 1e-3 * (1 + fabs(right))) return puts("wrong result"), 1;
    }
    printf("%.4f ms\n", best);
    return 0;
}
