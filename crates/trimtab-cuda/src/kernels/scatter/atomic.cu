// A thread adds its elements where their indices say, atomically. Macros: NUMBER, WIDE, OWN, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
scatter_atomic(const E* __restrict__ added, const Index* __restrict__ indices, E* out, unsigned* status, unsigned n, unsigned inner,
               unsigned count, unsigned len) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
      unsigned row = i / inner;
#if OWN
      unsigned place = place_of(indices, i, len, status);
#else
      unsigned place = place_of(indices, row % count, len, status);
#endif
      if (place < len) atomicAdd(out + (((u64)(row / count) * len + place) * inner + i % inner), added[i]);
    }
  }
}
