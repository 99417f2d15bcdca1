// A thread a result: neighbours walk down neighbouring columns. Macros: NUMBER, WIDTH, OP.
extern "C" __global__ void __launch_bounds__(WIDTH)
reduce_columns(TAKES_FROM, E* __restrict__ out, unsigned len, unsigned inner, unsigned results) {
  unsigned result = blockIdx.x * WIDTH + threadIdx.x;
  if (result >= results) return;
  u64 from = (u64)(result / inner) * len * inner + result % inner;
  Fold fold;
  fold.start(LOADED(from));
  for (unsigned i = 0; i < len; ++i) fold.add(LOADED(from + (u64)i * inner));
  out[result] = stored(fold.result(len));
}
