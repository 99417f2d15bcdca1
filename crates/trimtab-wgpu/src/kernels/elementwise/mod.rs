//! The kernels of the operation elementwise.

mod broadcast;
pub(crate) mod digits;
pub(crate) mod shader;
mod vector;
pub(crate) mod walk;

use crate::erase::{AnyKernel, erase};

/// In order of preference.
pub fn kernels() -> Vec<Box<dyn AnyKernel>> {
    vec![erase(vector::VectorKernel), erase(broadcast::BroadcastKernel)]
}
