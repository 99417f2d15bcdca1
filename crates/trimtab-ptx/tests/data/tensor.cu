// Tensor cores: one warp, one tile. a is m × k row by row, b is n × k (each column of the product's second factor together).
typedef unsigned short half_bits;
__device__ __forceinline__ unsigned pair(const half_bits* p) { return *(const unsigned*)p; }

#define STORE()                                        \
  int row = lane / 4, column = lane % 4 * 2;           \
  c[row * 8 + column] = d0, c[row * 8 + column + 1] = d1; \
  c[(row + 8) * 8 + column] = d2, c[(row + 8) * 8 + column + 1] = d3

#define PRODUCT_16(NAME, TYPE)                                                                                            \
  extern "C" __global__ void NAME(const half_bits* a, const half_bits* b, float* c, int k) {                               \
    int lane = threadIdx.x, g = lane / 4, w = lane % 4;                                                                    \
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;                                                                                  \
    for (int i = 0; i < k; i += 16) {                                                                                      \
      unsigned a0 = pair(a + g * k + i + w * 2), a1 = pair(a + (g + 8) * k + i + w * 2);                                   \
      unsigned a2 = pair(a + g * k + i + w * 2 + 8), a3 = pair(a + (g + 8) * k + i + w * 2 + 8);                           \
      unsigned b0 = pair(b + g * k + i + w * 2), b1 = pair(b + g * k + i + w * 2 + 8);                                     \
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "   \
                   "{%0,%1,%2,%3};"                                                                                        \
                   : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)                                                                \
                   : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));                                                \
    }                                                                                                                      \
    STORE();                                                                                                               \
  }
PRODUCT_16(mma_f16, "f16")
PRODUCT_16(mma_bf16, "bf16")

extern "C" __global__ void mma_tf32(const float* a, const float* b, float* c, int k) {
  int lane = threadIdx.x, g = lane / 4, w = lane % 4;
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  auto rounded = [](float x) {
    unsigned out;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
    return out;
  };
  for (int i = 0; i < k; i += 8) {
    unsigned a0 = rounded(a[g * k + i + w]), a1 = rounded(a[(g + 8) * k + i + w]);
    unsigned a2 = rounded(a[g * k + i + w + 4]), a3 = rounded(a[(g + 8) * k + i + w + 4]);
    unsigned b0 = rounded(b[g * k + i + w]), b1 = rounded(b[g * k + i + w + 4]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
  STORE();
}

// 16 × 16 of c; here b is k × 16, row by row.
extern "C" __global__ void wmma_f16(const half_bits* a, const half_bits* b, float* c, int k) {
  unsigned x[8], y[8];
  float d[8] = {};
  for (int i = 0; i < k; i += 16) {
    asm volatile("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]), "=r"(x[4]), "=r"(x[5]), "=r"(x[6]), "=r"(x[7])
                 : "l"(a + i), "r"(k) : "memory");
    asm volatile("wmma.load.b.sync.aligned.row.m16n16k16.global.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, [%8], %9;"
                 : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]), "=r"(y[4]), "=r"(y[5]), "=r"(y[6]), "=r"(y[7])
                 : "l"(b + i * 16), "r"(16) : "memory");
    asm volatile("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {%0,%1,%2,%3,%4,%5,%6,%7}, "
                 "{%8,%9,%10,%11,%12,%13,%14,%15}, {%16,%17,%18,%19,%20,%21,%22,%23}, {%0,%1,%2,%3,%4,%5,%6,%7};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4]), "r"(x[5]), "r"(x[6]), "r"(x[7]), "r"(y[0]),
                   "r"(y[1]), "r"(y[2]), "r"(y[3]), "r"(y[4]), "r"(y[5]), "r"(y[6]), "r"(y[7]));
  }
  asm volatile("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%0], {%1,%2,%3,%4,%5,%6,%7,%8}, %9;" ::"l"(c), "f"(d[0]),
               "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]), "r"(16) : "memory");
}
