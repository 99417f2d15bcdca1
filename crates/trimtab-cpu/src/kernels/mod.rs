//! The kernels of the CPU, a folder an operation, a file a variant.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

#[macro_use]
mod halves;

pub mod conv;
pub mod elementwise;
pub mod fused;
pub mod matmul;
pub mod pool;
pub mod reduce;
mod room;
pub mod rows;
pub mod scan;
pub mod sort;
pub mod transpose;

use crate::args::Cpu;
use crate::blas::Blas;
use trimtab_core::{AnyKernel, Bytes, DType, Flops, KernelTable, Work};

/// Kernels of the CPU.
pub type Kernels = Vec<Box<dyn AnyKernel<Cpu>>>;

/// What threads do together once it is handed to them, with so many elements an instruction.
fn shared_work(flops: Flops, bytes: Bytes, threads: u32, lanes: u32) -> Work {
    Work { flops, bytes, launches: u32::from(threads > 1), threads, lanes, ..Work::default() }
}

/// Why a kernel does not take 16-bit floats.
fn not_of_halves(dtype: DType) -> Option<trimtab_core::Decline> {
    let half = || trimtab_core::Decline::because("does not compute with f16; that is the reference's");
    (dtype == DType::F16).then(half)
}

/// Lanes of an element type in a vector of that many `f32` lanes.
fn lanes_of(dtype: DType, lanes: u32) -> u32 {
    if dtype == DType::F64 { (lanes / 2).max(1) } else { lanes }
}

/// The device's table.
pub(crate) fn table(libraries: Vec<Blas>, users: Kernels) -> KernelTable<Cpu> {
    let others = [
        elementwise::kernels(),
        reduce::kernels(),
        transpose::kernels(),
        conv::kernels(),
        pool::kernels(),
        rows::kernels(),
        scan::kernels(),
        sort::kernels(),
        fused::kernels(),
    ];
    KernelTable::new(
        matmul::kernels_with(libraries).into_iter().chain(others.into_iter().flatten()).collect(),
        users,
    )
}
