// A tile in shared memory is sorted, or merged into longer runs. Lines are filled up to a power of two with what comes last; a tile lies wherever it lies among
// all of them: a part of a line, or several. Macros: as for keys; WIDTH, TILE, FIRST (elements are read), FINAL (results are written).
extern "C" __global__ void __launch_bounds__(WIDTH)
sort_tile(const E* __restrict__ in, Result* __restrict__ out, Entry* __restrict__ entries, unsigned lines, unsigned len, unsigned inner,
          unsigned count, unsigned filled, unsigned first_run, unsigned last_run) {
  __shared__ Entry tile[TILE];
  unsigned begin = blockIdx.x * TILE;
  for (unsigned nth = threadIdx.x; nth < TILE; nth += WIDTH) {
#if FIRST
    unsigned line = (begin + nth) / filled, at = (begin + nth) % filled;
    Entry entry = END;
    if (line < lines && at < len) entry = entry_of(in[((u64)(line / inner) * len + at) * inner + line % inner], at);
    tile[nth] = entry;
#else
    tile[nth] = entries[begin + nth];
#endif
  }
  for (unsigned run = first_run; run <= last_run; run *= 2)
    for (unsigned apart = (run < TILE ? run : TILE) / 2; apart > 0; apart /= 2) {
      __syncthreads();
      for (unsigned pair = threadIdx.x; pair < TILE / 2; pair += WIDTH) {
        unsigned low = pair % apart, nth = (pair - low) * 2 + low;
        Entry a = tile[nth], b = tile[nth + apart];
        // The second half of a longer run is sorted backwards.
        bool backwards = ((begin + nth) % filled & run) != 0;
        if (is_behind(a, b) != backwards) {
          tile[nth] = b;
          tile[nth + apart] = a;
        }
      }
    }
  __syncthreads();
  for (unsigned nth = threadIdx.x; nth < TILE; nth += WIDTH) {
#if FINAL
    unsigned line = (begin + nth) / filled, at = (begin + nth) % filled;
    if (line < lines && at < count) out[((u64)(line / inner) * count + at) * inner + line % inner] = result_of(tile[nth]);
#else
    entries[begin + nth] = tile[nth];
#endif
  }
}
