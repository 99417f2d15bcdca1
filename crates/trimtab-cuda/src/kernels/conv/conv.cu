// What all convolutions take: operand, weights, bias, result, channels of a group of the operand and of the result, groups, the window. Macros: NUMBER, LAST
// (channels behind the space), BIAS, ACT (a function of each result, or nothing).
#define CONV_TAKES                                                                                              \
  const E *__restrict__ in, const E *__restrict__ weights, const E *__restrict__ bias, E *__restrict__ out,     \
      unsigned group_in, unsigned group_out, unsigned groups, WINDOW
#if LAST
#define OPERAND(image, channel, z, y, x) \
  in[((((u64)(image) * size_z + (z)) * size_y + (y)) * size_x + (x)) * (group_in * groups) + (channel)]
#define PLACE(image, channel, z, y, x) \
  (((((u64)(image) * out_z + (z)) * out_y + (y)) * out_x + (x)) * (group_out * groups) + (channel))
#else
#define OPERAND(image, channel, z, y, x) \
  in[((((u64)(image) * (group_in * groups) + (channel)) * size_z + (z)) * size_y + (y)) * size_x + (x)]
#define PLACE(image, channel, z, y, x) \
  (((((u64)(image) * (group_out * groups) + (channel)) * out_z + (z)) * out_y + (y)) * out_x + (x))
#endif
#if BIAS
#define FINISHED(sum, channel) stored(ACT((sum) + loaded(bias[channel])))
#else
#define FINISHED(sum, channel) stored(ACT(sum))
#endif
