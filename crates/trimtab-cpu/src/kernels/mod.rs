//! The kernels of the CPU, a folder an operation, a file a variant.

pub mod elementwise;
pub mod matmul;
pub mod reduce;
pub mod transpose;
