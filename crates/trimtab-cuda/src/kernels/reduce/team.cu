// A team of threads a result, one, a warp or the block. OP: 0 sum, 2 smallest, 3 largest, 4 product. Sums of whole numbers are made in 64 bits; products of them as
// size and sign, stuck past 32 bits until a zero comes; what does not fit is told. Products of floats keep mantissa and exponent apart, so that parts neither
// overflow nor vanish. Macros: NUMBER, OP, WIDTH, TEAM.
#define STATE __device__ __forceinline__
#if NUMBER < 4
struct State {
  T value;
  int exponent;
};
STATE State normal(T x, int exponent) {
  int more = 0;
  if (x - x == (T)0 && x != (T)0) x = F(frexp)(x, &more);
  return {x, exponent + more};
}
STATE State empty() { return {1, 0}; }
STATE State state_of(T x) { return normal(x, 0); }
STATE State merge(State a, State b) { return normal(a.value * b.value, a.exponent + b.exponent); }
STATE State from_lane(State s, unsigned o) {
  return {__shfl_xor_sync(0xffffffffu, s.value, o), __shfl_xor_sync(0xffffffffu, s.exponent, o)};
}
STATE void finish(State s, E* out, unsigned*) { *out = stored(F(ldexp)(s.value, s.exponent)); }
#elif OP == 4
struct State {
  unsigned size, sign;
};
STATE State empty() { return {1, 0}; }
STATE State state_of(T x) { return {x < 0 ? 0u - (unsigned)x : (unsigned)x, x < 0}; }
STATE State merge(State a, State b) {
  u64 size = (u64)a.size * b.size;
  return {size > 0xffffffffu ? 0xffffffffu : (unsigned)size, a.sign ^ b.sign};
}
STATE State from_lane(State s, unsigned o) {
  return {__shfl_xor_sync(0xffffffffu, s.size, o), __shfl_xor_sync(0xffffffffu, s.sign, o)};
}
STATE void finish(State s, E* out, unsigned* status) {
  if (s.size > 0x7fffffffu + s.sign) atomicMax(status, 2u);
  *out = (int)(s.sign ? 0u - s.size : s.size);
}
#else
struct State {
  long long value;
};
#if OP == 0
STATE State empty() { return {0}; }
STATE State merge(State a, State b) { return {a.value + b.value}; }
#elif OP == 2
STATE State empty() { return {2147483647}; }
STATE State merge(State a, State b) { return a.value < b.value ? a : b; }
#else
STATE State empty() { return {-2147483648LL}; }
STATE State merge(State a, State b) { return a.value > b.value ? a : b; }
#endif
STATE State state_of(T x) { return {x}; }
STATE State from_lane(State s, unsigned o) { return {__shfl_xor_sync(0xffffffffu, s.value, o)}; }
STATE void finish(State s, E* out, unsigned* status) {
  if (s.value != (int)s.value) atomicMax(status, 2u);
  *out = (int)s.value;
}
#endif
extern "C" __global__ void __launch_bounds__(WIDTH)
reduce_team(const E* __restrict__ in, E* __restrict__ out, unsigned* status, unsigned len, unsigned inner, unsigned results) {
  unsigned t = threadIdx.x % TEAM, result = blockIdx.x * (WIDTH / TEAM) + threadIdx.x / TEAM;
  if (result >= results) return;
  u64 from = (u64)(result / inner) * len * inner + result % inner;
  State all = empty();
  for (unsigned i = t; i < len; i += TEAM) all = merge(all, state_of(loaded(in[from + (u64)i * inner])));
#if TEAM > 1
#pragma unroll
  for (unsigned o = 16; o; o >>= 1) all = merge(all, from_lane(all, o));
#endif
#if TEAM > 32
  __shared__ State parts[WIDTH / 32];
  if (t % 32 == 0) parts[t / 32] = all;
  __syncthreads();
  all = parts[0];
  for (unsigned w = 1; w < WIDTH / 32; ++w) all = merge(all, parts[w]);
#endif
  if (t == 0) finish(all, out + result, status);
}
