// A block a result: threads fold every WIDTH-th element, then the block what they have. Macros: NUMBER, WIDTH, OP.
extern "C" __global__ void __launch_bounds__(WIDTH)
reduce_rows(TAKES_FROM, E* __restrict__ out, unsigned len, unsigned inner, unsigned results) {
  unsigned t = threadIdx.x, result = blockIdx.x;
  u64 from = (u64)(result / inner) * len * inner + result % inner;
  Fold fold;
  fold.start(LOADED(from));
  for (unsigned i = t; i < len; i += WIDTH) fold.add(LOADED(from + (u64)i * inner));
  fold = together(fold);
  if (t == 0) out[result] = stored(fold.result(len));
}
