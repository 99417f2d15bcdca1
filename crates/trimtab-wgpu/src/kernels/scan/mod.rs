//! The kernels of scans on a GPU: a line by one invocation, by a workgroup that goes on from block to block, or in blocks of many workgroups.
//!
//! A scan in one pass over blocks of many workgroups waits for what other workgroups write (decoupled look-back), which hangs where the
//! adapter does not promise that all of them go on: WGSL promises nothing. One workgroup a line that goes on from block to block is the
//! one-pass rival.

mod chained;
mod serial;
mod state;
mod twopass;

use crate::kernels::Kernels;
use trimtab_core::erase;

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(twopass::TwoPassKernel), erase(chained::ChainedKernel), erase(serial::SerialKernel)]
}
