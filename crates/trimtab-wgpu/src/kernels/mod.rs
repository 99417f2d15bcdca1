//! The kernels of a GPU, a folder an operation, a file a variant, each shader beside its Rust file.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

pub mod elementwise;
pub mod fused;
pub mod matmul;
pub mod reduce;
pub mod transpose;

use crate::program::Gpu;
use trimtab_core::AnyKernel;

/// Kernels of a GPU.
pub type Kernels = Vec<Box<dyn AnyKernel<Gpu>>>;

/// Every kernel in order of preference.
pub fn all() -> Kernels {
    let all = [
        matmul::kernels(),
        elementwise::kernels(),
        reduce::kernels(),
        transpose::kernels(),
        fused::kernels(),
    ];
    all.into_iter().flatten().collect()
}
