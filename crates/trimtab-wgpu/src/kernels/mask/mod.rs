//! The kernels of the operation mask. Truth values are bytes, four of them a word: an invocation makes or reads whole words.

mod words;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(words::WordsKernel)]
}
