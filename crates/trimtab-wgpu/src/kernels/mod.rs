//! The kernels of a GPU, a folder an operation, a file a variant, each shader beside its Rust file.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

pub mod elementwise;
pub mod fused;
pub mod matmul;
pub mod reduce;
pub mod transpose;

use crate::erase::AnyKernel;

/// Every kernel in order of preference.
pub fn all() -> Vec<Box<dyn AnyKernel>> {
    let mut all = matmul::kernels();
    all.extend(elementwise::kernels());
    all.extend(reduce::kernels());
    all.extend(transpose::kernels());
    all.extend(fused::kernels());
    all
}
