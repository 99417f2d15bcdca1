//! The kernels of the CPU, a folder an operation, a file a variant.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

#[macro_use]
mod elements;
#[macro_use]
mod halves;
#[macro_use]
mod units;

// Fuzz targets (`cfg(fuzzing)`) read texts and run no kernel: without most of them they are built in half of the time.
#[cfg(not(fuzzing))]
pub mod arg;
#[cfg(not(fuzzing))]
pub mod attention;
#[cfg(not(fuzzing))]
pub mod cast;
#[cfg(not(fuzzing))]
pub mod concat;
#[cfg(not(fuzzing))]
pub mod conv;
pub mod elementwise;
#[cfg(not(fuzzing))]
pub mod fft;
#[cfg(not(fuzzing))]
pub mod fused;
#[cfg(not(fuzzing))]
pub mod gather;
#[cfg(not(fuzzing))]
mod indices;
#[cfg(not(fuzzing))]
pub mod mask;
#[cfg(not(fuzzing))]
pub mod matmul;
#[cfg(not(fuzzing))]
pub mod pool;
#[cfg(not(fuzzing))]
pub mod put;
#[cfg(not(fuzzing))]
pub mod reduce;
#[cfg(not(fuzzing))]
mod room;
#[cfg(not(fuzzing))]
pub mod rows;
#[cfg(not(fuzzing))]
pub mod scan;
#[cfg(not(fuzzing))]
pub mod scatter;
#[cfg(not(fuzzing))]
pub mod sort;
pub mod transpose;

use crate::args::Cpu;
use crate::blas::Blas;
use crate::fftw::Fftw;
use trimtab_core::{AnyKernel, Bytes, DType, Flops, KernelTable, Work};

/// Kernels of the CPU.
pub type Kernels = Vec<Box<dyn AnyKernel<Cpu>>>;

/// What threads do together once it is handed to them, with so many elements an instruction.
fn shared_work(flops: Flops, bytes: Bytes, threads: u32, lanes: u32) -> Work {
    Work { flops, bytes, launches: u32::from(threads > 1), threads, lanes, ..Work::default() }
}

/// Why a kernel of f32, f64 and i32 does not take other elements.
fn not_of_type(dtype: DType) -> Option<trimtab_core::Decline> {
    let other = || trimtab_core::Decline::from(format!("does not compute with {dtype}"));
    (!matches!(dtype, DType::F32 | DType::F64 | DType::I32)).then(other)
}

/// Lanes of an element type in a vector of that many `f32` lanes.
fn lanes_of(dtype: DType, lanes: u32) -> u32 {
    if dtype == DType::F64 { (lanes / 2).max(1) } else { lanes }
}

/// The device's table.
#[cfg(not(fuzzing))]
pub(crate) fn table(libraries: Vec<Blas>, fftw: Option<Fftw>, users: Kernels) -> KernelTable<Cpu> {
    let others = [
        elementwise::kernels(),
        reduce::kernels(),
        transpose::kernels(),
        conv::kernels(),
        pool::kernels(),
        rows::kernels(),
        attention::kernels(),
        scan::kernels(),
        sort::kernels(),
        arg::kernels(),
        cast::kernels(),
        fft::kernels_with(fftw),
        fused::kernels(),
        gather::kernels(),
        scatter::kernels(),
        mask::kernels(),
        concat::kernels(),
        put::kernels(),
    ];
    KernelTable::new(
        matmul::kernels_with(libraries).into_iter().chain(others.into_iter().flatten()).collect(),
        users,
    )
}

/// The device's table where only texts are read.
#[cfg(fuzzing)]
pub(crate) fn table(_: Vec<Blas>, _: Option<Fftw>, users: Kernels) -> KernelTable<Cpu> {
    KernelTable::new(transpose::kernels(), users)
}
