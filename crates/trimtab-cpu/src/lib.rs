//! The CPU as a trimtab device: probe, kernels, the BLAS found on the machine, machine state.
//!
//! Unsafe code is confined to SIMD, foreign libraries, the thread pool and shared output slices, each with its reason.

mod args;
mod disjoint;
mod erase;
pub mod kernels;
mod pool;
mod simd;

pub use args::{Args, Cpu, Element, Slice, SliceMut, Typed};
pub use erase::{AnyKernel, erase};
pub use pool::{MAX_THREADS, Pool};
