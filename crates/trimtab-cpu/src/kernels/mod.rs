//! The kernels of the CPU, a folder an operation, a file a variant.

pub mod elementwise;
pub mod matmul;
pub mod reduce;
pub mod transpose;
mod version;

use crate::blas::Blas;
use crate::erase::AnyKernel;
use trimtab_core::VariantClass;

/// The device's table.
pub type Kernels = Vec<Box<dyn AnyKernel>>;

/// Every kernel in order of preference: ours, then the user's, references last.
pub(crate) fn all(libraries: Vec<Blas>, users: Kernels) -> Kernels {
    let mut kernels = matmul::kernels_with(libraries);
    kernels.extend(elementwise::kernels());
    kernels.extend(reduce::kernels());
    kernels.extend(transpose::kernels());
    kernels.extend(users);
    // Stable: the order within each group stays.
    kernels.sort_by_key(|kernel| kernel.info().class == VariantClass::Reference);
    kernels
}
