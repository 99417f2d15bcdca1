// A place in the result as one digit an axis, the last axis first; each axis has a size and a step for each of some operands. Macros: RANK; STEPS, AXES and
// DIGITS are written in front.
struct Axis {
  unsigned size, steps[STEPS];
};
