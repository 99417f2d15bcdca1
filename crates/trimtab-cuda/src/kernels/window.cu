// A window over the space of an operand: depth, height, width. Sizes of the operand's space and the result's, of the window, and how it moves.
#define WINDOW                                                                                                            \
  unsigned size_z, unsigned size_y, unsigned size_x, unsigned out_z, unsigned out_y, unsigned out_x, unsigned kernel_z,   \
      unsigned kernel_y, unsigned kernel_x, unsigned stride_z, unsigned stride_y, unsigned stride_x, unsigned pad_z,      \
      unsigned pad_y, unsigned pad_x, unsigned dilation_z, unsigned dilation_y, unsigned dilation_x
// Where element `tap` of the window at `at` lies along an axis; before the beginning it wraps, which is past the end.
#define ALONG(axis, at, tap) ((at) * stride_##axis + (tap) * dilation_##axis - pad_##axis)
