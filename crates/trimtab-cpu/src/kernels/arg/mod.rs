//! Indices along the middle of `outer × len × inner`. Equal elements are in the order of their indices, so every kernel gives the same.
//!
//! Semantics every kernel shares: negative zero is equal to zero. What is not a number is the smallest and the largest, and comes last
//! in either order.

mod blocks;
mod extreme;
mod lines;
mod packed;
mod radix;
mod reference;

use crate::args::Args;
use crate::kernels::Kernels;
use crate::kernels::sort::Sortable;
use crate::pool::Pool;
use crate::simd::Levels;
use trimtab_core::{Arg, Bytes, Flops, LaunchError, Problem, erase};
use trimtab_operands::Element;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let (level, _) = Levels::detect().widest();
    vec![
        erase(extreme::ExtremeKernel),
        erase(blocks::ExtremeBlocksKernel { level }),
        erase(packed::PackedKernel),
        erase(radix::RadixKernel),
        erase(lines::LinesKernel),
        erase(reference::ReferenceKernel),
    ]
}

/// The number of an element, the smallest first: see [`Sortable::key`]. Both zeros have the same.
#[inline(always)]
fn key<T: Sortable>(value: T, descending: bool) -> T::Key {
    let zero = T::default();
    let value = if value == zero { zero } else { value };
    value.key(descending)
}

type Given<'a, T> = (&'a [T], &'a mut [i64], &'a Pool);

fn given<'a, T: Element>(problem: &Arg, args: Args<'a>) -> Result<Given<'a, T>, LaunchError> {
    if let Err(error) = Problem::from(*problem).check() {
        return Err(LaunchError::Kernel(error.to_string()));
    }
    args.mixed::<T, i64>([problem.input_len(), problem.out_len()])
}

/// Elements compared and moved.
fn counted(problem: &Arg) -> (Flops, Bytes) {
    (Flops(problem.flops().saturating_mul(4)), Problem::from(*problem).operand_bytes())
}
