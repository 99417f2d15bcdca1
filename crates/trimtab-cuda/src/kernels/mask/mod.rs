//! The kernels of the operation mask: comparisons of real numbers, and choices between elements of any type.

mod elements;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(elements::MaskKernel)]
}
