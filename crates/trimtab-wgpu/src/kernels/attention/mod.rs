//! Attention on a GPU: scores are never written.

mod online;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(online::OnlineKernel)]
}
