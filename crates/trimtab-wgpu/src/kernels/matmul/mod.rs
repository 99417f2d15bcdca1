//! The kernels of the operation matmul.

mod blocked;
mod direct;
mod layout;
mod matvec;
mod naive;
mod registers;
mod subgroup;
mod tiled;

use crate::erase::{AnyKernel, erase};

/// In order of preference.
pub fn kernels() -> Vec<Box<dyn AnyKernel>> {
    vec![
        erase(blocked::BlockedKernel),
        erase(direct::DirectKernel),
        erase(matvec::MatvecKernel),
        erase(subgroup::SubgroupKernel),
        erase(tiled::TiledKernel),
        erase(naive::NaiveKernel),
    ]
}
