//! The kernels of the operation elementwise: one or two dense operands of f32 or f64 and equal shape.

mod walk;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(walk::WalkKernel)]
}
