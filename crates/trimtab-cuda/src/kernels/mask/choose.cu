// A thread chooses between elements of two operands, each by its digits. Macros: BYTES, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
mask_choose(const unsigned char* __restrict__ truth, const T* __restrict__ yes, const T* __restrict__ no, T* __restrict__ out,
            unsigned n, AXES) {
  const Axis axes[RANK] = DIGITS;
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
      unsigned rest = i, at = 0, left = 0, right = 0;
#pragma unroll
      for (int axis = RANK - 1; axis >= 0; --axis) {
        unsigned digit = axis ? rest % axes[axis].size : rest;
        rest /= axes[axis].size;
        at += digit * axes[axis].steps[0];
        left += digit * axes[axis].steps[1];
        right += digit * axes[axis].steps[2];
      }
      if (truth[at]) {
        out[i] = yes[left];
      } else {
        out[i] = no[right];
      }
    }
  }
}
