// Whole numbers in the place of floating-point ones, see `number.cu`. Macros: NUMBER (4 i32, 5 i64, 6 u8, 7 i8, 8 i16, 9 u32).
#if NUMBER == 4
typedef int E;
#elif NUMBER == 5
typedef long long E;
#elif NUMBER == 6
typedef unsigned char E;
#elif NUMBER == 7
typedef signed char E;
#elif NUMBER == 8
typedef short E;
#else
typedef unsigned E;
#endif
typedef E T;
typedef unsigned long long u64;
__device__ __forceinline__ T loaded(E x) { return x; }
__device__ __forceinline__ E stored(T x) { return x; }
