//! What authors of kernels, of devices and of tools need: the crates that trimtab is made of, at the version it uses.
//!
//! Programs that compute need none of it. Here more may change between versions than at the top.

/// The nouns and the traits kernel authors implement.
pub use trimtab_core as core;
/// The CPU device: what its kernels get.
pub use trimtab_cpu as cpu;
/// NVIDIA GPUs through CUDA.
#[cfg(feature = "cuda")]
pub use trimtab_cuda as cuda;
/// Element types, made-up operands, the comparison with a reference.
pub use trimtab_operands as operands;
/// Planning: decisions, plans, settings.
pub use trimtab_plan as plan;
/// Tuning anything: spaces, studies, commands.
pub use trimtab_study as study;
/// Measuring: rules, races, statistics.
pub use trimtab_tune as tune;
/// GPUs: what their kernels write.
#[cfg(feature = "wgpu")]
pub use trimtab_wgpu as wgpu;
/// Remembering: facts, import, export.
pub use trimtab_wisdom as wisdom;
