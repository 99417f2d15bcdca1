// Products with COUNT vectors: the matrix is read once. A block computes WIDTH results of each; SPLIT threads share the inner axis of one.
// Macros: NUMBER, COUNT, WIDTH, SPLIT, ALONG (the matrix lies along the inner axis), OF_RIGHT (the matrix is rhs).
#if OF_RIGHT
#define MATRIX(result, i) RIGHT(i, result)
#define VECTOR(v, i) LEFT(v, i)
#else
#define MATRIX(result, i) LEFT(result, i)
#define VECTOR(v, i) RIGHT(i, v)
#endif
extern "C" __global__ void __launch_bounds__(WIDTH * SPLIT) matmul_matvec(PRODUCT_TAKES(E)) {
  unsigned t = threadIdx.x, results = OF_RIGHT ? n : m;
  // Neighbours read neighbours.
  unsigned place = ALONG ? t / SPLIT : t % WIDTH, share = ALONG ? t % SPLIT : t / WIDTH;
  unsigned result = blockIdx.x * WIDTH + place;
  lhs += blockIdx.z * left_matrix;
  rhs += blockIdx.z * right_matrix;
  T sum[COUNT];
#pragma unroll
  for (unsigned v = 0; v < COUNT; ++v) sum[v] = 0;
  if (result < results) {
    for (unsigned i = share; i < k; i += SPLIT) {
      T value = loaded(MATRIX(result, i));
#pragma unroll
      for (unsigned v = 0; v < COUNT; ++v) sum[v] += value * loaded(VECTOR(v, i));
    }
  }
#if ALONG && SPLIT <= 32
  // The threads of a result are lanes of one warp.
#pragma unroll
  for (unsigned v = 0; v < COUNT; ++v)
#pragma unroll
    for (unsigned o = SPLIT / 2; o; o >>= 1) sum[v] += __shfl_xor_sync(0xffffffffu, sum[v], o);
#elif SPLIT > 1
  __shared__ T parts[COUNT][SPLIT][WIDTH];
#pragma unroll
  for (unsigned v = 0; v < COUNT; ++v) parts[v][share][place] = sum[v];
  __syncthreads();
  if (share == 0) {
#pragma unroll
    for (unsigned v = 0; v < COUNT; ++v)
      for (unsigned other = 1; other < SPLIT; ++other) sum[v] += parts[v][other][place];
  }
#endif
  if (share == 0 && result < results) {
#pragma unroll
    for (unsigned v = 0; v < COUNT; ++v) {
      unsigned row = OF_RIGHT ? v : result, column = OF_RIGHT ? result : v;
      STORE(blockIdx.z, row, column, sum[v]);
    }
  }
}
