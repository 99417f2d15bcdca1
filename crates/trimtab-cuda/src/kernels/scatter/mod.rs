//! The kernels of the operation scatter.

mod atomic;
mod owned;

use super::{CudaKernels, walked};
use crate::program::StepArgument;
use trimtab_core::{DType, Decline, DeviceFacts, Scatter, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(atomic::AtomicKernel), erase(owned::OwnedKernel)]
}

fn declines(problem: &Scatter, device: &DeviceFacts) -> Option<Decline> {
    super::not_float_or_i32(problem.dtype).or_else(|| walked::declines(&(*problem).into(), device))
}

/// The macros of indices, see `index.cu`.
fn of_indices(problem: &Scatter) -> [(&'static str, String); 2] {
    let flags = [("WIDE", problem.index == DType::I64), ("OWN", problem.each)];
    flags.map(|(name, is)| (name, u32::from(is).to_string()))
}

/// Sizes as parameters.
fn sizes(problem: &Scatter, elements: u64) -> impl Iterator<Item = StepArgument> {
    walked::sizes([elements, problem.inner, problem.count, problem.len])
}
