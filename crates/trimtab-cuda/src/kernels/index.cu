// Indices as they are given. What is not there is told: the first of them counts. Macros: WIDE (indices of 64 bits), OWN (every element has one).
#if WIDE
typedef long long Index;
#else
typedef int Index;
#endif
__device__ __forceinline__ unsigned place_of(const Index* __restrict__ indices, unsigned nth, unsigned len, unsigned* status) {
  long long index = indices[nth];
  if (index < 0) index += len;
  if (index >= 0 && index < len) return (unsigned)index;
  atomicMax(status, 0xffffffffu - nth);
  return len;
}
