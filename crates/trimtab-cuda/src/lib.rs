//! NVIDIA GPUs through CUDA's driver API and NVRTC, both found at run time.
//!
//! Nothing of CUDA is needed to build. What is not there is an [`Unavailable`], what fails a [`CudaError`]; nothing panics.
//!
//! - [`CudaDevice`]: a GPU as a device of trimtab.
//! - [`Driver`]: the driver's library, and the devices it knows ([`DeviceInfo`]).
//! - [`Context`]: one device: memory, modules, launches, times.
//! - [`Nvrtc`]: CUDA C to PTX or machine code.
//! - [`kernels`]: our kernels in CUDA C; what one does for a problem is a [`Program`].
//! - [`occupancy`]: how many blocks of a compiled kernel a multiprocessor holds, and what limits them.

mod api;
mod bench;
mod context;
mod device;
mod driver;
mod error;
mod facts;
pub mod kernels;
mod nvrtc;
pub mod occupancy;
mod prepare;
mod program;
mod run;
mod speed;

pub use context::{Allocation, Argument, Context, Function, Module, Resources};
pub use device::{CudaDevice, CudaOptions};
pub use driver::{DeviceInfo, Driver, LEAST_VERSION};
pub use error::{CudaError, Unavailable};
pub use nvrtc::{Compiled, Nvrtc, NvrtcError};
pub use prepare::MAX_LOADED;
pub use program::{Cuda, LaunchStep, MAX_GRID, Program, StepArgument};
pub use run::CudaBuffer;
