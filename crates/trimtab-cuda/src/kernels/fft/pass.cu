// One pass over all lines in memory: a thread has RADIX numbers. Macros: NUMBER, INVERSE, WIDTH, RADIX.
extern "C" __global__ void __launch_bounds__(WIDTH)
fft_pass(const Complex* __restrict__ in, Complex* __restrict__ out, unsigned items, unsigned len, unsigned inner, unsigned done,
         unsigned rest, T scale) {
  unsigned item = blockIdx.x * WIDTH + threadIdx.x;
  if (item >= items) return;
  // Neighbours along the innermost axis, whichever that is.
  unsigned apart = item % inner, at = item / inner % (len / RADIX), line = item / inner / (len / RADIX);
  unsigned q = at % done, p = at / done, groups = rest / RADIX;
  u64 begin = (u64)line * len * inner + apart;
  Complex v[RADIX];
#pragma unroll
  for (unsigned k = 0; k < RADIX; ++k) v[k] = in[begin + (u64)(q + done * (p + groups * k)) * inner];
  small<RADIX>(v);
#pragma unroll
  for (unsigned k = 0; k < RADIX; ++k) {
    Complex value = k ? v[k] * turn(p * k, rest) : v[k];
    out[begin + (u64)(q + done * (RADIX * p + k)) * inner] = scale * value;
  }
}
