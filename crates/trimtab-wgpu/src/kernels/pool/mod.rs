//! The kernels of the operation pool. The largest of doubles is found by their bits, which need no 64-bit arithmetic.

mod direct;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(direct::DirectWindows)]
}
