// Right kernels of other kinds: reductions, functions, atomics, integers.
extern "C" __global__ void reduce(const float* x, float* out, int n) {
  extern __shared__ float parts[];
  float sum = 0;
  const float4* x4 = (const float4*)x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
    float4 v = x4[i];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  if (blockIdx.x == 0 && threadIdx.x < (n & 3)) sum += x[(n & ~3) + threadIdx.x];
#pragma unroll
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if ((threadIdx.x & 31) == 0) parts[threadIdx.x >> 5] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < (blockDim.x >> 5) ? parts[threadIdx.x] : 0;
#pragma unroll
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x == 0) atomicAdd(out, sum);
  }
}

extern "C" __global__ void functions(const float* x, float* y, int n, int which) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  switch (which) {
    case 0: v = expf(v); break;
    case 1: v = logf(v); break;
    case 2: v = sinf(v); break;
    case 3: v = tanhf(v); break;
    case 4: v = sqrtf(v); break;
    case 5: v = 1 / v; break;
    case 6: v = erff(v); break;
    case 7: v = powf(v, 1.7f); break;
    case 8: v = rsqrtf(v); break;
    case 9: v = floorf(v); break;
    case 10: v = fmodf(v, 0.7f); break;
    case 11: v = v / 3; break;
  }
  y[i] = v;
}

// Called, not made part of the kernel by the compiler; sin and pow of doubles are such functions, too.
__device__ __noinline__ double cube(double x) { return x * x * x; }

extern "C" __global__ void doubles(const double* x, double* y, int n, int which) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = x[i];
  switch (which) {
    case 0: v = exp(v); break;
    case 1: v = log(v); break;
    case 2: v = sqrt(v); break;
    case 3: v = 1 / v; break;
    case 4: v = sin(v * 1e6); break;
    case 5: v = pow(v, 1.7); break;
    case 6: v = cube(v); break;
  }
  y[i] = v;
}

extern "C" __global__ void integers(const long long* a, const long long* b, long long* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long x = a[i], y = b[i], *to = out + i * 8;
  to[0] = x / y;
  to[1] = x % y;
  to[2] = __mul64hi(x, y);
  to[3] = (long long)((unsigned)x / (unsigned)(y | 1)) + (int)x % (int)(y | 1);
  to[4] = __popcll(x) + __clzll(x) * 100 + __ffsll(x) * 10000;
  to[5] = (x << (y & 63)) ^ (x >> (y & 31)) ^ (unsigned)__brev((unsigned)x);
  to[6] = (signed char)x + (short)y * 3ll + (unsigned char)(x >> 8);
  to[7] = (long long)(double)x + (long long)(float)(int)y + min(x, y) - max((int)x, (int)y) + (x > y ? 7 : -7);
}

// Counts of bytes; neighbours in one word belong to different threads.
extern "C" __global__ void histogram(const unsigned char* x, unsigned* counts, unsigned char* flags, int n) {
  __shared__ unsigned ours[256];
  ours[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&ours[x[i]], 1u);
    flags[i] = x[i] > 127;
  }
  __syncthreads();
  if (ours[threadIdx.x]) atomicAdd(&counts[threadIdx.x], ours[threadIdx.x]);
}

// Lanes go different ways and meet again; arrays that live in local memory; votes.
extern "C" __global__ void apart(const int* x, int* out, int n) {
  int i = threadIdx.x, steps = 0, digits[10] = {};
  unsigned v = i < n ? x[i] : 0;
  for (unsigned rest = v; rest > 0; rest /= 10) {
    digits[rest % 10]++;
    steps++;
  }
  __syncwarp();
  unsigned odd = __ballot_sync(0xffffffffu, steps & 1);
  int most = 0;
  for (int d = 0; d < 10; ++d) most = digits[d] > digits[most] ? d : most;
  if (i < n) out[i] = steps * 10000 + most * 100 + __popc(odd) + (__any_sync(__activemask(), v == 7) ? 50 : 0);
}
