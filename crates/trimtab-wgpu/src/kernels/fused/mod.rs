//! The kernels of recipes: elementwise ones have a kernel of their own, those with a product or a reduction are the kernels of
//! matmul and reduce with the recipe written where those store or load.

mod product;
mod recipe;
mod reduce;
mod vector;

use crate::kernels::Kernels;
use crate::kernels::{matmul, reduce as plain};
use product::Finished;
use reduce::Through;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![
        erase(vector::VectorKernel),
        erase(Through(plain::twopass::TwoPassKernel)),
        erase(Through(plain::serial::SerialKernel)),
        erase(Through(plain::subgroup::SubgroupKernel)),
        erase(Through(plain::tree::TreeKernel)),
        erase(Finished(matmul::blocked::BlockedKernel)),
        erase(Finished(matmul::direct::DirectKernel)),
        erase(Finished(matmul::matvec::MatvecKernel)),
        erase(Finished(matmul::tiled::TiledKernel)),
        erase(Finished(matmul::naive::NaiveKernel)),
    ]
}
