//! The kernels of the CPU, a folder an operation, a file a variant.

// Which code each kernel runs, found by the build script: `version!()`.
include!(concat!(env!("OUT_DIR"), "/kernel_versions.rs"));

pub mod elementwise;
pub mod fused;
mod halves;
pub mod matmul;
pub mod reduce;
pub mod transpose;

use crate::blas::Blas;
use crate::erase::AnyKernel;
use std::ops::Range;
use trimtab_core::VariantClass;

/// The device's table.
pub type Kernels = Vec<Box<dyn AnyKernel>>;

/// Every kernel in order of preference: ours, then the user's, our references last. Also the positions of the user's.
pub(crate) fn all(libraries: Vec<Blas>, users: Kernels) -> (Kernels, Range<usize>) {
    let mut ours = matmul::kernels_with(libraries);
    ours.extend(elementwise::kernels());
    ours.extend(reduce::kernels());
    ours.extend(transpose::kernels());
    ours.extend(fused::kernels());
    let (references, mut kernels): (Kernels, Kernels) =
        ours.into_iter().partition(|kernel| kernel.info().class == VariantClass::Reference);
    let start = kernels.len();
    kernels.extend(users);
    let users = start..kernels.len();
    kernels.extend(references);
    (kernels, users)
}
