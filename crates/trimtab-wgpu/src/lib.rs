//! GPUs as trimtab devices over wgpu: Vulkan, Metal, DX12 from one set of WGSL kernels.

mod build;
mod device;
mod engine;
mod erase;
pub mod kernels;
mod open;
mod probe;
mod program;
mod tolerance;

pub use build::full_text;
pub use device::GpuDevice;
pub use erase::{AnyKernel, erase};
pub use program::{
    Binding, Gpu, MAX_PARAMS, MAX_SCRATCH, MAX_STEPS, Needs, PARAMS_BINDING, Place, Program, STATUS_DIVISION,
    STATUS_OVERFLOW, Step, Writer, spread_groups,
};
pub use tolerance::tolerance;
