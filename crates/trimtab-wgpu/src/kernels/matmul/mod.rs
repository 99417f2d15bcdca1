//! The kernels of the operation matmul.

pub(crate) mod blocked;
pub(crate) mod direct;
pub(crate) mod halves;
pub(crate) mod layout;
pub(crate) mod matvec;
pub(crate) mod naive;
pub(crate) mod registers;
pub(crate) mod subgroup;
pub(crate) mod tiled;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![
        erase(blocked::BlockedKernel),
        erase(direct::DirectKernel),
        erase(matvec::MatvecKernel),
        erase(subgroup::SubgroupKernel),
        erase(tiled::TiledKernel),
        erase(naive::NaiveKernel),
        erase(halves::HalvesKernel),
    ]
}
