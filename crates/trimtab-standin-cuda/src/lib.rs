//! A stand-in for NVIDIA's driver: the functions of `libcuda` that trimtab-cuda calls, with kernels run by trimtab-ptx, and those of cuBLAS,
//! cuBLASLt and NVML.
//!
//! Tests load it by its path. Beside the driver's functions it has some of its own to say what it should be like (`control`). As with the
//! real driver, a kernel's fault shows in the calls after the launch, and costs the device; one that never ends keeps its stream busy. Times
//! are made up: a nanosecond for each instruction of a warp.

mod control;
mod cublas;
mod cublaslt;
mod device;
mod graphs;
mod memory;
mod modules;
mod nvml;
mod state;

pub use control::{
    standin_count, standin_fail, standin_last_fault, standin_reset, standin_throttled, standin_unified,
};
