// A block moves a square tile through shared memory, so that reads and writes are both of neighbours. Macros: BYTES, TILE, ROWS, PAD.
#if BYTES == 1
typedef unsigned char T;
#elif BYTES == 2
typedef unsigned short T;
#elif BYTES == 4
typedef unsigned T;
#else
typedef unsigned long long T;
#endif
extern "C" __global__ void __launch_bounds__(TILE * ROWS)
transpose_tiled(const T* __restrict__ in, T* __restrict__ out, unsigned height, unsigned width) {
  __shared__ T tile[TILE][TILE + PAD];
  unsigned long long plane = (unsigned long long)blockIdx.z * height * width;
  unsigned x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
  for (unsigned j = 0; j < TILE; j += ROWS)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = in[plane + (unsigned long long)(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE + threadIdx.x;
  y = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
  for (unsigned j = 0; j < TILE; j += ROWS)
    if (x < height && y + j < width) out[plane + (unsigned long long)(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}
