// A block scans a line, or a part of one, WIDTH × ITEMS elements between barriers: a thread has neighbours. PART: 0 whole lines; 1 what parts add up to;
// 2 parts with what those before them add up to. Macros: NUMBER, OP, EXCLUSIVE, WIDTH, ITEMS, PART.
__shared__ State sums[WIDTH / 32];
// What the threads before this one have together, and what all have.
__device__ __forceinline__ State before_this(State own, State& all) {
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  State with = own;
#pragma unroll
  for (unsigned o = 1; o < 32; o <<= 1) {
    State below = from_below(with, o);
    if (lane >= o) with = merge(below, with);
  }
  State before = from_below(with, 1);
  if (lane == 0) before = empty();
  if (lane == 31) sums[warp] = with;
  __syncthreads();
  State start = empty();
  all = empty();
#pragma unroll
  for (unsigned w = 0; w < WIDTH / 32; ++w) {
    if (w == warp) start = all;
    all = merge(all, sums[w]);
  }
  // Nobody writes what others still read.
  __syncthreads();
  return merge(start, before);
}
extern "C" __global__ void __launch_bounds__(WIDTH)
scan_block(const E* __restrict__ in, E* __restrict__ out, State* __restrict__ states, unsigned len, unsigned inner,
           unsigned parts, unsigned part_len) {
  unsigned line = blockIdx.x / parts, part = blockIdx.x % parts, first = part * part_len;
  unsigned end = len - first < part_len ? len : first + part_len;
  u64 from = (u64)(line / inner) * len * inner + line % inner;
#if PART == 2
  State carry = states[blockIdx.x];
#else
  State carry = empty();
#endif
  for (unsigned start = first; start < end; start += WIDTH * ITEMS) {
    unsigned begin = start + threadIdx.x * ITEMS;
    T values[ITEMS];
    State own = empty(), all;
#pragma unroll
    for (unsigned i = 0; i < ITEMS; ++i)
      if (begin + i < end) {
        values[i] = loaded(in[from + (u64)(begin + i) * inner]);
        own = merge(own, state_of(values[i]));
      }
    State before = merge(carry, before_this(own, all));
#if PART != 1
#pragma unroll
    for (unsigned i = 0; i < ITEMS; ++i)
      if (begin + i < end) before = emit(before, values[i], out + from + (u64)(begin + i) * inner);
#endif
    carry = merge(carry, all);
  }
#if PART == 1
  if (threadIdx.x == 0) states[blockIdx.x] = carry;
#endif
}
