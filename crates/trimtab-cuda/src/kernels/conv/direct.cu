// CHANNELS × PLACES results a thread, straight from memory: a weight is read once for the places, an element once for the channels. Neighbouring threads have
// neighbouring places, or neighbouring channels where these lie innermost. Macros: as for all; WIDTH, CHANNELS, PLACES.
extern "C" __global__ void __launch_bounds__(WIDTH) conv_direct(CONV_TAKES, unsigned items, unsigned along, unsigned over) {
  unsigned rest = blockIdx.x * WIDTH + threadIdx.x;
  if (rest >= items) return;
#if LAST
  unsigned first = rest % over * CHANNELS;
  rest /= over;
  unsigned group = rest % groups;
  rest /= groups;
#endif
  unsigned x = rest % along * PLACES;
  rest /= along;
  unsigned y = rest % out_y;
  rest /= out_y;
  unsigned z = rest % out_z;
  rest /= out_z;
#if !LAST
  unsigned first = rest % over * CHANNELS;
  rest /= over;
  unsigned group = rest % groups;
  rest /= groups;
#endif
  unsigned image = rest, taps = kernel_z * kernel_y * kernel_x, depth = group_in * taps;
  // Channels behind the last stand for the last: read again, never written.
  u64 rows[CHANNELS];
#pragma unroll
  for (unsigned i = 0; i < CHANNELS; ++i)
    rows[i] = (u64)(group * group_out + (first + i < group_out ? first + i : group_out - 1)) * depth;
  T sums[CHANNELS][PLACES];
#pragma unroll
  for (unsigned i = 0; i < CHANNELS; ++i)
#pragma unroll
    for (unsigned j = 0; j < PLACES; ++j) sums[i][j] = 0;
  for (unsigned a = 0; a < kernel_z; ++a) {
    unsigned plane = ALONG(z, z, a);
    if (plane >= size_z) continue;
    for (unsigned b = 0; b < kernel_y; ++b) {
      unsigned row = ALONG(y, y, b);
      if (row >= size_y) continue;
      for (unsigned c = 0; c < kernel_x; ++c) {
        unsigned tap = (a * kernel_y + b) * kernel_x + c;
        for (unsigned channel = 0; channel < group_in; ++channel) {
          T values[PLACES];
#pragma unroll
          for (unsigned j = 0; j < PLACES; ++j) {
            unsigned column = ALONG(x, x + j, c);
            values[j] = 0;
            if (column < size_x) values[j] = loaded(OPERAND(image, group * group_in + channel, plane, row, column));
          }
          unsigned at = LAST ? tap * group_in + channel : channel * taps + tap;
#pragma unroll
          for (unsigned i = 0; i < CHANNELS; ++i) {
            T weight = loaded(weights[rows[i] + at]);
#pragma unroll
            for (unsigned j = 0; j < PLACES; ++j) sums[i][j] += weight * values[j];
          }
        }
      }
    }
  }
#pragma unroll
  for (unsigned i = 0; i < CHANNELS; ++i)
#pragma unroll
    for (unsigned j = 0; j < PLACES; ++j)
      if (first + i < group_out && x + j < out_x) {
        unsigned channel = group * group_out + first + i;
        out[PLACE(image, channel, z, y, x + j)] = FINISHED(sums[i][j], channel);
      }
}
