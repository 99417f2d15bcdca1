//! Reduction kernels over the middle of `outer × len × inner`.
//!
//! Semantics every kernel shares: sums are at least pairwise-accurate (a block of at most 64 terms an accumulator in the
//! element type, blocks together in `f64` or compensated); NaN wins in min and max; integer sums and products are exact or fail
//! with an overflow; nothing sums to zero and multiplies to one. A floating-point product whose parts leave the range of
//! `f64` depends on the order, as in every library.

mod columns;
pub(super) mod fold;
mod parallel;
mod plain;
mod reference;
mod vector;

use crate::kernels::Kernels;
use crate::simd::Levels;
use trimtab_core::{Bytes, Decline, LaunchError, Reduce, erase};

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let levels = Levels::detect();
    let (level, lanes) = levels.widest();
    vec![
        erase(vector::VectorKernel { levels }),
        erase(parallel::ParallelKernel { level, lanes }),
        erase(columns::ColumnsKernel { level, lanes }),
        erase(plain::PlainKernel),
        erase(reference::ReferenceKernel),
    ]
}

/// The lengths of the operands; an error where they cannot be counted, so that no later product wraps.
fn lens(problem: &Reduce) -> Result<[u64; 3], LaunchError> {
    let out = problem.outer.checked_mul(problem.inner);
    let input = out.and_then(|out| out.checked_mul(problem.len));
    match (input, out) {
        (Some(input), Some(out)) => Ok([input, 0, out]),
        _ => Err(LaunchError::Kernel(format!("{problem} has more elements than can be counted"))),
    }
}

/// Bytes read and written, each once.
fn bytes_walked(problem: &Reduce) -> Bytes {
    trimtab_core::Problem::from(*problem).operand_bytes()
}

/// Why a kernel of contiguous rows does not take a problem.
fn declines_apart(problem: &Reduce) -> Option<Decline> {
    let apart = problem.inner;
    (apart != 1).then(|| Decline::from(format!("reduced elements lie {apart} apart; needs contiguous rows")))
}
