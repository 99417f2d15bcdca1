// The elementwise operations. What is no number stays none, and wins against a number.
#define OPERATION __device__ __forceinline__ T
OPERATION op_neg(T x) { return -x; }
OPERATION op_abs(T x) { return F(fabs)(x); }
OPERATION op_exp(T x) { return F(exp)(x); }
OPERATION op_log(T x) { return F(log)(x); }
OPERATION op_sqrt(T x) { return F(sqrt)(x); }
OPERATION op_tanh(T x) { return F(tanh)(x); }
OPERATION op_relu(T x) { return x < (T)0 ? (T)0 : x; }
// By e to the power of -|x|, so that neither side loses its digits.
OPERATION op_sigmoid(T x) {
  T e = F(exp)(-F(fabs)(x));
  return (x < (T)0 ? e : (T)1) / ((T)1 + e);
}
// x · (1 + tanh(u)) / 2 as x · sigmoid(2u), which does not cancel; the bound keeps infinity out of a product with zero.
OPERATION op_gelu(T x) {
  T doubled = x * ((T)1.5957691216057308 + (T)0.07135481627260025 * (x * x));
  return (x < (T)-1e4 ? (T)-1e4 : x) * op_sigmoid(doubled);
}
OPERATION op_add(T x, T y) { return x + y; }
OPERATION op_sub(T x, T y) { return x - y; }
OPERATION op_mul(T x, T y) { return x * y; }
OPERATION op_div(T x, T y) { return x / y; }
OPERATION op_min(T x, T y) { return x != x || x < y ? x : y; }
OPERATION op_max(T x, T y) { return x != x || x > y ? x : y; }
#if NUMBER > 0
OPERATION op_pow(T x, T y) { return F(pow)(x, y); }
#endif
