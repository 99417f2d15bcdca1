// TM × TN results a thread in registers, BM × BN a block, BK inner steps between two barriers. Macros: SINGLE, BM, BN, BK, TM, TN, PAD.
#if SINGLE
typedef float T;
#else
typedef double T;
#endif
#define ACROSS (BN / TN)
#define THREADS (ACROSS * (BM / TM))
extern "C" __global__ void __launch_bounds__(THREADS)
matmul_blocked(const T* __restrict__ lhs, const T* __restrict__ rhs, T* __restrict__ out, unsigned m, unsigned n, unsigned k,
               unsigned left_row, unsigned left_step, unsigned right_step, unsigned right_column,
               unsigned long long left_matrix, unsigned long long right_matrix, unsigned long long out_matrix) {
  __shared__ __align__(16) T left[BK][BM + PAD], right[BK][BN + PAD];
  unsigned t = threadIdx.x, x = t % ACROSS * TN, y = t / ACROSS * TM, row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  lhs += blockIdx.z * left_matrix;
  rhs += blockIdx.z * right_matrix;
  T sum[TM][TN];
#pragma unroll
  for (unsigned p = 0; p < TM; ++p)
#pragma unroll
    for (unsigned q = 0; q < TN; ++q) sum[p][q] = 0;
  for (unsigned start = 0; start < k; start += BK) {
    // Neighbouring threads read neighbours in memory, whichever way the operand lies.
    bool by_row = left_step == 1, by_step = right_column == 1;
    for (unsigned e = t; e < BM * BK; e += THREADS) {
      unsigned row = by_row ? e / BK : e % BM, i = by_row ? e % BK : e / BM;
      T value = 0;
      if (row0 + row < m && start + i < k)
        value = lhs[(unsigned long long)(row0 + row) * left_row + (unsigned long long)(start + i) * left_step];
      left[i][row] = value;
    }
    for (unsigned e = t; e < BK * BN; e += THREADS) {
      unsigned i = by_step ? e / BN : e % BK, column = by_step ? e % BN : e / BK;
      T value = 0;
      if (start + i < k && column0 + column < n)
        value = rhs[(unsigned long long)(start + i) * right_step + (unsigned long long)(column0 + column) * right_column];
      right[i][column] = value;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < BK; ++i) {
      T a[TM], b[TN];
#pragma unroll
      for (unsigned p = 0; p < TM; ++p) a[p] = left[i][y + p];
#pragma unroll
      for (unsigned q = 0; q < TN; ++q) b[q] = right[i][x + q];
#pragma unroll
      for (unsigned p = 0; p < TM; ++p)
#pragma unroll
        for (unsigned q = 0; q < TN; ++q) sum[p][q] += a[p] * b[q];
    }
    __syncthreads();
  }
#pragma unroll
  for (unsigned p = 0; p < TM; ++p)
#pragma unroll
    for (unsigned q = 0; q < TN; ++q) {
      unsigned row = row0 + y + p, column = column0 + x + q;
      if (row < m && column < n) out[blockIdx.z * out_matrix + (unsigned long long)row * n + column] = sum[p][q];
    }
}
