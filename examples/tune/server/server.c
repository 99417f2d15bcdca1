// Like a server that answers requests in batches: larger batches cost less each and make the first of them wait.
// Usage: server BATCH WORK. Prints throughput and latency.
#define _POSIX_C_SOURCE 199309L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REQUESTS = 1024, PER_BATCH = 300000, PER_REQUEST = 20000 };

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); // what others run beside it does not count
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static volatile double sink;
static void work(int amount) {
    double sum = 0;
    for (int i = 1; i <= amount; i++) sum += 1.0 / i;
    sink = sum;
}

static int ascending(const void *x, const void *y) {
    double d = *(const double *)x - *(const double *)y;
    return (d > 0) - (d < 0);
}

int main(int argc, char **argv) {
    int batch = argc > 1 ? atoi(argv[1]) : 1, share = argc > 2 ? atoi(argv[2]) : 100;
    if (batch < 1 || share < 10 || share > 100) return fprintf(stderr, "usage: server BATCH(1..) WORK(10..100)\n"), 2;
    static double waited[REQUESTS];
    double start = now_ms();
    for (int done = 0; done < REQUESTS; done += batch) {
        int count = REQUESTS - done < batch ? REQUESTS - done : batch;
        double begun = now_ms();
        work(PER_BATCH * share / 100);
        for (int i = 0; i < count; i++) work(PER_REQUEST);
        double took = now_ms() - begun;
        for (int i = 0; i < count; i++) waited[done + i] = took;
    }
    double seconds = (now_ms() - start) / 1e3;
    qsort(waited, REQUESTS, sizeof waited[0], ascending);
    printf("{\"requests_per_s\": %.1f, \"p50_ms\": %.4f, \"p99_ms\": %.4f}\n", REQUESTS / seconds, waited[REQUESTS / 2],
           waited[REQUESTS * 99 / 100]);
    return 0;
}
