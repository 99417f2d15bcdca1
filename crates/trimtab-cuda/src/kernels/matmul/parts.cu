// Adds up the sums of parts that `blocked.cu` left. Macros: NUMBER, WIDTH.
extern "C" __global__ void __launch_bounds__(WIDTH)
matmul_parts(const T* __restrict__ sums, E* __restrict__ out, unsigned m, unsigned n, unsigned parts, u64 results MORE) {
  u64 at = (u64)blockIdx.x * WIDTH + threadIdx.x;
  if (at >= results) return;
  T sum = sums[at];
  for (unsigned part = 1; part < parts; ++part) sum += sums[part * results + at];
  unsigned row = at / n % m, column = at % n;
  out[at] = stored(FINISHED(sum, row, column));
}
