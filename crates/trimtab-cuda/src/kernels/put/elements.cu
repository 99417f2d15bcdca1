// A thread looks whether each of its elements is in the block. Axes have where the block begins, its size, and its step. Macros: BYTES, FILL, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
put_elements(const T* __restrict__ base, const T* __restrict__ block, T* __restrict__ out, unsigned n, AXES) {
  const Axis axes[RANK] = DIGITS;
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
      unsigned rest = i, place = 0;
      bool inside = true;
#pragma unroll
      for (int axis = RANK - 1; axis >= 0; --axis) {
        unsigned digit = axis ? rest % axes[axis].size : rest;
        rest /= axes[axis].size;
        // Before the beginning it wraps, which is past the end.
        unsigned within = digit - axes[axis].steps[0];
        inside &= within < axes[axis].steps[1];
        place += within * axes[axis].steps[2];
      }
      if (inside) {
        out[i] = block[place];
      } else {
        out[i] = base[FILL ? 0 : i];
      }
    }
  }
}
