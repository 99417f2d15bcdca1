// Elements of one type as those of another. FROM and TO: 0 f64, 1 f32, 2 f16, 3 bf16, 4 i32, 5 i64, 6 u8, 7 i8, 8 i16, 9 u32, 10 truth. Macros: FROM, TO, WIDTH, EACH.
#define STORED(of) STORED_(of)
#define STORED_(of) STORED_##of
#define STORED_0 double
#define STORED_1 float
#define STORED_2 unsigned short
#define STORED_3 unsigned short
#define STORED_4 int
#define STORED_5 long long
#define STORED_6 unsigned char
#define STORED_7 signed char
#define STORED_8 short
#define STORED_9 unsigned
#define STORED_10 unsigned char
typedef STORED(FROM) From;
typedef STORED(TO) To;
// What is computed with: halves as floats, everything else as it is.
#if FROM == 2 || FROM == 3
typedef float Value;
#else
typedef From Value;
#endif
__device__ __forceinline__ Value value_of(From x) {
#if FROM == 2
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x));
  return out;
#elif FROM == 3
  return __uint_as_float((unsigned)x << 16);
#elif FROM == 10
  return x != 0;
#else
  return x;
#endif
}
// The nearest float towards zero, with its last bit set where that was not exact: rounding that to fewer digits is as rounding once.
__device__ __forceinline__ float to_odd(Value x) {
#if FROM == 0
  float near = __double2float_rz(x);
  return x == x && (double)near != x ? __uint_as_float(__float_as_uint(near) | 1) : near;
#elif FROM == 5
  float near = __ll2float_rz(x);
  return __float2ll_rz(near) != x ? __uint_as_float(__float_as_uint(near) | 1) : near;
#elif FROM == 4
  float near = __int2float_rz(x);
  return __float2int_rz(near) != x ? __uint_as_float(__float_as_uint(near) | 1) : near;
#elif FROM == 9
  float near = __uint2float_rz(x);
  return __float2uint_rz(near) != x ? __uint_as_float(__float_as_uint(near) | 1) : near;
#else
  return x;
#endif
}
// Whole numbers of floats: what is past the range becomes its end, what is not a number zero.
#if FROM <= 3 && TO >= 4 && TO <= 9
#if TO == 4
#define LEAST (-2147483647 - 1)
#define MOST 2147483647
#define PAST 2147483648.0
#elif TO == 5
#define LEAST (-9223372036854775807LL - 1)
#define MOST 9223372036854775807LL
#define PAST 9223372036854775808.0
#elif TO == 6
#define LEAST 0
#define MOST 255
#define PAST 256.0
#elif TO == 7
#define LEAST (-128)
#define MOST 127
#define PAST 128.0
#elif TO == 8
#define LEAST (-32768)
#define MOST 32767
#define PAST 32768.0
#else
#define LEAST 0
#define MOST 4294967295u
#define PAST 4294967296.0
#endif
#endif
__device__ __forceinline__ To made_of(Value x) {
#if TO == 10
  return x != (Value)0;
#elif TO == 2
  To out;
  float near = to_odd(x);
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(near));
  return out;
#elif TO == 3
  float near = to_odd(x);
  unsigned bits = __float_as_uint(near);
  return near != near ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
#elif FROM <= 3 && TO >= 4
  if (x != x) return 0;
  if (x >= (Value)PAST) return MOST;
  if (x <= (Value)LEAST) return LEAST;
  return (To)x;
#else
  return (To)x;
#endif
}
extern "C" __global__ void __launch_bounds__(WIDTH)
cast_elements(const From* __restrict__ in, To* __restrict__ out, unsigned n) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
#if FROM == TO
    if (i < n) out[i] = in[i];
#else
    if (i < n) out[i] = made_of(value_of(in[i]));
#endif
  }
}
