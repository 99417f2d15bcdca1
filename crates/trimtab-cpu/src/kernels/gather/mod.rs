//! Elements along the middle of `outer × len × inner` by index. Every kernel moves the same words; indices are looked at first.

mod elements;
mod reference;
mod rows;

use crate::args::Args;
use crate::kernels::Kernels;
use crate::kernels::indices::{Index, checked};
use crate::kernels::units::{Unit, words, words_mut};
use crate::pool::Pool;
use trimtab_core::{Bytes, Flops, Gather, LaunchError, Problem, erase};

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![erase(rows::GatherRows), erase(elements::GatherElements), erase(reference::ReferenceKernel)]
}

/// Operands whose lengths and indices are right.
struct Taking<'a, U, I> {
    data: &'a [U],
    indices: &'a [I],
    out: &'a mut [U],
    pool: &'a Pool,
}

fn given<'a, U: Unit, I: Index>(problem: &Gather, args: Args<'a>) -> Result<Taking<'a, U, I>, LaunchError> {
    args.check(&Problem::from(*problem))?;
    let Args { inputs, out, pool } = args;
    let of = |place: usize| inputs.get(place).copied().unwrap_or(trimtab_operands::Slice::None);
    // Where nothing is taken no index is looked at: the axis is not kept then.
    let indices: &[I] = if out.is_empty() { &[] } else { checked(of(1), problem.len)? };
    // SAFETY: kernels copy words of the first operand, which is of the same type.
    Ok(Taking { data: words(of(0)), indices, out: unsafe { words_mut(out) }, pool })
}

/// What is moved: the elements that are taken, read and written, and the indices, read twice.
fn counted(problem: &Gather) -> (Flops, Bytes) {
    let taken = problem.along_count().saturating_mul(2 * problem.dtype.size());
    let indices = problem.indices().saturating_mul(2 * problem.index.size());
    (Flops(problem.indices()), Bytes(taken.saturating_add(indices)))
}
