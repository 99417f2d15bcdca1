// A thread scans a line and waits for nobody. Macros: NUMBER, OP, EXCLUSIVE, WIDTH.
extern "C" __global__ void __launch_bounds__(WIDTH)
scan_lines(const E* __restrict__ in, E* __restrict__ out, unsigned lines, unsigned len, unsigned inner) {
  unsigned line = blockIdx.x * WIDTH + threadIdx.x;
  if (line >= lines) return;
  u64 at = (u64)(line / inner) * len * inner + line % inner;
  State before = empty();
  for (unsigned i = 0; i < len; ++i, at += inner) before = emit(before, loaded(in[at]), out + at);
}
