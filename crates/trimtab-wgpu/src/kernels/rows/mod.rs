//! The kernels of rows on a GPU: a row looked at once by a workgroup, or pass by pass by one invocation.

mod online;
mod serial;
mod shader;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(online::OnlineKernel), erase(serial::SerialKernel)]
}
