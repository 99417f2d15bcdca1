// A thread compares elements of two operands, each by its digits. Macros: NUMBER, COMPARED (==, !=, …), WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
mask_compare(const E* __restrict__ lhs, const E* __restrict__ rhs, unsigned char* __restrict__ out, unsigned n, AXES) {
  const Axis axes[RANK] = DIGITS;
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
      unsigned rest = i, left = 0, right = 0;
#pragma unroll
      for (int axis = RANK - 1; axis >= 0; --axis) {
        unsigned digit = axis ? rest % axes[axis].size : rest;
        rest /= axes[axis].size;
        left += digit * axes[axis].steps[0];
        right += digit * axes[axis].steps[1];
      }
      out[i] = loaded(lhs[left]) COMPARED loaded(rhs[right]);
    }
  }
}
