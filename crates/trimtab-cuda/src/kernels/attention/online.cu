// A team of threads has a query and its result in registers, a block shares keys and values. What was summed before is corrected when a larger score turns up.
// Macros: NUMBER, WIDTH, TEAM, BLOCK, DEPTH, SPAN, CAUSAL.
#define QUERIES (WIDTH / TEAM)
#define OWN_DEPTH ((DEPTH + TEAM - 1) / TEAM)
#define OWN_SPAN ((SPAN + TEAM - 1) / TEAM)
extern "C" __global__ void __launch_bounds__(WIDTH)
attention_online(const E* __restrict__ queries, const E* __restrict__ keys, const E* __restrict__ values, E* __restrict__ out,
                 unsigned rows, unsigned count, unsigned first_seen, T factor) {
  __shared__ T some_keys[BLOCK][DEPTH], some_values[BLOCK][SPAN];
  unsigned t = threadIdx.x % TEAM, row = blockIdx.x * QUERIES + threadIdx.x / TEAM, head = blockIdx.y;
  bool there = row < rows;
  u64 query = ((u64)head * rows + row) * DEPTH;
  T own[OWN_DEPTH], sums[OWN_SPAN], sum = 0;
#pragma unroll
  for (unsigned j = 0; j < OWN_DEPTH; ++j) {
    own[j] = 0;
    if (there && t + j * TEAM < DEPTH) own[j] = loaded(queries[query + t + j * TEAM]) * factor;
  }
#pragma unroll
  for (unsigned j = 0; j < OWN_SPAN; ++j) sums[j] = 0;
#if NUMBER == 0
  T most = -1.7e308;
#else
  T most = -3.4e38f;
#endif
  unsigned seen = CAUSAL && first_seen + row < count ? first_seen + row : count;
  for (unsigned begin = 0; begin < count; begin += BLOCK) {
    unsigned some = count - begin < BLOCK ? count - begin : BLOCK;
    for (unsigned at = threadIdx.x; at < some * DEPTH; at += WIDTH)
      some_keys[at / DEPTH][at % DEPTH] = loaded(keys[((u64)head * count + begin) * DEPTH + at]);
    for (unsigned at = threadIdx.x; at < some * SPAN; at += WIDTH)
      some_values[at / SPAN][at % SPAN] = loaded(values[((u64)head * count + begin) * SPAN + at]);
    __syncthreads();
    for (unsigned key = 0; key < some; ++key) {
      T score = 0;
#pragma unroll
      for (unsigned j = 0; j < OWN_DEPTH; ++j)
        if (t + j * TEAM < DEPTH) score += own[j] * some_keys[key][t + j * TEAM];
      // All lanes take part, also those whose query does not see the key.
#pragma unroll
      for (unsigned o = TEAM / 2; o; o >>= 1) score += __shfl_xor_sync(0xffffffffu, score, o);
      if (begin + key < seen) {
        if (score > most) {
          T before = F(exp)(most - score);
          sum *= before;
#pragma unroll
          for (unsigned j = 0; j < OWN_SPAN; ++j) sums[j] *= before;
          most = score;
        }
        T weight = F(exp)(score - most);
        sum += weight;
#pragma unroll
        for (unsigned j = 0; j < OWN_SPAN; ++j)
          if (t + j * TEAM < SPAN) sums[j] += weight * some_values[key][t + j * TEAM];
      }
    }
    __syncthreads();
  }
  if (!there) return;
#pragma unroll
  for (unsigned j = 0; j < OWN_SPAN; ++j)
    if (t + j * TEAM < SPAN) out[((u64)head * rows + row) * SPAN + t + j * TEAM] = stored(sums[j] / sum);
}
