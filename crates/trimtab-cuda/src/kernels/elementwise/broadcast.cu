// Operands with repeated axes: an element's place is written as one digit an axis. Macros: NUMBER, WIDTH, EACH, OP, RANK.
struct Axis {
  unsigned size, lhs, rhs;
};
extern "C" __global__ void __launch_bounds__(WIDTH)
elementwise_broadcast(const E* __restrict__ lhs, const E* __restrict__ rhs, E* __restrict__ out, unsigned n, AXES) {
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
        left += digit * axes[axis].lhs;
        right += digit * axes[axis].rhs;
      }
      out[i] = stored(OP(loaded(lhs[left]), loaded(rhs[right])));
    }
  }
}
