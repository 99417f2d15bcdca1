// A product with double buffers filled by asynchronous copies (sm_80). k and n are multiples of 4.
__device__ __forceinline__ void copy(void* to, const float* from, int bytes) {
  unsigned place = (unsigned)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

extern "C" __global__ void __launch_bounds__(128) async_matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) float left[2][32][16], right[2][16][32];
  int t = threadIdx.x, row0 = blockIdx.y * 32, column0 = blockIdx.x * 32;
  int ay = t / 4, ax = t % 4 * 4, by = t / 8, bx = t % 8 * 4, steps = (k + 15) / 16;
  float sum[8] = {};
  auto load = [&](int buffer, int start) {
    int in_a = row0 + ay < m && start + ax < k, in_b = start + by < k && column0 + bx < n;
    copy(&left[buffer][ay][ax], in_a ? a + (row0 + ay) * k + start + ax : a, in_a * 16);
    copy(&right[buffer][by][bx], in_b ? b + (start + by) * n + column0 + bx : b, in_b * 16);
    commit();
  };
  load(0, 0);
  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) load((step + 1) & 1, (step + 1) * 16);
    else commit();
#ifndef NO_WAIT
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i)
#pragma unroll
      for (int p = 0; p < 8; ++p) sum[p] = fmaf(left[step & 1][t / 32 * 8 + p][i], right[step & 1][i][t % 32], sum[p]);
#ifndef NO_LAST_BARRIER
    __syncthreads();
#endif
  }
#pragma unroll
  for (int p = 0; p < 8; ++p) {
    int row = row0 + t / 32 * 8 + p, column = column0 + t % 32;
    if (row < m && column < n) c[row * n + column] = sum[p];
  }
}
