// One result a thread, straight from memory. Macros: NUMBER, WX, WY.
extern "C" __global__ void __launch_bounds__(WX * WY) matmul_naive(PRODUCT_TAKES(E)) {
  unsigned row = blockIdx.y * WY + threadIdx.y, column = blockIdx.x * WX + threadIdx.x;
  if (row >= m || column >= n) return;
  const E* left = lhs + blockIdx.z * left_matrix + (u64)row * left_row;
  const E* right = rhs + blockIdx.z * right_matrix + (u64)column * right_column;
  T sum = 0;
  for (unsigned i = 0; i < k; ++i) {
    sum += loaded(*left) * loaded(*right);
    left += left_step;
    right += right_step;
  }
  STORE(blockIdx.z, row, column, sum);
}
