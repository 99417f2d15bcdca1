// Where an element comes from, and which parameters that takes.
#ifndef LOADED
#define TAKES_FROM const E* __restrict__ in
#define LOADED(index) loaded(in[index])
#endif
// How values become one. Sums carry what rounding left out (Neumaier), so that long ones are as exact as short ones.
struct Fold {
  T value, rest;
  __device__ void start(T first) { value = OP < 2 ? (T)0 : first, rest = 0; }
  __device__ void add(T x) {
#if OP < 2
    T sum = value + x;
    rest += F(fabs)(value) >= F(fabs)(x) ? (value - sum) + x : (x - sum) + value;
    value = sum;
#else
    bool better = OP == 2 ? x < value : x > value;
    if (x != x || (value == value && better)) value = x;
#endif
  }
  // What rounding left out means nothing where the sum is not finite.
  __device__ T folded() const {
    T all = value + rest;
    return all == all ? all : value;
  }
  __device__ T result(unsigned count) const { return OP == 1 ? folded() / (T)count : folded(); }
};
// What the threads of a block folded, as one; the first thread has it.
__device__ __forceinline__ Fold together(Fold fold) {
  __shared__ T values[WIDTH / 32];
  unsigned t = threadIdx.x;
#pragma unroll
  for (unsigned o = 16; o; o >>= 1) {
    T value = __shfl_xor_sync(0xffffffffu, fold.value, o), rest = __shfl_xor_sync(0xffffffffu, fold.rest, o);
    fold.add(value);
    fold.rest += rest;
  }
  if (t % 32 == 0) values[t / 32] = fold.folded();
  __syncthreads();
  if (t == 0) {
    fold.start(values[0]);
    for (unsigned w = 0; w < WIDTH / 32; ++w) fold.add(values[w]);
  }
  return fold;
}
