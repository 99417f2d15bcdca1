//! The kernels of the operation pool, of floating-point numbers.

mod direct;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(direct::PoolKernel)]
}
