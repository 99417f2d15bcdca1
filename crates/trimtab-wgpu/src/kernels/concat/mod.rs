//! The kernels of the operation concat. Elements are moved as their bits, so that doubles need no 64-bit arithmetic.

mod elements;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(elements::ConcatElements)]
}
