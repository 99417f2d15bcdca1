// Elements as they are stored (E) and as they are computed with (T). Macros: NUMBER (0 f64, 1 f32, 2 f16, 3 bf16).
#if NUMBER == 0
typedef double E, T;
#define F(name) name
#else
#if NUMBER == 1
typedef float E;
#else
typedef unsigned short E;
#endif
typedef float T;
#define F(name) name##f
#endif
typedef unsigned long long u64;
__device__ __forceinline__ T loaded(E x) {
#if NUMBER == 2
  T out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x));
  return out;
#elif NUMBER == 3
  return __uint_as_float((unsigned)x << 16);
#else
  return x;
#endif
}
__device__ __forceinline__ E stored(T x) {
#if NUMBER == 2
  E out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(x));
  return out;
#elif NUMBER == 3
  // By hand: the instruction is of sm_80.
  unsigned bits = __float_as_uint(x);
  return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#else
  return x;
#endif
}
