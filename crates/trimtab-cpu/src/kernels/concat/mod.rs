//! Operands side by side: every row of the result is a row of each operand one after the other.

mod copies;
mod reference;
mod strided;

use crate::args::Args;
use crate::kernels::Kernels;
use crate::kernels::units::{Unit, words, words_mut};
use crate::pool::Pool;
use trimtab_core::{Bytes, Concat, Flops, LaunchError, MAX_PARTS, Problem, erase};
use trimtab_operands::Slice;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![erase(copies::CopiesKernel), erase(strided::StridedKernel), erase(reference::ReferenceKernel)]
}

/// Operands of the right lengths, elements of a row of each, and of all.
struct Parts<'a, U> {
    from: [&'a [U]; MAX_PARTS],
    parts: [usize; MAX_PARTS],
    count: usize,
    row: usize,
    out: &'a mut [U],
    pool: &'a Pool,
}

fn given<'a, U: Unit>(problem: &Concat, args: Args<'a>) -> Result<Parts<'a, U>, LaunchError> {
    args.check(&Problem::from(*problem))?;
    let Args { inputs, out, pool } = args;
    let (mut from, mut parts): ([&[U]; MAX_PARTS], _) = ([&[]; MAX_PARTS], [0; MAX_PARTS]);
    for (place, part) in problem.parts().iter().enumerate() {
        from[place] = words(inputs.get(place).copied().unwrap_or(Slice::None));
        parts[place] = *part as usize;
    }
    let (count, row) = (problem.parts().len(), problem.row() as usize);
    // SAFETY: kernels copy words of the operands, which are of the same type.
    Ok(Parts { from, parts, count, row, out: unsafe { words_mut(out) }, pool })
}

fn counted(problem: &Concat) -> (Flops, Bytes) {
    (Flops(0), Problem::from(*problem).operand_bytes())
}
