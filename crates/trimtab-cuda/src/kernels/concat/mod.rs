//! The kernels of the operation concat: elements of any type are moved as their bits.

mod elements;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(elements::ConcatKernel)]
}
