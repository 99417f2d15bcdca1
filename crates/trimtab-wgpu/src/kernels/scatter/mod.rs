//! The kernels of the operation scatter.

mod atomic;
mod owned;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(atomic::AtomicKernel), erase(owned::OwnedKernel)]
}
