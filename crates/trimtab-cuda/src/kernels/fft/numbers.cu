// Complex numbers, twiddle factors that are computed where they are needed, and transforms of a few numbers in registers. Macros: NUMBER (0 f64, 1 f32), INVERSE.
#if NUMBER == 0
typedef double T;
#define SINCOSPI sincospi
#else
typedef float T;
#define SINCOSPI sincospif
#endif
typedef unsigned long long u64;
struct __align__(2 * sizeof(T)) Complex {
  T x, y;
};
#define NUMBERS_OF __device__ __forceinline__ Complex
NUMBERS_OF operator+(Complex a, Complex b) { return {a.x + b.x, a.y + b.y}; }
NUMBERS_OF operator-(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; }
NUMBERS_OF operator*(Complex a, Complex b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
NUMBERS_OF operator*(T a, Complex b) { return {a * b.x, a * b.y}; }
NUMBERS_OF conjugate(Complex a) { return {a.x, -a.y}; }
// A quarter of a turn in the direction of the transform.
NUMBERS_OF quarter(Complex a) {
#if INVERSE
  return {-a.y, a.x};
#else
  return {a.y, -a.x};
#endif
}
// That many parts of a turn of so many, a power of two: exact before the functions.
NUMBERS_OF turn(unsigned part, unsigned parts) {
  T sine, cosine;
  SINCOSPI((T)2 * (T)part / (T)parts, &sine, &cosine);
#if INVERSE
  return {cosine, sine};
#else
  return {cosine, -sine};
#endif
}
template <unsigned R>
__device__ __forceinline__ void small(Complex* v);
template <>
__device__ __forceinline__ void small<2>(Complex* v) {
  Complex a = v[0], b = v[1];
  v[0] = a + b;
  v[1] = a - b;
}
template <>
__device__ __forceinline__ void small<4>(Complex* v) {
  Complex a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = quarter(v[1] - v[3]);
  v[0] = a + c;
  v[1] = b + d;
  v[2] = a - c;
  v[3] = b - d;
}
template <>
__device__ __forceinline__ void small<8>(Complex* v) {
  const T half = (T)0.70710678118654752440;
  Complex even[4] = {v[0], v[2], v[4], v[6]}, odd[4] = {v[1], v[3], v[5], v[7]};
  small<4>(even);
  small<4>(odd);
#if INVERSE
  Complex eighth = {half, half};
#else
  Complex eighth = {half, -half};
#endif
  odd[1] = odd[1] * eighth;
  odd[2] = quarter(odd[2]);
  odd[3] = quarter(odd[3] * eighth);
#pragma unroll
  for (unsigned k = 0; k < 4; ++k) {
    v[k] = even[k] + odd[k];
    v[k + 4] = even[k] - odd[k];
  }
}
