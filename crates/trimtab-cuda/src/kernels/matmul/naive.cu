// One result a thread, straight from memory. Macros: SINGLE, WX, WY.
#if SINGLE
typedef float T;
#else
typedef double T;
#endif
extern "C" __global__ void __launch_bounds__(WX * WY)
matmul_naive(const T* __restrict__ lhs, const T* __restrict__ rhs, T* __restrict__ out, unsigned m, unsigned n, unsigned k,
             unsigned left_row, unsigned left_step, unsigned right_step, unsigned right_column,
             unsigned long long left_matrix, unsigned long long right_matrix, unsigned long long out_matrix) {
  unsigned row = blockIdx.y * WY + threadIdx.y, column = blockIdx.x * WX + threadIdx.x;
  if (row >= m || column >= n) return;
  const T* left = lhs + blockIdx.z * left_matrix + (unsigned long long)row * left_row;
  const T* right = rhs + blockIdx.z * right_matrix + (unsigned long long)column * right_column;
  T sum = 0;
  for (unsigned i = 0; i < k; ++i) {
    sum += *left * *right;
    left += left_step;
    right += right_step;
  }
  out[blockIdx.z * out_matrix + (unsigned long long)row * n + column] = sum;
}
