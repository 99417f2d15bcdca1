// A team of threads a row, one, a warp or the block: it looks at the row for what all elements need, then writes them.
// Macros: NUMBER, WIDTH, TEAM, OP (0 softmax, 1 log_softmax, 2 logsumexp, 3 variance, 4 layer_norm, 5 rms_norm), SCALED, SHIFTED.
#if TEAM > 32
__shared__ T parts[WIDTH / 32];
#endif
// What is no number wins.
__device__ __forceinline__ T larger(T x, T y) { return x != x || x > y ? x : y; }
// A sum that carries what rounding left out (Neumaier), so that long ones are as exact as short ones.
struct Sum {
  T value, rest;
  __device__ void add(T x) {
    T sum = value + x;
    rest += F(fabs)(value) >= F(fabs)(x) ? (value - sum) + x : (x - sum) + value;
    value = sum;
  }
  // What rounding left out means nothing where the sum is not finite.
  __device__ T all() const {
    T all = value + rest;
    return all == all ? all : value;
  }
};
// The largest any thread of the team has, in all of them.
__device__ __forceinline__ T team_largest(T most) {
#if TEAM > 1
#pragma unroll
  for (unsigned o = 16; o; o >>= 1) most = larger(most, __shfl_xor_sync(0xffffffffu, most, o));
#endif
#if TEAM > 32
  // Nobody still reads what was there before.
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = most;
  __syncthreads();
  most = parts[0];
  for (unsigned w = 1; w < WIDTH / 32; ++w) most = larger(most, parts[w]);
#endif
  return most;
}
// What the sums of all threads of the team add up to, in all of them.
__device__ __forceinline__ T team_sum(Sum sum) {
#if TEAM > 1
#pragma unroll
  for (unsigned o = 16; o; o >>= 1) {
    T value = __shfl_xor_sync(0xffffffffu, sum.value, o), rest = __shfl_xor_sync(0xffffffffu, sum.rest, o);
    sum.add(value);
    sum.rest += rest;
  }
#endif
#if TEAM > 32
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum.all();
  __syncthreads();
  sum.value = parts[0], sum.rest = 0;
  for (unsigned w = 1; w < WIDTH / 32; ++w) sum.add(parts[w]);
  return sum.all();
#elif TEAM == 1
  return sum.all();
#else
  // Lanes added in different orders: they go by the first.
  return __shfl_sync(0xffffffffu, sum.all(), 0);
#endif
}
extern "C" __global__ void __launch_bounds__(WIDTH)
rows_team(const E* __restrict__ in, const E* __restrict__ scale, const E* __restrict__ shift, const E* __restrict__ epsilon,
          E* __restrict__ out, unsigned len, unsigned inner, unsigned rows) {
  unsigned t = threadIdx.x % TEAM, row = blockIdx.x * (WIDTH / TEAM) + threadIdx.x / TEAM;
  if (row >= rows) return;
  u64 from = (u64)(row / inner) * len * inner + row % inner;
#define AT(i) (from + (u64)(i) * inner)
  Sum sum = {0, 0};
#if OP <= 2
  T most = loaded(in[from]);
  for (unsigned i = t; i < len; i += TEAM) most = larger(most, loaded(in[AT(i)]));
  most = team_largest(most);
  for (unsigned i = t; i < len; i += TEAM) sum.add(F(exp)(loaded(in[AT(i)]) - most));
  T exps = team_sum(sum);
#elif OP <= 4
  for (unsigned i = t; i < len; i += TEAM) sum.add(loaded(in[AT(i)]));
  T mean = team_sum(sum) / (T)len;
  sum.value = sum.rest = 0;
  for (unsigned i = t; i < len; i += TEAM) {
    T apart = loaded(in[AT(i)]) - mean;
    sum.add(apart * apart);
  }
  T variance = team_sum(sum) / (T)len;
#else
  T mean = 0;
  for (unsigned i = t; i < len; i += TEAM) {
    T x = loaded(in[AT(i)]);
    sum.add(x * x);
  }
  T variance = team_sum(sum) / (T)len;
#endif
#if OP == 2
  // Infinity less itself is no number.
  if (t == 0) out[row] = stored(most - most == (T)0 ? most + F(log)(exps) : most);
#elif OP == 3
  if (t == 0) out[row] = stored(variance);
#else
#if OP == 1
  T log_exps = F(log)(exps);
#elif OP >= 4
  T by = (T)1 / F(sqrt)(variance + loaded(epsilon[0]));
#endif
  for (unsigned i = t; i < len; i += TEAM) {
    T x = loaded(in[AT(i)]);
#if OP == 0
    x = F(exp)(x - most) / exps;
#elif OP == 1
    x = x - most - log_exps;
#else
    x = (x - mean) * by;
#if SCALED
    x *= loaded(scale[i]);
#endif
#if SHIFTED
    x += loaded(shift[i]);
#endif
#endif
    out[AT(i)] = stored(x);
  }
#endif
}
