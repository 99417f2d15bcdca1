// Threads walk over the elements, neighbours over neighbours. Macros: NUMBER, WIDTH, EACH, OP, PAIRS.
extern "C" __global__ void __launch_bounds__(WIDTH)
elementwise_walk(const E* __restrict__ lhs,
#if PAIRS
                 const E* __restrict__ rhs,
#endif
                 E* __restrict__ out, unsigned n) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
#if PAIRS
      out[i] = stored(OP(loaded(lhs[i]), loaded(rhs[i])));
#else
      out[i] = stored(OP(loaded(lhs[i])));
#endif
    }
  }
}
