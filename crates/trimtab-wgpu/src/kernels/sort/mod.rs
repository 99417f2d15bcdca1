//! The kernels of sorting on a GPU: elements as whole numbers in the same order, sorted, and turned back, as on the processor.

mod bitonic;
mod insertion;
pub(super) mod keys;
pub(super) mod network;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(bitonic::BitonicKernel), erase(insertion::InsertionKernel)]
}
