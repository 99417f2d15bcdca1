//! The kernels of indices on a GPU: elements as whole numbers in the same order, with their indices. Results are i64, written as two words.

mod bitonic;
mod extreme;
mod insertion;

use crate::kernels::Kernels;
use trimtab_core::{Arg, ArgOp, erase};

/// In order of preference.
pub fn kernels() -> Kernels {
    vec![erase(extreme::ExtremeKernel), erase(bitonic::ArgBitonic), erase(insertion::ArgInsertion)]
}

/// Whether a line has one index, that of its smallest or largest.
fn is_extreme(problem: &Arg) -> bool {
    matches!(problem.op, ArgOp::Min | ArgOp::Max)
}
