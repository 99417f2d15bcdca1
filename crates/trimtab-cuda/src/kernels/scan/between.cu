// What the parts before each part add up to: a thread a line. Macros: NUMBER, OP, EXCLUSIVE, WIDTH.
extern "C" __global__ void __launch_bounds__(WIDTH) scan_between(State* __restrict__ states, unsigned lines, unsigned parts) {
  unsigned line = blockIdx.x * WIDTH + threadIdx.x;
  if (line >= lines) return;
  State before = empty();
  for (unsigned part = 0; part < parts; ++part) {
    State* place = states + (u64)line * parts + part;
    State own = *place;
    *place = before;
    before = merge(before, own);
  }
}
