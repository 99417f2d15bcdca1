// A product of weights and windows, whose matrix is never written: BM channels × BN places a block, TM × TN a thread, BK products between two barriers. Macros:
// as for all; BM, BN, BK, TM, TN, PAD.
#define ACROSS (BN / TN)
#define THREADS (ACROSS * (BM / TM))
extern "C" __global__ void __launch_bounds__(THREADS) conv_implicit(CONV_TAKES, unsigned places) {
  __shared__ __align__(16) T left[BK][BM + PAD], right[BK][BN + PAD];
  unsigned t = threadIdx.x, across = t % ACROSS * TN, down = t / ACROSS * TM, group = blockIdx.z;
  unsigned row0 = blockIdx.y * BM, column0 = blockIdx.x * BN, taps = kernel_z * kernel_y * kernel_x, depth = group_in * taps;
  T sums[TM][TN];
#pragma unroll
  for (unsigned p = 0; p < TM; ++p)
#pragma unroll
    for (unsigned q = 0; q < TN; ++q) sums[p][q] = 0;
  for (unsigned start = 0; start < depth; start += BK) {
    for (unsigned e = t; e < BM * BK; e += THREADS) {
      unsigned row = e / BK, i = e % BK;
      T value = 0;
      if (row0 + row < group_out && start + i < depth)
        value = loaded(weights[(u64)(group * group_out + row0 + row) * depth + start + i]);
      left[i][row] = value;
    }
    // Neighbouring threads read neighbours: places, or channels where these lie innermost.
    for (unsigned e = t; e < BK * BN; e += THREADS) {
      unsigned i = LAST ? e % BK : e / BN, place = column0 + (LAST ? e / BK : e % BN), d = start + i;
      T value = 0;
      if (place < places && d < depth) {
        unsigned channel = LAST ? d % group_in : d / taps, tap = LAST ? d / group_in : d % taps;
        unsigned x = place % out_x, rest = place / out_x, y = rest % out_y;
        rest /= out_y;
        unsigned z = rest % out_z, image = rest / out_z;
        unsigned column = ALONG(x, x, tap % kernel_x), row = ALONG(y, y, tap / kernel_x % kernel_y);
        unsigned plane = ALONG(z, z, tap / (kernel_x * kernel_y));
        if (column < size_x && row < size_y && plane < size_z)
          value = loaded(OPERAND(image, group * group_in + channel, plane, row, column));
      }
      right[i][LAST ? e / BK : e % BN] = value;
    }
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < BK; ++i) {
      T a[TM], b[TN];
#pragma unroll
      for (unsigned p = 0; p < TM; ++p) a[p] = left[i][down + p];
#pragma unroll
      for (unsigned q = 0; q < TN; ++q) b[q] = right[i][across + q];
#pragma unroll
      for (unsigned p = 0; p < TM; ++p)
#pragma unroll
        for (unsigned q = 0; q < TN; ++q) sums[p][q] += a[p] * b[q];
    }
    __syncthreads();
  }
#pragma unroll
  for (unsigned q = 0; q < TN; ++q) {
    unsigned place = column0 + across + q;
    if (place >= places) continue;
    unsigned x = place % out_x, rest = place / out_x, y = rest % out_y;
    rest /= out_y;
    unsigned z = rest % out_z, image = rest / out_z;
#pragma unroll
    for (unsigned p = 0; p < TM; ++p)
      if (row0 + down + p < group_out) {
        unsigned channel = group * group_out + row0 + down + p;
        out[PLACE(image, channel, z, y, x)] = FINISHED(sums[p][q], channel);
      }
  }
}
