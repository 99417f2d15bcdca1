// Elements that are moved as their bits. Macros: BYTES.
#if BYTES == 1
typedef unsigned char T;
#elif BYTES == 2
typedef unsigned short T;
#elif BYTES == 4
typedef unsigned T;
#elif BYTES == 8
typedef unsigned long long T;
#else
struct __align__(16) T {
  unsigned long long low, high;
};
#endif
typedef unsigned long long u64;
