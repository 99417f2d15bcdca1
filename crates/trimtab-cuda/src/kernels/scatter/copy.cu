// The operand, before others are added to it. Macros: BYTES, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH) scatter_copy(const T* __restrict__ in, T* __restrict__ out, unsigned n) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e)
    if (first + e * WIDTH < n) out[first + e * WIDTH] = in[first + e * WIDTH];
}
