//! Permutations of axes. Elements are moved, never computed with: every kernel gives the same bits.

mod reference;
mod registers;
mod rows;
mod tiled;
mod tiles;

use crate::args::{Args, Typed};
use crate::kernels::units::{Unit, words, words_mut};
use crate::kernels::{Kernels, shared_work};
use crate::simd::Levels;
use trimtab_core::{Bytes, Flops, LaunchError, MAX_RANK, Problem, Transpose, Work, erase};
use trimtab_operands::Slice;

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    vec![
        erase(rows::RowsKernel),
        erase(registers::RegistersKernel { available: Levels::detect().get(8).is_some() }),
        erase(tiled::TiledKernel),
        erase(reference::ReferenceKernel),
    ]
}

/// The operands as words of their size, once types and lengths were compared.
fn moved<'a, U: Unit>(problem: &Transpose, args: Args<'a>) -> Result<Typed<'a, U>, LaunchError> {
    let input = args.inputs.first().copied().unwrap_or(Slice::None);
    let (len, dtype) = (problem.len() as usize, problem.dtype);
    let is_right = input.len() == len
        && input.dtype() == Some(dtype)
        && args.out.len() == len
        && args.out.dtype() == dtype;
    if !is_right {
        args.check(&Problem::from(*problem))?;
    }
    // SAFETY: the input is of the result's type, or there are no elements, and what kernels write are words of the input.
    let out = unsafe { words_mut(args.out) };
    Ok(Typed { lhs: words(input), rhs: &[], out, pool: args.pool })
}

/// Elements from which a second thread can pay: waking one costs up to 20 µs.
const SHAREABLE_ELEMENTS: u64 = 32 << 10;

/// The axes in the order of the result: sizes, and strides in the operand and in the result.
#[derive(Clone, Copy, Debug)]
struct Axes {
    rank: usize,
    dims: [usize; MAX_RANK],
    from: [usize; MAX_RANK],
    to: [usize; MAX_RANK],
}

impl Axes {
    fn new(problem: &Transpose) -> Axes {
        let (dims, permutation) = (problem.dims(), problem.permutation());
        let mut strides = [1usize; MAX_RANK];
        for axis in (0..dims.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1].saturating_mul(dims[axis + 1] as usize);
        }
        let mut axes = Axes { rank: dims.len(), dims: [1; MAX_RANK], from: [0; MAX_RANK], to: [0; MAX_RANK] };
        let mut to = 1usize;
        for axis in (0..dims.len()).rev() {
            let source = permutation[axis] as usize;
            axes.dims[axis] = dims[source] as usize;
            axes.from[axis] = strides[source];
            axes.to[axis] = to;
            to = to.saturating_mul(axes.dims[axis]);
        }
        axes
    }

    /// Whether elements that are neighbours in the operand are neighbours in the result.
    fn keeps_rows(problem: &Transpose) -> bool {
        problem.permutation().last().is_some_and(|&last| last as usize + 1 == problem.dims().len())
    }

    /// The offset in the operand of a position of the result, counted over the axes in `order` (outermost first).
    fn offsets(&self, order: &[usize], mut position: usize) -> (usize, usize) {
        let (mut from, mut to) = (0, 0);
        for &axis in order.iter().rev() {
            let index = position % self.dims[axis];
            position /= self.dims[axis];
            from += index * self.from[axis];
            to += index * self.to[axis];
        }
        (from, to)
    }
}

/// Every element read once and written once.
fn work(problem: &Transpose, threads: u32, lanes: u32) -> Work {
    let bytes = Bytes(problem.len().saturating_mul(problem.dtype.size()).saturating_mul(2));
    shared_work(Flops(0), bytes, threads, lanes)
}
