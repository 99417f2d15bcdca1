// One result a thread; a block shares a square tile of each operand. Macros: NUMBER, TILE, PAD.
extern "C" __global__ void __launch_bounds__(TILE * TILE) matmul_tiled(PRODUCT_TAKES(E)) {
  __shared__ T left[TILE][TILE + PAD], right[TILE][TILE + PAD];
  unsigned x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
  lhs += blockIdx.z * left_matrix;
  rhs += blockIdx.z * right_matrix;
  T sum = 0;
  for (unsigned start = 0; start < k; start += TILE) {
    T a = 0, b = 0;
    if (row < m && start + x < k) a = loaded(LEFT(row, start + x));
    if (start + y < k && column < n) b = loaded(RIGHT(start + y, column));
    left[y][x] = a;
    right[y][x] = b;
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < TILE; ++i) sum += left[y][i] * right[i][x];
    __syncthreads();
  }
  if (row < m && column < n) STORE(blockIdx.z, row, column, sum);
}
