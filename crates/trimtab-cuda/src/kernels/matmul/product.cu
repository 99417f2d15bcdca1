// What all products take: operands by strides, and what becomes of a sum before it is stored.
#ifndef MORE
#define MORE
#endif
#ifndef FINISHED
#define FINISHED(sum, row, column) (sum)
#endif
#define PRODUCT_TAKES(stored_as)                                                                                           \
  const E *__restrict__ lhs, const E *__restrict__ rhs, stored_as *__restrict__ out, unsigned m, unsigned n, unsigned k,   \
      unsigned left_row, unsigned left_step, unsigned right_step, unsigned right_column, u64 left_matrix, u64 right_matrix, \
      u64 out_matrix MORE
#define LEFT(row, i) lhs[(u64)(row) * left_row + (u64)(i) * left_step]
#define RIGHT(i, column) rhs[(u64)(i) * right_step + (u64)(column) * right_column]
#define STORE(matrix, row, column, sum) \
  out[(matrix) * out_matrix + (u64)(row) * n + (column)] = stored(FINISHED(sum, row, column))
