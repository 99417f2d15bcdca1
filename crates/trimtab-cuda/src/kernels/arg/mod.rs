//! The kernels of indices: elements as whole numbers in the same order, with their indices.

mod bitonic;
mod extreme;

use super::CudaKernels;
use trimtab_core::{Arg, ArgOp, erase};

/// In order of preference.
pub fn kernels() -> CudaKernels {
    vec![erase(extreme::ExtremeKernel), erase(bitonic::ArgBitonic)]
}

/// Whether a line has one index, that of its smallest or largest.
fn is_extreme(problem: &Arg) -> bool {
    matches!(problem.op, ArgOp::Min | ArgOp::Max)
}
