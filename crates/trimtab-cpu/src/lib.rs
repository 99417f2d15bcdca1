//! The CPU as a trimtab device: probe, kernels, the BLAS found on the machine, machine state.
//!
//! Unsafe code is confined to SIMD, foreign libraries, the thread pool and shared output slices, each with its reason.

mod args;
mod bench;
mod blas;
mod check;
mod device;
mod disjoint;
mod erase;
pub mod kernels;
mod operands;
mod pool;
pub mod probe;
mod simd;
mod standin;

pub use args::{Args, Cpu, Element, Slice, SliceMut, Typed};
pub use check::tolerance;
pub use device::{CpuDevice, CpuOptions};
pub use erase::{AnyKernel, erase};
pub use operands::{Data, Operands};
pub use pool::{MAX_THREADS, Pool};
pub use probe::Watch;
