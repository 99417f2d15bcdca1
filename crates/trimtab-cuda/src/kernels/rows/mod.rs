//! The kernels of rows: softmax and its kin, variance and norms, in floating point.

mod team;

pub(super) use team::TeamConfig;

use super::{CudaKernels, impossible, not_float};
use crate::program::adapter;
use trimtab_core::{Decline, DeviceFacts, Rows, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(team::TeamKernel)]
}

fn declines(problem: &Rows, device: &DeviceFacts) -> Option<Decline> {
    if adapter(device).is_none() {
        return Some(Decline::because("not a GPU"));
    }
    not_float(problem.dtype).or_else(|| impossible([problem.input_len(), problem.out_len()]))
}
