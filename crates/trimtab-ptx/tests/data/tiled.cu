// c[m, n] = a[m, k] · b[k, n], row-major. Each macro NO_… or BAD_… takes something away that a right kernel needs.
#ifdef NO_FIRST_BARRIER
#define FIRST_BARRIER()
#else
#define FIRST_BARRIER() __syncthreads()
#endif
#ifdef NO_SECOND_BARRIER
#define SECOND_BARRIER()
#else
#define SECOND_BARRIER() __syncthreads()
#endif

extern "C" __global__ void __launch_bounds__(256) tiled(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float left[16][17], right[16][17];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int start = 0; start < k; start += 16) {
    left[y][x] = row < m && start + x < k ? a[row * k + start + x] : 0;
    right[y][x] = start + y < k && column < n ? b[(start + y) * n + column] : 0;
    FIRST_BARRIER();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum = fmaf(left[y][i], right[i][x], sum);
    SECOND_BARRIER();
  }
#ifdef BAD_STORE
  if (row < m) c[row * n + column] = sum;
#else
  if (row < m && column < n) c[row * n + column] = sum;
#endif
}
