// One result a thread; a block shares a square tile of each operand. Macros: SINGLE, TILE, PAD.
#if SINGLE
typedef float T;
#else
typedef double T;
#endif
extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul_tiled(const T* __restrict__ lhs, const T* __restrict__ rhs, T* __restrict__ out, unsigned m, unsigned n, unsigned k,
             unsigned left_row, unsigned left_step, unsigned right_step, unsigned right_column,
             unsigned long long left_matrix, unsigned long long right_matrix, unsigned long long out_matrix) {
  __shared__ T left[TILE][TILE + PAD], right[TILE][TILE + PAD];
  unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  lhs += blockIdx.z * left_matrix;
  rhs += blockIdx.z * right_matrix;
  T sum = 0;
  for (unsigned start = 0; start < k; start += TILE) {
    T a = 0, b = 0;
    if (row < m && start + x < k) a = lhs[(unsigned long long)row * left_row + (unsigned long long)(start + x) * left_step];
    if (start + y < k && column < n) b = rhs[(unsigned long long)(start + y) * right_step + (unsigned long long)column * right_column];
    left[y][x] = a;
    right[y][x] = b;
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < TILE; ++i) sum += left[y][i] * right[i][x];
    __syncthreads();
  }
  if (row < m && column < n) out[blockIdx.z * out_matrix + (unsigned long long)row * n + column] = sum;
}
