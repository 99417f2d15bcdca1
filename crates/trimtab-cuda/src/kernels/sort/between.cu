// Pairs that lie further apart than a tile is long. Macros: as for keys; WIDTH.
extern "C" __global__ void __launch_bounds__(WIDTH)
sort_between(Entry* __restrict__ entries, unsigned pairs, unsigned filled, unsigned run, unsigned apart) {
  unsigned pair = blockIdx.x * WIDTH + threadIdx.x;
  if (pair >= pairs) return;
  unsigned low = pair % apart, nth = (pair - low) * 2 + low;
  Entry a = entries[nth], b = entries[nth + apart];
  bool backwards = (nth % filled & run) != 0;
  if (is_behind(a, b) != backwards) {
    entries[nth] = b;
    entries[nth + apart] = a;
  }
}
