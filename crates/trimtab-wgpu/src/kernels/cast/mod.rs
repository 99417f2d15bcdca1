//! The kernels of casts on a GPU, by the bits of numbers: how a device rounds its own conversions is not said.

mod words;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(words::WordsKernel)]
}
