// Whole numbers of 32 bits: they wrap, and what has no answer is told. Places by digits. Macros: OP, PAIRS, WIDTH, EACH.
#define OPERATION __device__ __forceinline__ int
typedef unsigned word;
OPERATION op_neg(int x, word*) { return (int)(0u - (word)x); }
OPERATION op_abs(int x, word*) { return x < 0 ? (int)(0u - (word)x) : x; }
OPERATION op_relu(int x, word*) { return x < 0 ? 0 : x; }
OPERATION op_add(int x, int y, word*) { return (int)((word)x + (word)y); }
OPERATION op_sub(int x, int y, word*) { return (int)((word)x - (word)y); }
OPERATION op_mul(int x, int y, word*) { return (int)((word)x * (word)y); }
OPERATION op_min(int x, int y, word*) { return x < y ? x : y; }
OPERATION op_max(int x, int y, word*) { return x > y ? x : y; }
OPERATION op_div(int x, int y, word* status) {
  if (y == 0) atomicMax(status, 1u);
  // The smallest number divided by minus one wraps.
  if (y == -1) return (int)(0u - (word)x);
  return y == 0 ? 0 : x / y;
}
OPERATION op_pow(int x, int y, word* status) {
  if (y < 0) {
    if (x == 0) atomicMax(status, 1u);
    return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;
  }
  word result = 1, base = (word)x;
  for (word power = (word)y; power; power >>= 1) {
    if (power & 1) result *= base;
    base *= base;
  }
  return (int)result;
}
extern "C" __global__ void __launch_bounds__(WIDTH)
elementwise_whole(const int* __restrict__ lhs, const int* __restrict__ rhs, int* __restrict__ out, word* status, unsigned n, AXES) {
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
#if PAIRS
      out[i] = OP(lhs[left], rhs[right], status);
#else
      out[i] = OP(lhs[left], status);
#endif
    }
  }
}
