// The second of two launches: a block folds the parts of a result. Macros: NUMBER, WIDTH, OP.
extern "C" __global__ void __launch_bounds__(WIDTH)
reduce_ends(const T* __restrict__ in, E* __restrict__ out, unsigned parts, unsigned len) {
  unsigned t = threadIdx.x, result = blockIdx.x;
  in += (u64)result * parts;
  Fold fold;
  fold.start(in[0]);
  for (unsigned i = t; i < parts; i += WIDTH) fold.add(in[i]);
  fold = together(fold);
  if (t == 0) out[result] = stored(fold.result(len));
}
