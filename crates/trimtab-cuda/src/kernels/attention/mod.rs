//! Attention on floating-point numbers: scores are never written.

mod online;

use super::CudaKernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(online::TeamAttention)]
}
