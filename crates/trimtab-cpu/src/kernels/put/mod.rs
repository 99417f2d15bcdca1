//! A block in the place of a part of a larger one, or of one number everywhere.

mod over;
mod reference;
mod rows;

use crate::args::Args;
use crate::kernels::Kernels;
use crate::kernels::units::{Unit, words, words_mut};
use crate::pool::Pool;
use std::ops::Range;
use trimtab_core::{Bytes, Flops, LaunchError, MAX_PUT_RANK, Problem, Put, erase};
use trimtab_operands::Slice;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![erase(rows::PutRows), erase(over::OverKernel), erase(reference::ReferenceKernel)]
}

/// Operands of the right lengths, and where the block lies.
struct Putting<'a, U> {
    base: &'a [U],
    block: &'a [U],
    out: &'a mut [U],
    pool: &'a Pool,
    place: Place,
}

/// Sizes of the result and of the block along each axis, and where it begins; the last axis is a row.
#[derive(Clone, Copy)]
struct Place {
    rank: usize,
    dims: [usize; MAX_PUT_RANK],
    first: [usize; MAX_PUT_RANK],
    size: [usize; MAX_PUT_RANK],
}

impl Place {
    fn new(problem: &Put) -> Place {
        let mut place = Place { rank: problem.dims().len(), dims: [1; 4], first: [0; 4], size: [1; 4] };
        for axis in 0..place.rank {
            place.dims[axis] = problem.dims()[axis] as usize;
            place.first[axis] = problem.first()[axis] as usize;
            place.size[axis] = problem.size()[axis] as usize;
        }
        place
    }

    /// Elements of a row of the result.
    fn row(&self) -> usize {
        self.dims[self.rank - 1]
    }

    /// Where the block lies in a row that it is in.
    fn columns(&self) -> Range<usize> {
        let last = self.rank - 1;
        self.first[last]..self.first[last] + self.size[last]
    }

    /// Which of the block's rows a row of the result has, if any.
    fn block_row(&self, mut row: usize) -> Option<usize> {
        let (mut of_block, mut rows) = (0, 1);
        for axis in (0..self.rank - 1).rev() {
            let digit = row % self.dims[axis];
            row /= self.dims[axis];
            let within = digit.checked_sub(self.first[axis]).filter(|within| *within < self.size[axis])?;
            of_block += within * rows;
            rows *= self.size[axis];
        }
        Some(of_block)
    }

    /// The row of the result that has a row of the block.
    fn out_row(&self, mut row: usize) -> usize {
        let (mut of_out, mut rows) = (0, 1);
        for axis in (0..self.rank - 1).rev() {
            of_out += (row % self.size[axis] + self.first[axis]) * rows;
            row /= self.size[axis];
            rows *= self.dims[axis];
        }
        of_out
    }
}

fn given<'a, U: Unit>(problem: &Put, args: Args<'a>) -> Result<Putting<'a, U>, LaunchError> {
    args.check(&Problem::from(*problem))?;
    let Args { inputs, out, pool } = args;
    let of = |place: usize| words(inputs.get(place).copied().unwrap_or(Slice::None));
    // SAFETY: kernels copy words of the operands, which are of the same type.
    let out = unsafe { words_mut(out) };
    Ok(Putting { base: of(0), block: of(1), out, pool, place: Place::new(problem) })
}

/// The part of the result that is not the block's: copied, or filled with the number.
#[inline(always)]
fn around<U: Unit>(out: &mut [U], base: &[U], first: usize, fill: bool) {
    match fill {
        true => out.fill(base[0]),
        false => out.copy_from_slice(&base[first..first + out.len()]),
    }
}

fn counted(problem: &Put) -> (Flops, Bytes) {
    let covered = problem.block_len().saturating_mul(2 * problem.dtype.size());
    let each = if problem.fill { 1 } else { 2 };
    let around = (problem.out_len() - problem.block_len()).saturating_mul(each * problem.dtype.size());
    (Flops(0), Bytes(covered.saturating_add(around)))
}
