// Elements as whole numbers in the same order, and what is sorted of them: keys alone, or keys with the indices of their elements, equal ones by index; then
// both zeros are equal. Macros: NUMBER, DESCENDING, INDEXED, NONE_FIRST (what is no number comes first of all, not last).
#if NUMBER == 0
typedef unsigned long long Key;
#define SIGN 63
#define SIZE 0x7fffffffffffffffULL
#define INFINITE 0x7ff0000000000000ULL
#else
typedef unsigned Key;
#define SIGN 31
#define SIZE 0x7fffffffu
#define INFINITE 0x7f800000u
#endif
#define LAST (~(Key)0)
#if DESCENDING
#define TURNED(key) (~(key))
#else
#define TURNED(key) (key)
#endif
__device__ __forceinline__ Key key_of(E x) {
#if NUMBER >= 4
  return TURNED((Key)x ^ (Key)1 << SIGN);
#else
#if NUMBER == 0
  Key bits = __double_as_longlong(x);
#else
  Key bits = __float_as_uint(loaded(x));
#endif
  if ((bits & SIZE) > INFINITE) return NONE_FIRST ? 0 : LAST;
#if INDEXED
  if ((bits & SIZE) == 0) bits = 0;
#endif
  return TURNED(bits >> SIGN ? ~bits : bits | (Key)1 << SIGN);
#endif
}
__device__ __forceinline__ E element_of(Key key) {
#if NUMBER >= 4
  return (E)(TURNED(key) ^ (Key)1 << SIGN);
#else
  Key bits = TURNED(key);
  bits = bits >> SIGN ? bits & SIZE : ~bits;
  // Any that is no number.
  if (key == LAST) bits = INFINITE | (Key)1 << (SIGN - 9 - (SIGN == 63 ? 3 : 0));
#if NUMBER == 0
  return __longlong_as_double(bits);
#else
  return stored(__uint_as_float(bits));
#endif
#endif
}
#if !INDEXED
typedef Key Entry;
typedef E Result;
#define END LAST
__device__ __forceinline__ Entry entry_of(E x, unsigned at) { return key_of(x); }
__device__ __forceinline__ bool is_behind(Entry a, Entry b) { return a > b; }
__device__ __forceinline__ Result result_of(Entry entry) { return element_of(entry); }
#elif NUMBER == 0
struct __align__(16) Entry {
  Key key;
  u64 at;
};
typedef long long Result;
#define END (Entry{LAST, ~0ULL})
__device__ __forceinline__ Entry entry_of(E x, unsigned at) { return Entry{key_of(x), at}; }
__device__ __forceinline__ bool is_behind(Entry a, Entry b) { return a.key > b.key || (a.key == b.key && a.at > b.at); }
__device__ __forceinline__ Result result_of(Entry entry) { return entry.at; }
__device__ __forceinline__ Entry from_lane(Entry entry, unsigned o) {
  return Entry{__shfl_xor_sync(0xffffffffu, entry.key, o), __shfl_xor_sync(0xffffffffu, entry.at, o)};
}
#else
typedef u64 Entry;
typedef long long Result;
#define END (~0ULL)
__device__ __forceinline__ Entry entry_of(E x, unsigned at) { return (u64)key_of(x) << 32 | at; }
__device__ __forceinline__ bool is_behind(Entry a, Entry b) { return a > b; }
__device__ __forceinline__ Result result_of(Entry entry) { return entry & 0xffffffffu; }
__device__ __forceinline__ Entry from_lane(Entry entry, unsigned o) { return __shfl_xor_sync(0xffffffffu, entry, o); }
#endif
