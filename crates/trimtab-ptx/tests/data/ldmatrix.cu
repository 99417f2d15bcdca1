// Tensor cores, their factors through shared memory and ldmatrix: a is 16 × k, b 8 × k, both row by row.
typedef unsigned short half_bits;

#define STORE()                                        \
  int row = lane / 4, column = lane % 4 * 2;           \
  c[row * 8 + column] = d0, c[row * 8 + column + 1] = d1; \
  c[(row + 8) * 8 + column] = d2, c[(row + 8) * 8 + column + 1] = d3

extern "C" __global__ void mma_ldmatrix(const half_bits* a, const half_bits* b, float* c, int k) {
  __shared__ __align__(16) half_bits left[16][24], right[8][24];
  int lane = threadIdx.x;
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  for (int i = 0; i < k; i += 16) {
    for (int e = lane; e < 256; e += 32) left[e / 16][e % 16] = a[e / 16 * k + i + e % 16];
    for (int e = lane; e < 128; e += 32) right[e / 16][e % 16] = b[e / 16 * k + i + e % 16];
    __syncwarp();
    unsigned a0, a1, a2, a3, b0, b1;
    unsigned from = (unsigned)__cvta_generic_to_shared(&left[lane % 16][lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a0), "=r"(a1), "=r"(a2), "=r"(a3) : "r"(from) : "memory");
    from = (unsigned)__cvta_generic_to_shared(&right[lane % 8][lane / 8 % 2 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(from) : "memory");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#ifndef NO_WARP_BARRIER
    __syncwarp();
#endif
  }
  STORE();
}
