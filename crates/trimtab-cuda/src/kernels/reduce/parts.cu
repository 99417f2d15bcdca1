// The first of two launches: a block folds a part of a result. Macros: NUMBER, WIDTH, OP.
extern "C" __global__ void __launch_bounds__(WIDTH)
reduce_parts(TAKES_FROM, T* __restrict__ out, unsigned len, unsigned inner, unsigned part_len) {
  unsigned t = threadIdx.x, part = blockIdx.x, result = blockIdx.y, first = part * part_len;
  unsigned end = first + part_len < len ? first + part_len : len;
  u64 from = (u64)(result / inner) * len * inner + result % inner;
  Fold fold;
  fold.start(LOADED(from + (u64)first * inner));
  for (unsigned i = first + t; i < end; i += WIDTH) fold.add(LOADED(from + (u64)i * inner));
  fold = together(fold);
  if (t == 0) out[(u64)result * gridDim.x + part] = fold.folded();
}
