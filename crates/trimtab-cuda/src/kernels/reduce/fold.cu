// How values become one. Sums carry what rounding left out (Neumaier), so that long ones are as exact as short ones.
#if SINGLE
typedef float T;
#define F(name) name##f
#else
typedef double T;
#define F(name) name
#endif
struct Fold {
  T value, rest;
  __device__ void start(T first) { value = OP < 2 ? (T)0 : first, rest = 0; }
  __device__ void add(T x) {
#if OP < 2
    T sum = value + x;
    rest += F(fabs)(value) >= F(fabs)(x) ? (value - sum) + x : (x - sum) + value;
    value = sum;
#else
    bool better = OP == 2 ? x < value : x > value;
    if (x != x || (value == value && better)) value = x;
#endif
  }
  // What rounding left out means nothing where the sum is not finite.
  __device__ T folded() const {
    T all = value + rest;
    return all == all ? all : value;
  }
  __device__ T result(unsigned count) const { return OP == 1 ? folded() / (T)count : folded(); }
};
