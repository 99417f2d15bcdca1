//! The kernels of the operation cast: between all real types.

mod elements;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(elements::CastKernel)]
}
