//! Elements as another type. Every kernel gives the same bits: see [`trimtab_core::Cast`] for what becomes of what does not fit.

mod blocks;
mod pairs;
mod reference;

use crate::kernels::Kernels;
use trimtab_core::{Bytes, Cast, Flops, Problem, erase};

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![erase(pairs::PairsKernel), erase(blocks::BlocksKernel), erase(reference::ReferenceKernel)]
}

fn counted(problem: &Cast) -> (Flops, Bytes) {
    (Flops(problem.len), Problem::from(*problem).operand_bytes())
}
