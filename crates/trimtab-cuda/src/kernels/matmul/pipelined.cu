// As `blocked.cu`, with two tiles of each operand: one is filled by asynchronous copies (sm_80) while the other is computed with.
// Macros: NUMBER, BM, BN, BK, TM, TN, PAD, LEFT_WIDE and RIGHT_WIDE (elements of a copy).
#define ACROSS (BN / TN)
#define THREADS (ACROSS * (BM / TM))
// Copies so many elements, or zeros where there are none.
template <unsigned WIDE>
__device__ __forceinline__ void fetch(E* to, const E* from, bool there) {
  unsigned place = (unsigned)__cvta_generic_to_shared(to), bytes = there ? WIDE * sizeof(E) : 0;
  if (WIDE * sizeof(E) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(place), "l"(from), "r"(bytes), "n"(sizeof(E)) : "memory");
}
extern "C" __global__ void __launch_bounds__(THREADS) matmul_pipelined(PRODUCT_TAKES(E)) {
  __shared__ __align__(16) E left[2][BM][BK + PAD], right[2][BK][BN + PAD];
  unsigned t = threadIdx.x, x = t % ACROSS * TN, y = t / ACROSS * TM, row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  lhs += blockIdx.z * left_matrix;
  rhs += blockIdx.z * right_matrix;
  auto fill = [&](unsigned stage, unsigned start) {
    bool by_row = left_step == 1, by_step = right_column == 1;
    for (unsigned e = t * LEFT_WIDE; e < BM * BK; e += THREADS * LEFT_WIDE) {
      unsigned row = by_row ? e / BK : e % BM, i = by_row ? e % BK : e / BM;
      bool there = row0 + row < m && start + i < k;
      fetch<LEFT_WIDE>(&left[stage][row][i], there ? &LEFT(row0 + row, start + i) : lhs, there);
    }
    for (unsigned e = t * RIGHT_WIDE; e < BK * BN; e += THREADS * RIGHT_WIDE) {
      unsigned i = by_step ? e / BN : e % BK, column = by_step ? e % BN : e / BK;
      bool there = start + i < k && column0 + column < n;
      fetch<RIGHT_WIDE>(&right[stage][i][column], there ? &RIGHT(start + i, column0 + column) : rhs, there);
    }
  };
  T sum[TM][TN];
#pragma unroll
  for (unsigned p = 0; p < TM; ++p)
#pragma unroll
    for (unsigned q = 0; q < TN; ++q) sum[p][q] = 0;
  fill(0, 0);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (unsigned start = 0, stage = 0; start < k; start += BK, stage ^= 1) {
    if (start + BK < k) fill(stage ^ 1, start + BK);
    // A group a round, also an empty one: then all but the last are this round's and older.
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < BK; ++i) {
      T a[TM], b[TN];
#pragma unroll
      for (unsigned p = 0; p < TM; ++p) a[p] = left[stage][y + p][i];
#pragma unroll
      for (unsigned q = 0; q < TN; ++q) b[q] = right[stage][i][x + q];
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
      if (row < m && column < n) STORE(blockIdx.z, row, column, sum[p][q]);
    }
}
