// Elementwise steps in one pass, neighbours over neighbours. Macros: NUMBER, WIDTH, EACH, MORE and RESULT of the recipe.
extern "C" __global__ void __launch_bounds__(WIDTH)
fused_walk(E* __restrict__ out, unsigned n, unsigned across MORE) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned index = first + e * WIDTH;
    if (index < n) out[index] = stored(RESULT);
  }
}
