// Whole lines in shared memory, LINES of them to a block: a pass reads one half of it and writes the other. Macros: NUMBER, INVERSE, WIDTH, RADIX, LEN, LINES.
__shared__ Complex numbers[2 * LINES * LEN];
// A pass of radix R: `done` numbers apart belong together already.
template <unsigned R>
__device__ __forceinline__ void pass(const Complex* from, Complex* to, unsigned done, unsigned rest) {
  unsigned groups = rest / R;
  for (unsigned nth = threadIdx.x; nth < LINES * (LEN / R); nth += WIDTH) {
    unsigned line = nth / (LEN / R) * LEN, at = nth % (LEN / R), q = at % done, p = at / done;
    Complex v[R];
#pragma unroll
    for (unsigned k = 0; k < R; ++k) v[k] = from[line + q + done * (p + groups * k)];
    small<R>(v);
    to[line + q + done * R * p] = v[0];
#pragma unroll
    for (unsigned k = 1; k < R; ++k) to[line + q + done * (R * p + k)] = v[k] * turn(p * k, rest);
  }
}
extern "C" __global__ void __launch_bounds__(WIDTH)
fft_local(const Complex* in, Complex* out, unsigned lines, unsigned inner, T scale) {
  unsigned first = blockIdx.x * LINES;
  // Neighbouring threads read neighbours: of a line, or neighbouring lines.
#define EACH_NUMBER(...)                                                                                   \
  for (unsigned nth = threadIdx.x; nth < LINES * LEN; nth += WIDTH) {                                      \
    unsigned line = inner > 1 ? nth % LINES : nth / LEN, at = inner > 1 ? nth / LINES : nth % LEN;         \
    unsigned id = first + line;                                                                            \
    u64 place = (u64)(id / inner) * LEN * inner + (u64)at * inner + id % inner;                            \
    __VA_ARGS__                                                                                            \
  }
  EACH_NUMBER({
    Complex value = {0, 0};
    if (id < lines) value = in[place];
    numbers[line * LEN + at] = value;
  })
  unsigned done = 1, rest = LEN;
  Complex *from = numbers, *to = numbers + LINES * LEN;
  while (rest > 1) {
    __syncthreads();
    unsigned by;
#if RADIX >= 8 && LEN >= 8
    if (rest % 8 == 0) {
      pass<8>(from, to, done, rest);
      by = 8;
    } else
#endif
#if RADIX >= 4 && LEN >= 4
        if (rest % 4 == 0) {
      pass<4>(from, to, done, rest);
      by = 4;
    } else
#endif
    {
      pass<2>(from, to, done, rest);
      by = 2;
    }
    done *= by;
    rest /= by;
    Complex* other = from;
    from = to;
    to = other;
  }
  __syncthreads();
  EACH_NUMBER({
    if (id < lines) out[place] = scale * from[line * LEN + at];
  })
}
