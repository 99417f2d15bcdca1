//! A kernel in a file as candidates of a study: WGSL, OpenCL C, CUDA C, C, C++ or Rust.
//!
//! [`read_spec`] reads what a space file says of the kernel: entry point, arguments, workgroups, what its result is compared with.
//! [`KernelRunner`] is the [`Runner`](trimtab_study::Runner) of a study: it builds libraries ahead and asks a child process, which runs
//! [`serve_parent`], to run a point. The child stays between points; one that crashes, hangs or eats memory costs one point.

mod arguments;
mod compare;
#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod job;
mod language;
mod opencl;
mod opencl_api;
mod runner;
mod shim;
mod spec;
mod spec_arguments;
mod spec_file;
mod t1;
mod warm;
#[cfg(feature = "wgpu")]
mod wgsl;
mod worker;

pub use language::{Language, cuda_missing};
pub use runner::{KernelRunner, Limits};
pub use spec::{Against, Argument, Content, Fill, Formula, KernelSpec};
pub use spec_file::read_spec;
pub use worker::serve_parent;
