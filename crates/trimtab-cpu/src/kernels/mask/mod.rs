//! Truth values: comparisons, and choices by them. What is not a number is equal to nothing, and zeros are equal.

mod elements;
mod reference;
mod rows;

use crate::args::{Args, Launched};
use crate::kernels::Kernels;
use crate::kernels::units::{Unit, words, words_mut};
use crate::pool::Pool;
use crate::simd::Levels;
use trimtab_core::{Bytes, DType, Decline, Flops, LaunchError, MAX_RANK, Mask, MaskOp, Problem, erase};
use trimtab_operands::{Element, Slice};

/// The kernels in order of preference, the reference last.
pub fn kernels() -> Kernels {
    let (level, lanes) = Levels::detect().widest();
    vec![
        erase(rows::MaskRows { level, lanes }),
        erase(elements::MaskElements),
        erase(reference::ReferenceKernel),
    ]
}

/// Where the elements of up to three operands lie; one that is repeated has stride zero.
#[derive(Clone, Copy)]
struct Layout {
    rank: usize,
    dims: [usize; MAX_RANK],
    strides: [[usize; MAX_RANK]; 3],
}

impl Layout {
    fn new(problem: &Mask) -> Layout {
        let dims = problem.dims();
        let mut layout = Layout { rank: dims.len(), dims: [1; MAX_RANK], strides: [[0; MAX_RANK]; 3] };
        let mut lens = [1usize; 3];
        for axis in (0..dims.len()).rev() {
            layout.dims[axis] = dims[axis] as usize;
            for (place, len) in lens.iter_mut().enumerate().filter(|(place, _)| problem.varies(*place, axis))
            {
                layout.strides[place][axis] = *len;
                *len = len.saturating_mul(dims[axis] as usize);
            }
        }
        layout
    }

    /// Elements of a row: along the last axis.
    fn row(&self) -> usize {
        self.dims[self.rank - 1]
    }

    /// How an operand goes along a row: by one, or not at all.
    fn step(&self, place: usize) -> usize {
        self.strides[place][self.rank - 1]
    }

    /// Where an element of the result lies in each operand.
    fn offsets(&self, mut at: usize) -> [usize; 3] {
        let mut offsets = [0; 3];
        for axis in (0..self.rank).rev() {
            let digit = at % self.dims[axis];
            at /= self.dims[axis];
            for (offset, strides) in offsets.iter_mut().zip(&self.strides) {
                *offset += digit * strides[axis];
            }
        }
        offsets
    }
}

/// Element types that are compared as they are; others are by the reference.
macro_rules! by_compared {
    ($dtype:expr, $type:ident => $run:expr) => {
        by_compared!(@arms $dtype, $type => $run; F32 f32, F64 f64, I8 i8, U8 u8, I16 i16, I32 i32, U32 u32, I64 i64)
    };
    (@arms $dtype:expr, $type:ident => $run:expr; $($variant:ident $of:ty),*) => {
        match $dtype {
            $(trimtab_core::DType::$variant => {
                type $type = $of;
                $run
            })*
            dtype => Err($crate::kernels::elements::not_here(dtype)),
        }
    };
}
use by_compared;

/// Why no kernel but the reference compares elements of a type; choosing moves elements of all.
fn not_compared(problem: &Mask) -> Option<Decline> {
    let there = DType::is_integer;
    let compares = matches!(problem.dtype, DType::F32 | DType::F64) || there(problem.dtype);
    let other = || Decline::from(format!("does not compare {}", problem.dtype));
    (problem.op != MaskOp::Where && !compares).then(other)
}

/// A comparison by three: which, whether operands change places, and whether the answer is turned round.
fn by_three(op: MaskOp) -> (u8, bool, bool) {
    match op {
        MaskOp::Eq | MaskOp::Where => (EQUAL, false, false),
        MaskOp::Ne => (EQUAL, false, true),
        MaskOp::Lt => (LESS, false, false),
        MaskOp::Gt => (LESS, true, false),
        MaskOp::Le => (AT_MOST, false, false),
        MaskOp::Ge => (AT_MOST, true, false),
    }
}

const EQUAL: u8 = 0;
const LESS: u8 = 1;
const AT_MOST: u8 = 2;

#[inline(always)]
fn holds<T: PartialOrd, const OP: u8>(a: T, b: T) -> bool {
    match OP {
        EQUAL => a == b,
        LESS => a < b,
        _ => a <= b,
    }
}

/// Two operands and the truth values of the result, as bytes.
struct Compared<'a, T> {
    operands: [&'a [T]; 2],
    out: &'a mut [u8],
    pool: &'a Pool,
}

/// The operands of a comparison, in the order it is made in.
fn compared<'a, T: Element>(problem: &Mask, args: Args<'a>) -> Result<Compared<'a, T>, LaunchError> {
    args.check(&Problem::from(*problem))?;
    let Args { inputs, out, pool } = args;
    let of = |place: usize| T::slice(inputs.get(place).copied().unwrap_or(Slice::None)).unwrap_or_default();
    // SAFETY: kernels write `u8::from` a truth value and nothing else.
    Ok(Compared { operands: [of(0), of(1)], out: unsafe { words_mut(out) }, pool })
}

/// What is chosen by, what is chosen from, and the result.
struct Chosen<'a, U> {
    mask: &'a [bool],
    from: [&'a [U]; 2],
    out: &'a mut [U],
    pool: &'a Pool,
}

fn chosen<'a, U: Unit>(problem: &Mask, args: Args<'a>) -> Result<Chosen<'a, U>, LaunchError> {
    args.check(&Problem::from(*problem))?;
    let Args { inputs, out, pool } = args;
    let of = |place: usize| inputs.get(place).copied().unwrap_or(Slice::None);
    let mask = bool::slice(of(0)).unwrap_or_default();
    // SAFETY: kernels copy words of the operands, which are of the same type.
    Ok(Chosen { mask, from: [words(of(1)), words(of(2))], out: unsafe { words_mut(out) }, pool })
}

fn counted(problem: &Mask) -> (Flops, Bytes) {
    (Flops(problem.out_len()), Problem::from(*problem).operand_bytes())
}

/// Runs nothing where there is nothing.
fn nothing(problem: &Mask, args: &Args<'_>) -> Option<Launched> {
    (problem.out_len() == 0).then(|| args.check(&Problem::from(*problem)))
}
