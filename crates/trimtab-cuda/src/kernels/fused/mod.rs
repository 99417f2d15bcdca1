//! The kernels of recipes: elementwise ones have a kernel of their own, those with a product or a reduction are the kernels of matmul and reduce
//! with the recipe written where those store or load.

mod product;
mod recipe;
mod reduce;
mod walk;

use super::{CudaKernels, matmul, reduce as plain};
use product::Finished;
use reduce::Through;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![
        erase(walk::ChainKernel),
        erase(Through(plain::twopass::TwoPassKernel)),
        erase(Through(plain::rows::RowsKernel)),
        erase(Through(plain::columns::ColumnsKernel)),
        erase(Finished(matmul::tensor::TensorKernel)),
        erase(Finished(matmul::blocked::BlockedKernel)),
        erase(Finished(matmul::pipelined::PipelinedKernel)),
        erase(Finished(matmul::split::SplitKernel)),
        erase(Finished(matmul::matvec::MatvecKernel)),
        erase(Finished(matmul::tiled::TiledKernel)),
        erase(Finished(matmul::naive::NaiveKernel)),
    ]
}
