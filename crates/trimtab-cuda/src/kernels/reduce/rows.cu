// A block a result: threads fold every WIDTH-th element, warps by shuffles, the first warp the rest. Macros: SINGLE, WIDTH, OP.
extern "C" __global__ void __launch_bounds__(WIDTH)
reduce_rows(const T* __restrict__ in, T* __restrict__ out, unsigned len, unsigned inner, unsigned results) {
  __shared__ T values[WIDTH / 32];
  unsigned t = threadIdx.x, result = blockIdx.x;
  const T* from = in + (unsigned long long)(result / inner) * len * inner + result % inner;
  Fold fold;
  fold.start(from[0]);
  for (unsigned i = t; i < len; i += WIDTH) fold.add(from[(unsigned long long)i * inner]);
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
    out[result] = fold.result(len);
  }
}
