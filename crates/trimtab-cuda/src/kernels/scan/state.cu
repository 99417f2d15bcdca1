// What elements are carried along in. OP: 0 sum, 1 product, 2 largest, 3 smallest. Macros: NUMBER, OP.
//
// Sums carry what rounding left out, so that no order of merging costs digits; products mantissa and exponent apart, so that parts neither overflow nor
// vanish. Whole numbers wrap.
#define STATE __device__ __forceinline__
#if NUMBER < 4 && OP == 0
struct State {
  T value, rest;
};
STATE State empty() { return {0, 0}; }
STATE State state_of(T x) { return {x, 0}; }
STATE State merge(State a, State b) {
  T sum = a.value + b.value, part = sum - a.value;
  return {sum, a.rest + b.rest + ((a.value - (sum - part)) + (b.value - part))};
}
// What rounding left out means nothing where the sum is not finite.
STATE T element(State s) {
  T all = s.value + s.rest;
  return all == all ? all : s.value;
}
STATE State from_below(State s, unsigned o) {
  return {__shfl_up_sync(0xffffffffu, s.value, o), __shfl_up_sync(0xffffffffu, s.rest, o)};
}
#elif NUMBER < 4 && OP == 1
struct State {
  T value;
  int exponent;
};
STATE State normal(T x, int exponent) {
  int more = 0;
  // What has no digits has no exponent.
  if (x - x == (T)0 && x != (T)0) x = F(frexp)(x, &more);
  return {x, exponent + more};
}
STATE State empty() { return {1, 0}; }
STATE State state_of(T x) { return normal(x, 0); }
STATE State merge(State a, State b) { return normal(a.value * b.value, a.exponent + b.exponent); }
STATE T element(State s) { return F(ldexp)(s.value, s.exponent); }
STATE State from_below(State s, unsigned o) {
  return {__shfl_up_sync(0xffffffffu, s.value, o), __shfl_up_sync(0xffffffffu, s.exponent, o)};
}
#else
struct State {
  T value;
};
#if OP == 0
STATE State empty() { return {0}; }
STATE State merge(State a, State b) { return {(T)((unsigned)a.value + (unsigned)b.value)}; }
#elif OP == 1
STATE State empty() { return {1}; }
STATE State merge(State a, State b) { return {(T)((unsigned)a.value * (unsigned)b.value)}; }
#else
// What is no number stays.
#if OP == 2
#define WINS(x, y) ((x) != (x) || (x) > (y))
#define FARTHEST 0xff800000
#define FARTHEST_OF_WIDE 0xfff0000000000000
#define FARTHEST_WHOLE (-2147483647 - 1)
#else
#define WINS(x, y) ((x) != (x) || (x) < (y))
#define FARTHEST 0x7f800000
#define FARTHEST_OF_WIDE 0x7ff0000000000000
#define FARTHEST_WHOLE 2147483647
#endif
STATE State empty() {
#if NUMBER >= 4
  return {FARTHEST_WHOLE};
#elif NUMBER == 0
  return {__longlong_as_double(FARTHEST_OF_WIDE)};
#else
  return {__uint_as_float(FARTHEST)};
#endif
}
STATE State merge(State a, State b) { return WINS(a.value, b.value) ? a : b; }
#endif
STATE State state_of(T x) { return {x}; }
STATE T element(State s) { return s.value; }
STATE State from_below(State s, unsigned o) { return {__shfl_up_sync(0xffffffffu, s.value, o)}; }
#endif
// One more element: what stands in its place, and what is carried on.
STATE State emit(State before, T x, E* out) {
  State after = merge(before, state_of(x));
#if EXCLUSIVE
  *out = stored(element(before));
#else
  *out = stored(element(after));
#endif
  return after;
}
