//! GPUs as trimtab devices over wgpu: Vulkan, Metal, DX12 from one set of WGSL kernels.

mod bench;
mod build;
mod device;
mod engine;
pub mod kernels;
mod launch;
mod memory;
mod open;
mod prepare;
mod probe;
mod program;
mod run;
mod shader;
mod speed;
mod strategy;
mod together;
mod tolerance;
mod transfer;
#[cfg(target_os = "linux")]
mod vulkan;

pub use build::full_text;
pub use device::{GpuDevice, GpuOptions, MAX_PREPARED};
pub use memory::{GpuBuffer, MAX_POOLED_BUFFERS, MAX_POOLED_BYTES, MemoryUse};
pub use program::{
    BindTarget, Binding, Dispatch, Gpu, MAX_BINDINGS, MAX_PARAMS, MAX_SCRATCH, MAX_STEPS, Needs,
    PARAMS_BINDING, Program, STATUS_DIVISION, STATUS_INDEX, STATUS_OVERFLOW, Writer, binding_number,
    spread_groups,
};
pub use shader::{BoundShader, Shader, ShaderBuffer, ShaderDevice, ShaderError, ShaderPlace};
pub use tolerance::tolerance;
pub use transfer::TransferPath;
pub use trimtab_core::{AnyKernel, erase};
