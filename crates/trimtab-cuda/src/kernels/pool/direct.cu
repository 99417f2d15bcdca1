// A thread looks through the window of each of its results. Channels behind the space are its innermost axis; others count as images. OP: 0 largest, 1 mean.
// Macros: NUMBER, OP, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
pool_direct(const E* __restrict__ in, E* __restrict__ out, unsigned n, unsigned channels, WINDOW) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i >= n) return;
    unsigned channel = i % channels, rest = i / channels, x = rest % out_x;
    rest /= out_x;
    unsigned y = rest % out_y;
    rest /= out_y;
    unsigned z = rest % out_z, image = rest / out_z, seen = 0;
    T value = 0;
    for (unsigned a = 0; a < kernel_z; ++a) {
      unsigned plane = ALONG(z, z, a);
      if (plane >= size_z) continue;
      for (unsigned b = 0; b < kernel_y; ++b) {
        unsigned row = ALONG(y, y, b);
        if (row >= size_y) continue;
        u64 line = (((u64)image * size_z + plane) * size_y + row) * size_x;
        for (unsigned c = 0; c < kernel_x; ++c) {
          unsigned column = ALONG(x, x, c);
          if (column >= size_x) continue;
          T one = loaded(in[(line + column) * channels + channel]);
#if OP == 0
          // What is no number wins.
          if (!seen || one != one || one > value) value = seen && value != value ? value : one;
#else
          value += one;
#endif
          ++seen;
        }
      }
    }
#if OP == 0
    out[i] = stored(value);
#else
    out[i] = stored(value / (T)seen);
#endif
  }
}
