// The evens and odds of real numbers, as complex ones, from the first half of their spectrum: a thread a number. Macros: NUMBER, INVERSE, WIDTH.
extern "C" __global__ void __launch_bounds__(WIDTH)
fft_tangle(const Complex* __restrict__ in, Complex* __restrict__ out, unsigned items, unsigned half, T scale) {
  unsigned item = blockIdx.x * WIDTH + threadIdx.x;
  if (item >= items) return;
  unsigned row = item / half, bin = item % half;
  Complex here = in[(u64)row * (half + 1) + bin], there = conjugate(in[(u64)row * (half + 1) + half - bin]);
  // What real numbers cannot have is not looked at.
  if (bin == 0) here.y = there.y = 0;
  out[item] = scale * (here + there + quarter((here - there) * turn(bin, 2 * half)));
}
