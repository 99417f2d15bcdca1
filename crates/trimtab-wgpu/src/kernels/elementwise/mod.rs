//! The kernels of the operation elementwise.

mod broadcast;
pub(crate) mod digits;
pub(crate) mod shader;
mod vector;
pub(crate) mod walk;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(vector::VectorKernel), erase(broadcast::BroadcastKernel)]
}
