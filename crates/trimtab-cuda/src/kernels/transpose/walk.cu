// Any permutation: a thread finds its elements in the operand by their digits. Macros: BYTES, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
transpose_walk(const T* __restrict__ in, T* __restrict__ out, unsigned n, AXES) {
  const Axis axes[RANK] = DIGITS;
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
      unsigned rest = i, from = 0;
#pragma unroll
      for (int axis = RANK - 1; axis >= 0; --axis) {
        unsigned digit = axis ? rest % axes[axis].size : rest;
        rest /= axes[axis].size;
        from += digit * axes[axis].steps[0];
      }
      out[i] = in[from];
    }
  }
}
