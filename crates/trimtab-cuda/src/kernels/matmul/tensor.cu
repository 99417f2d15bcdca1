// Products of halves on tensor cores, sums in f32: a warp computes 16 × 16 results, a block WM × WN such tiles. Macros: NUMBER (2 or 3), WM, WN.
#define BM (16 * WM)
#define BN (16 * WN)
#define THREADS (32 * WM * WN)
// Rows of 16 halves are 48 bytes apart: 16-byte aligned, and eight of them in different banks.
#define ROW 24
// d += a · b for 16 × 16 of a and 16 × 8 of b, as mma.sync lays them out.
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if __CUDA_ARCH__ >= 800
#if NUMBER == 3
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#else
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
#endif
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
  for (int half = 0; half < 2; ++half)
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS) matmul_tensor(PRODUCT_TAKES(E)) {
  __shared__ __align__(16) E left[BM][ROW], right[BN][ROW];
  unsigned t = threadIdx.x, lane = t % 32, warp = t / 32, group = lane / 4, within = lane % 4;
  unsigned y = warp / WN * 16, x = warp % WN * 16, row0 = blockIdx.y * BM, column0 = blockIdx.x * BN;
  lhs += blockIdx.z * left_matrix;
  rhs += blockIdx.z * right_matrix;
  float sum[2][4] = {};
  for (unsigned start = 0; start < k; start += 16) {
    for (unsigned e = t; e < BM * 16; e += THREADS) {
      unsigned row = e / 16, i = e % 16;
      E value = 0;
      if (row0 + row < m && start + i < k)
        value = LEFT(row0 + row, start + i);
      left[row][i] = value;
    }
    for (unsigned e = t; e < BN * 16; e += THREADS) {
      unsigned column = e % BN, i = e / BN;
      E value = 0;
      if (start + i < k && column0 + column < n)
        value = RIGHT(start + i, column0 + column);
      right[column][i] = value;
    }
    __syncthreads();
    auto pair = [](const E& first) { return *reinterpret_cast<const unsigned*>(&first); };
    unsigned a[4] = {pair(left[y + group][2 * within]), pair(left[y + group + 8][2 * within]),
                     pair(left[y + group][2 * within + 8]), pair(left[y + group + 8][2 * within + 8])};
#pragma unroll
    for (unsigned part = 0; part < 2; ++part) {
      unsigned b[2] = {pair(right[x + 8 * part + group][2 * within]), pair(right[x + 8 * part + group][2 * within + 8])};
      multiply(sum[part], a, b);
    }
    __syncthreads();
  }
#pragma unroll
  for (unsigned part = 0; part < 2; ++part)
#pragma unroll
    for (unsigned e = 0; e < 4; ++e) {
      unsigned row = row0 + y + group + e / 2 * 8, column = column0 + x + 8 * part + 2 * within + e % 2;
      if (row < m && column < n) STORE(blockIdx.z, row, column, sum[part][e]);
    }
}
