// TM × TN results a thread in registers, BM × BN a block, BK inner steps between two barriers. With SPLIT, blocks share out the inner axis, too, and
// leave sums of parts. Macros: NUMBER, BM, BN, BK, TM, TN, PAD, SPLIT.
#define ACROSS (BN / TN)
#define THREADS (ACROSS * (BM / TM))
#if SPLIT
extern "C" __global__ void __launch_bounds__(THREADS) matmul_blocked(PRODUCT_TAKES(T), unsigned parts, unsigned part_len) {
  unsigned matrix = blockIdx.z / parts, part = blockIdx.z % parts, first = part * part_len;
  unsigned end = first + part_len < k ? first + part_len : k;
  // The sums of each part lie together.
  out += (u64)part * (gridDim.z / parts) * out_matrix;
#else
extern "C" __global__ void __launch_bounds__(THREADS) matmul_blocked(PRODUCT_TAKES(E)) {
  unsigned matrix = blockIdx.z, first = 0, end = k;
#endif
  __shared__ __align__(16) T left[BK][BM + PAD], right[BK][BN + PAD];
  unsigned t = threadIdx.x, x = t % ACROSS * TN, y = t / ACROSS * TM, row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  lhs += matrix * left_matrix;
  rhs += matrix * right_matrix;
  T sum[TM][TN];
#pragma unroll
  for (unsigned p = 0; p < TM; ++p)
#pragma unroll
    for (unsigned q = 0; q < TN; ++q) sum[p][q] = 0;
  for (unsigned start = first; start < end; start += BK) {
    // Neighbouring threads read neighbours in memory, whichever way the operand lies.
    bool by_row = left_step == 1, by_step = right_column == 1;
    for (unsigned e = t; e < BM * BK; e += THREADS) {
      unsigned row = by_row ? e / BK : e % BM, i = by_row ? e % BK : e / BM;
      T value = 0;
      if (row0 + row < m && start + i < end) value = loaded(LEFT(row0 + row, start + i));
      left[i][row] = value;
    }
    for (unsigned e = t; e < BK * BN; e += THREADS) {
      unsigned i = by_step ? e / BN : e % BK, column = by_step ? e % BN : e / BK;
      T value = 0;
      if (start + i < end && column0 + column < n) value = loaded(RIGHT(start + i, column0 + column));
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
      if (row < m && column < n) {
#if SPLIT
        out[matrix * out_matrix + (u64)row * n + column] = sum[p][q];
#else
        STORE(matrix, row, column, sum[p][q]);
#endif
      }
    }
}
