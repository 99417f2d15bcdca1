//! The kernels of the operation matmul.

mod layout;
mod naive;
mod tiled;

use crate::erase::{AnyKernel, erase};

/// In order of preference.
pub fn kernels() -> Vec<Box<dyn AnyKernel>> {
    vec![erase(tiled::TiledKernel), erase(naive::NaiveKernel)]
}
