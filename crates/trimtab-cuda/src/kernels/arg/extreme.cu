// A team of threads a line, one, a warp or the block: what comes first of all in its order. Macros: as for keys; WIDTH, TEAM.
extern "C" __global__ void __launch_bounds__(WIDTH)
arg_extreme(const E* __restrict__ in, Result* __restrict__ out, unsigned lines, unsigned len, unsigned inner) {
  unsigned t = threadIdx.x % TEAM, line = blockIdx.x * (WIDTH / TEAM) + threadIdx.x / TEAM;
  if (line >= lines) return;
  u64 from = (u64)(line / inner) * len * inner + line % inner;
  Entry best = END;
  for (unsigned i = t; i < len; i += TEAM) {
    Entry entry = entry_of(in[from + (u64)i * inner], i);
    if (is_behind(best, entry)) best = entry;
  }
#if TEAM > 1
#pragma unroll
  for (unsigned o = 16; o; o >>= 1) {
    Entry other = from_lane(best, o);
    if (is_behind(best, other)) best = other;
  }
#endif
#if TEAM > 32
  __shared__ Entry parts[WIDTH / 32];
  if (t % 32 == 0) parts[t / 32] = best;
  __syncthreads();
  for (unsigned w = 0; w < WIDTH / 32; ++w)
    if (is_behind(best, parts[w])) best = parts[w];
#endif
  if (t == 0) out[line] = result_of(best);
}
