// The spectrum of real numbers from that of their evens and odds as complex ones: a thread a bin. Macros: NUMBER, INVERSE, WIDTH.
extern "C" __global__ void __launch_bounds__(WIDTH)
fft_untangle(const Complex* __restrict__ in, Complex* __restrict__ out, unsigned items, unsigned half) {
  unsigned item = blockIdx.x * WIDTH + threadIdx.x;
  if (item >= items) return;
  unsigned row = item / (half + 1), bin = item % (half + 1);
  Complex here = in[(u64)row * half + bin % half], there = conjugate(in[(u64)row * half + (half - bin) % half]);
  Complex odds = (T)0.5 * quarter(here - there);
  out[item] = (T)0.5 * (here + there) + odds * turn(bin, 2 * half);
}
