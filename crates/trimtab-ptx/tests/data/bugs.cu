// Each kernel is wrong in one way. Blocks of 64 threads, n elements.
#define SETUP int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;

extern "C" __global__ void out_of_bounds_read(const float* x, float* y, int n) { SETUP y[i] = x[i + 1]; }
extern "C" __global__ void out_of_bounds_write(const float* x, float* y, int n) { SETUP y[i + 1] = x[i]; }
extern "C" __global__ void out_of_bounds_shared(const float* x, float* y, int n) {
  SETUP __shared__ float s[63];
  s[t] = x[i];
  __syncthreads();
  y[i] = s[62 - t % 2];
}
extern "C" __global__ void before_the_start(const float* x, float* y, int n) { SETUP y[i] = x[i - 1]; }
extern "C" __global__ void null_pointer(const float* x, float* y, int n) {
  SETUP const float* from = (const float*)(size_t)(n - 128);
  y[i] = from[i];
}
extern "C" __global__ void misaligned(const float* x, float* y, int n) {
  SETUP float4 v = *(const float4*)(x + (t & 1));
  y[i] = v.x + v.w;
}
extern "C" __global__ void uninitialised_shared(const float* x, float* y, int n) {
  SETUP __shared__ float s[64];
  if (t < 63) s[t] = x[i];
  __syncthreads();
  y[i] = s[63 - t];
}
extern "C" __global__ void uninitialised_global(const float* x, float* y, int n) { SETUP y[i] += x[i]; }
extern "C" __global__ void write_write_race(const float* x, float* y, int n) {
  SETUP __shared__ float s[32];
  s[t / 2] = x[i] + t;
  __syncthreads();
  y[i] = s[t / 2];
}
extern "C" __global__ void read_write_race(const float* x, float* y, int n) {
  SETUP __shared__ float s[64];
  s[t] = 0;
  __syncthreads();
  s[t] = x[i];
  y[i] = s[63 - t];
}
extern "C" __global__ void no_warp_barrier(const float* x, float* y, int n) {
  SETUP __shared__ float s[64];
  s[t] = x[i];
  __syncthreads();
  float a = s[t ^ 1];
  s[t] = a;
  y[i] = a;
}
extern "C" __global__ void lanes_in_lockstep(const float* x, float* y, int n) {
  SETUP __shared__ float s[64];
  s[t] = x[i];
  __threadfence_block();
  y[i] = s[t ^ 1];
}
extern "C" __global__ void race_of_blocks(const float* x, float* y, int n) { SETUP y[t] = x[i] + blockIdx.x; }
extern "C" __global__ void read_of_another_block(const float* x, float* y, int n) {
  SETUP y[i] = x[i];
  __syncthreads();
  if (blockIdx.x > 0) y[i] += y[i - 64];
}
extern "C" __global__ void plain_beside_atomic(const float* x, float* y, int n) {
  SETUP __shared__ float s;
  if (t == 0) s = 0;
  __syncthreads();
  if (t < 32) atomicAdd(&s, x[i]);
  else s = x[i];
  __syncthreads();
  y[i] = s;
}
extern "C" __global__ void barrier_some_skip(const float* x, float* y, int n) {
  SETUP __shared__ float s[64];
  if (t < 48) {
    s[t] = x[i];
    __syncthreads();
    y[i] = s[47 - t];
  }
}
extern "C" __global__ void different_barriers(const float* x, float* y, int n) {
  SETUP __shared__ float s[64];
  s[t] = x[i];
  if (t < 32) {
    __syncthreads();
    y[i] = s[63 - t];
  } else {
    y[i] = x[i];
    __syncthreads();
    s[t] = 0;
  }
}
extern "C" __global__ void shuffle_of_some(const float* x, float* y, int n) {
  SETUP float v = x[i];
  if (t % 32 < 7) v += __shfl_xor_sync(0xffffffffu, v, 1);
  y[i] = v;
}
extern "C" __global__ void shuffle_outside_mask(const float* x, float* y, int n) {
  SETUP float v = x[i];
  if (t % 32 < 16) v += __shfl_down_sync(0xffffu, v, 8);
  y[i] = v;
}
extern "C" __global__ void not_in_its_mask(const float* x, float* y, int n) {
  SETUP float v = x[i];
  v += __shfl_xor_sync(0x0fffffffu, v, 1);
  y[i] = v;
}
extern "C" __global__ void endless(const float* x, float* y, int n) {
  SETUP volatile float* flag = y;
  y[i] = x[i];
  while (flag[i] != 1e30f) {
  }
}
extern "C" __global__ void division_by_zero(const int* x, int* y, int n) { SETUP y[i] = x[i] / (n - 128); }
extern "C" __global__ void trapped(const float* x, float* y, int n) {
  SETUP if (x[i] > 0) __trap();
  y[i] = x[i];
}
