// A thread finds the operand of each of its elements. Operands that are not there end where the one before them does. Macros: BYTES, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
concat_elements(const T* __restrict__ a, const T* __restrict__ b, const T* __restrict__ c, const T* __restrict__ d,
                const T* __restrict__ e4, T* __restrict__ out, unsigned n, unsigned row_len, unsigned end_a, unsigned end_b,
                unsigned end_c, unsigned end_d) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
      unsigned row = i / row_len, at = i % row_len, begin = 0, end = end_a;
      const T* from = a;
      if (at >= end_a) from = b, begin = end_a, end = end_b;
      if (at >= end_b) from = c, begin = end_b, end = end_c;
      if (at >= end_c) from = d, begin = end_c, end = end_d;
      if (at >= end_d) from = e4, begin = end_d, end = row_len;
      out[i] = from[(u64)row * (end - begin) + at - begin];
    }
  }
}
