//! The kernels of the CPU, a folder an operation, a file a variant.
