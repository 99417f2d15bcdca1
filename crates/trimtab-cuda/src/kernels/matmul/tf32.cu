// Products of f32 on tensor cores, which see 11 bits of each factor; sums in f32. A warp computes FR × FC fragments of 16 × 8 results, a block
// WM × WN warps. Macros: NUMBER, WM, WN, FR, FC.
#define BM (16 * WM * FR)
#define BN (8 * WN * FC)
#define BK 16
#define THREADS (32 * WM * WN)
// Rows of 16 are 20 words apart: a fragment's eight rows of four are in different banks.
#define ROW 20
__device__ __forceinline__ unsigned rounded(float x) {
  unsigned out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
  return out;
}
extern "C" __global__ void __launch_bounds__(THREADS) matmul_tf32(PRODUCT_TAKES(E)) {
  __shared__ unsigned left[BM][ROW], right[BN][ROW];
  unsigned t = threadIdx.x, lane = t % 32, warp = t / 32, group = lane / 4, within = lane % 4;
  unsigned y = warp / WN * 16 * FR, x = warp % WN * 8 * FC, row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  lhs += blockIdx.z * left_matrix;
  rhs += blockIdx.z * right_matrix;
  float sum[FR][FC][4] = {};
  for (unsigned start = 0; start < k; start += BK) {
    bool by_row = left_step == 1, by_step = right_column == 1;
    for (unsigned e = t; e < BM * BK; e += THREADS) {
      unsigned row = by_row ? e / BK : e % BM, i = by_row ? e % BK : e / BM;
      float value = 0;
      if (row0 + row < m && start + i < k) value = LEFT(row0 + row, start + i);
      left[row][i] = rounded(value);
    }
    for (unsigned e = t; e < BN * BK; e += THREADS) {
      unsigned i = by_step ? e / BN : e % BK, column = by_step ? e % BN : e / BK;
      float value = 0;
      if (start + i < k && column0 + column < n) value = RIGHT(start + i, column0 + column);
      right[column][i] = rounded(value);
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < BK; i += 8) {
      unsigned a[FR][4], b[FC][2];
#pragma unroll
      for (unsigned p = 0; p < FR; ++p)
#pragma unroll
        for (unsigned e = 0; e < 4; ++e) a[p][e] = left[y + 16 * p + group + e % 2 * 8][i + within + e / 2 * 4];
#pragma unroll
      for (unsigned q = 0; q < FC; ++q)
#pragma unroll
        for (unsigned e = 0; e < 2; ++e) b[q][e] = right[x + 8 * q + group][i + within + e * 4];
#pragma unroll
      for (unsigned p = 0; p < FR; ++p)
#pragma unroll
        for (unsigned q = 0; q < FC; ++q)
          asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                       : "+f"(sum[p][q][0]), "+f"(sum[p][q][1]), "+f"(sum[p][q][2]), "+f"(sum[p][q][3])
                       : "r"(a[p][0]), "r"(a[p][1]), "r"(a[p][2]), "r"(a[p][3]), "r"(b[q][0]), "r"(b[q][1]));
    }
    __syncthreads();
  }
#pragma unroll
  for (unsigned p = 0; p < FR; ++p)
#pragma unroll
    for (unsigned q = 0; q < FC; ++q)
#pragma unroll
      for (unsigned e = 0; e < 4; ++e) {
        unsigned row = row0 + y + 16 * p + group + e / 2 * 8, column = column0 + x + 8 * q + 2 * within + e % 2;
        if (row < m && column < n) STORE(blockIdx.z, row, column, sum[p][q][e]);
      }
}
