// Threads walk over the elements, neighbours over neighbours. Macros: SINGLE, WIDTH, EACH, OP(x, y), PAIRS.
#if SINGLE
typedef float T;
#define F(name) name##f
#else
typedef double T;
#define F(name) name
#endif
#define NAN_WINS(x, y, pick) ((x) != (x) ? (x) : (y) != (y) ? (y) : (pick))
#define NEG(x, y) (-(x))
#define ABS(x, y) F(fabs)(x)
#define EXP(x, y) F(exp)(x)
#define LOG(x, y) F(log)(x)
#define SQRT(x, y) F(sqrt)(x)
#define TANH(x, y) F(tanh)(x)
#define SIGMOID(x, y) ((T)1 / ((T)1 + F(exp)(-(x))))
#define RELU(x, y) ((x) < (T)0 ? (T)0 : (x))
#define GELU(x, y) ((T)0.5 * (x) * ((T)1 + F(tanh)((T)0.7978845608028653559 * ((x) + (T)0.044715 * (x) * (x) * (x)))))
#define ADD(x, y) ((x) + (y))
#define SUB(x, y) ((x) - (y))
#define MUL(x, y) ((x) * (y))
#define DIV(x, y) ((x) / (y))
#define MIN(x, y) NAN_WINS(x, y, (x) < (y) ? (x) : (y))
#define MAX(x, y) NAN_WINS(x, y, (x) > (y) ? (x) : (y))
#define POW(x, y) F(pow)(x, y)

extern "C" __global__ void __launch_bounds__(WIDTH)
elementwise_walk(const T* __restrict__ lhs,
#if PAIRS
                 const T* __restrict__ rhs,
#endif
                 T* __restrict__ out, unsigned n) {
  unsigned first = blockIdx.x * (WIDTH * EACH) + threadIdx.x;
#pragma unroll
  for (unsigned e = 0; e < EACH; ++e) {
    unsigned i = first + e * WIDTH;
    if (i < n) {
      T x = lhs[i];
#if PAIRS
      T y = rhs[i];
#endif
      out[i] = OP(x, y);
    }
  }
}
