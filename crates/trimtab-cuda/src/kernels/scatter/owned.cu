// A thread has an element of the result, looks at all indices of its line in order and adds what is its own. Macros: NUMBER, WIDE, OWN, WIDTH, EACH.
extern "C" __global__ void __launch_bounds__(WIDTH)
scatter_owned(const E* __restrict__ in, const Index* __restrict__ indices, const E* __restrict__ added, E* __restrict__ out, unsigned* status,
              unsigned n, unsigned inner, unsigned count, unsigned len) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i >= n) return;
    unsigned own = i / inner % len;
    u64 from = (u64)(i / inner / len) * count * inner + i % inner;
    T sum = loaded(in[i]);
    for (unsigned nth = 0; nth < count; ++nth) {
      u64 source = from + (u64)nth * inner;
      if (place_of(indices, OWN ? (unsigned)source : nth, len, status) == own) sum += loaded(added[source]);
    }
    out[i] = stored(sum);
  }
}
