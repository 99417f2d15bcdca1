//! The kernels of the CPU, a folder an operation, a file a variant.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

#[macro_use]
mod halves;

pub mod elementwise;
pub mod fused;
pub mod matmul;
pub mod reduce;
pub mod transpose;

use crate::args::Cpu;
use crate::blas::Blas;
use trimtab_core::{AnyKernel, KernelTable};

/// Kernels of the CPU.
pub type Kernels = Vec<Box<dyn AnyKernel<Cpu>>>;

/// The device's table.
pub(crate) fn table(libraries: Vec<Blas>, users: Kernels) -> KernelTable<Cpu> {
    let others = [elementwise::kernels(), reduce::kernels(), transpose::kernels(), fused::kernels()];
    KernelTable::new(
        matmul::kernels_with(libraries).into_iter().chain(others.into_iter().flatten()).collect(),
        users,
    )
}
