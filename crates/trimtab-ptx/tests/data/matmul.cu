// c[m, n] = a[m, k] · b[k, n], row-major.
extern "C" __global__ void naive(const float* a, const float* b, float* c, int m, int n, int k) {
  int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= m || column >= n) return;
  float sum = 0;
  for (int i = 0; i < k; ++i) sum = fmaf(a[row * k + i], b[i * n + column], sum);
  c[row * n + column] = sum;
}

// 32 × 32 of c a block, 64 threads, 4 × 4 of c a thread.
extern "C" __global__ void __launch_bounds__(64) blocked(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) float left[8][36], right[8][36];
  int t = threadIdx.x, x = t % 8, y = t / 8, row0 = blockIdx.y * 32, column0 = blockIdx.x * 32;
  float sum[4][4] = {};
  for (int start = 0; start < k; start += 8) {
#pragma unroll
    for (int e = t; e < 256; e += 64) {
      int row = e / 8, i = e % 8;
      left[i][row] = row0 + row < m && start + i < k ? a[(row0 + row) * k + start + i] : 0;
    }
#pragma unroll
    for (int e = t; e < 256; e += 64) {
      int i = e / 32, column = e % 32;
      right[i][column] = start + i < k && column0 + column < n ? b[(start + i) * n + column0 + column] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
      for (int p = 0; p < 4; ++p)
#pragma unroll
        for (int q = 0; q < 4; ++q) sum[p][q] = fmaf(left[i][y * 4 + p], right[i][x * 4 + q], sum[p][q]);
    __syncthreads();
  }
  for (int p = 0; p < 4; ++p)
    for (int q = 0; q < 4; ++q) {
      int row = row0 + y * 4 + p, column = column0 + x * 4 + q;
      if (row < m && column < n) c[row * n + column] = sum[p][q];
    }
}
