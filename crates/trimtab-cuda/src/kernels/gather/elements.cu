// A thread finds each of its elements by an index. Macros: BYTES, WIDE, OWN, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
gather_elements(const T* __restrict__ in, const Index* __restrict__ indices, T* __restrict__ out, unsigned* status, unsigned n,
                unsigned inner, unsigned count, unsigned len) {
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
      if (place < len) out[i] = in[((u64)(row / count) * len + place) * inner + i % inner];
    }
  }
}
