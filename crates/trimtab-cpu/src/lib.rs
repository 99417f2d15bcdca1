//! The CPU as a trimtab device: probe, kernels, the BLAS found on the machine, machine state.
//!
//! Unsafe code is confined to SIMD, foreign libraries, the thread pool, shared output slices, child processes and a file's memory, each with its reason.
#![cfg_attr(
    fuzzing,
    allow(dead_code, unused_macros, unused_imports, reason = "most kernels are left out there")
)]

mod args;
mod bench;
mod blas;
mod device;
mod disjoint;
mod ending;
mod fftw;
mod isolate;
pub mod kernels;
mod pool;
pub mod probe;
mod process;
mod running;
mod simd;
mod sync;

pub use args::{Args, Cpu, Launched, Typed};
pub use device::{CpuDevice, CpuOptions, Detached};
pub use isolate::Isolation;
pub use pool::{MAX_THREADS, Pool};
pub use probe::Watch;
pub use running::{Entry, Inside, Ran, Running};
pub use trimtab_core::{AnyKernel, erase};
pub use trimtab_operands::{Data, Element, Operands, Slice, SliceMut, tolerance};
