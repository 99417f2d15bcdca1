//! NVIDIA GPUs through CUDA's driver API and NVRTC, both found at run time.
//!
//! Nothing of CUDA is needed to build. What is not there is an [`Unavailable`], what fails a [`CudaError`]; nothing panics.
//!
//! - [`CudaDevice`]: a GPU as a device of trimtab.
//! - [`Driver`]: the driver's library, and the devices it knows ([`DeviceInfo`]).
//! - [`Context`]: one device: memory, modules, launches, times.
//! - [`Nvrtc`]: CUDA C to PTX or machine code.
//! - [`Cublas`] and [`CublasLt`]: NVIDIA's products, rivals of ours where they are found.
//! - [`Nvml`]: temperature, clock, what holds it down, power and energy, where it is found.
//! - [`kernels`]: our kernels in CUDA C; what one does for a problem is a [`Program`].
//! - [`bundled`]: PTX of some kernels, for machines without NVRTC.
//! - [`occupancy`]: how many blocks of a compiled kernel a multiprocessor holds, and what limits them.

mod api;
mod bench;
mod build_id;
mod bundle;
mod context;
mod cublas;
mod cublaslt;
mod device;
mod driver;
mod error;
mod facts;
mod graph;
mod kept;
pub mod kernels;
mod made;
mod memory;
mod nvml;
mod nvrtc;
pub mod occupancy;
mod prepare;
mod program;
mod run;
mod speed;
mod staging;
mod status;

pub use build_id::BuildId;
pub use bundle::{BUNDLED_FOR, bundle_entry, bundle_steps, bundled, bundled_count};
pub use context::{Argument, Context, Function, Module, Resources};
pub use cublas::{Cublas, CublasError, LibraryProduct};
pub use cublaslt::CublasLt;
pub use device::{CudaDevice, CudaOptions};
pub use driver::{DeviceInfo, Driver, LEAST_VERSION};
pub use error::{CudaError, Unavailable};
pub use memory::Allocation;
pub use nvml::Nvml;
pub use nvrtc::{Compiled, Listing, Nvrtc, NvrtcError};
pub use prepare::MAX_LOADED;
pub use program::{Cuda, LaunchStep, MAX_GRID, Program, StepArgument};
pub use run::CudaBuffer;
