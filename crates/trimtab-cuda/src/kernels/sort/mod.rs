//! The kernels of sorting: elements as whole numbers in the same order, sorted by comparing in fixed places, and turned back.

mod bitonic;
pub(super) mod network;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(bitonic::BitonicKernel)]
}
