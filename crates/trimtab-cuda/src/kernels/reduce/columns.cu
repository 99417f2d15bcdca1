// A thread a result: neighbours walk down neighbouring columns. Macros: SINGLE, WIDTH, OP.
extern "C" __global__ void __launch_bounds__(WIDTH)
reduce_columns(const T* __restrict__ in, T* __restrict__ out, unsigned len, unsigned inner, unsigned results) {
  unsigned result = blockIdx.x * WIDTH + threadIdx.x;
  if (result >= results) return;
  const T* from = in + (unsigned long long)(result / inner) * len * inner + result % inner;
  Fold fold;
  fold.start(from[0]);
  for (unsigned i = 0; i < len; ++i) fold.add(from[(unsigned long long)i * inner]);
  out[result] = fold.result(len);
}
