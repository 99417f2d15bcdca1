//! The kernels of the operation transpose: planes of elements of one to eight bytes, one after the other; any permutation, element by element.

mod tiled;
mod walk;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(tiled::TransposeKernel), erase(walk::PermuteKernel)]
}
