//! What the CPU hands to its kernels: typed slices and the thread pool.

use crate::pool::Pool;
use trimtab_core::{Context, DType, Fused, LaunchError, MAX_INPUTS, Problem};
use trimtab_operands::{Element, Slice, SliceMut};

/// The CPU as a kernel context.
#[derive(Debug)]
pub struct Cpu;

impl Context for Cpu {
    type Args<'a> = Args<'a>;
}

/// What becomes of a launch.
pub type Launched = Result<(), LaunchError>;

/// The operands and services of one launch.
#[derive(Debug)]
pub struct Args<'a> {
    /// The inputs, in order; an absent one may be left out at the end or be empty.
    pub inputs: &'a [Slice<'a>],
    /// The result; what it holds before is not read.
    pub out: SliceMut<'a>,
    /// Threads to share work with.
    pub pool: &'a Pool,
}

/// The operands of a launch once their element type and lengths were checked against the problem.
#[derive(Debug)]
pub struct Typed<'a, T> {
    /// The left or only input.
    pub lhs: &'a [T],
    /// The right input; empty where the operation has none.
    pub rhs: &'a [T],
    /// The result.
    pub out: &'a mut [T],
    /// Threads to share work with.
    pub pool: &'a Pool,
}

impl<'a> Args<'a> {
    /// The operands of an operation with one or two inputs as slices of `T` with exactly these lengths: left, right (zero
    /// where there is none), out.
    #[inline]
    pub fn typed<T: Element>(self, lens: [u64; 3]) -> Result<Typed<'a, T>, LaunchError> {
        let Args { inputs, out, pool } = self;
        let input = |place: usize| inputs.get(place).copied().unwrap_or(Slice::None);
        let (lhs, rhs) = (input(0), input(1));
        let found = [lhs.len() as u64, rhs.len() as u64, out.len() as u64];
        let types = [lhs.dtype(), rhs.dtype(), Some(out.dtype())];
        // Numbers and variants first, words only for the error: describing the operands cost 10 ns of a 40 ns product.
        if found == lens
            && let (Some(lhs), Some(rhs), Some(out)) = (T::slice(lhs), T::slice(rhs), T::slice_mut(out))
        {
            return Ok(Typed { lhs, rhs, out, pool });
        }
        Err(wrong_operand(T::DTYPE, types, found, lens))
    }

    /// The operands of a recipe as slices of `T` with exactly the lengths it needs.
    #[inline]
    pub(crate) fn recipe<T: Element>(self, recipe: &Fused) -> Result<Inputs<'a, T>, LaunchError> {
        self.of(&Problem::from(*recipe), recipe.numbers() > 0)
    }

    /// The operands of a problem as slices of `T` with exactly the lengths it needs; the last may be numbers.
    #[inline]
    pub(crate) fn of<T: Element>(
        self,
        problem: &Problem,
        numbered: bool,
    ) -> Result<Inputs<'a, T>, LaunchError> {
        let (lens, out_len) = (problem.input_lens(), problem.out_len());
        let numbers = numbered.then(|| lens.as_slice().len() - 1);
        let Args { inputs, out, pool } = self;
        let mut slices: [&[T]; MAX_INPUTS + 1] = [&[]; MAX_INPUTS + 1];
        for (place, (slice, &needed)) in slices.iter_mut().zip(lens.as_slice()).enumerate() {
            let input = inputs.get(place).copied().unwrap_or(Slice::None);
            match T::slice(input) {
                Some(found) if found.len() as u64 == needed => *slice = found,
                _ => {
                    let name = if numbers == Some(place) { "numbers" } else { INPUT_NAMES[place] };
                    return Err(wrong(name, input.dtype(), input.len() as u64, needed));
                }
            }
        }
        let (dtype, found) = (out.dtype(), out.len() as u64);
        match T::slice_mut(out) {
            Some(out) if found == out_len => Ok(Inputs { inputs: slices, out, pool }),
            _ => Err(wrong("out", Some(dtype), found, out_len)),
        }
    }
}

/// What the operands of a recipe are called, by place, as in its text; numbers lie behind the last.
const INPUT_NAMES: [&str; MAX_INPUTS + 1] = ["a", "b", "c", "d", "e", "f", "numbers"];

/// The operands of a recipe once their element type and lengths were checked against the problem.
#[derive(Debug)]
pub(crate) struct Inputs<'a, T> {
    /// The inputs, the numbers behind the last one; empty where there are fewer.
    pub(crate) inputs: [&'a [T]; MAX_INPUTS + 1],
    /// The result.
    pub(crate) out: &'a mut [T],
    /// Threads to share work with.
    pub(crate) pool: &'a Pool,
}

#[cold]
fn wrong_operand(wanted: DType, types: [Option<DType>; 3], found: [u64; 3], lens: [u64; 3]) -> LaunchError {
    let is_wrong =
        |&place: &usize| found[place] != lens[place] || types[place].is_some_and(|dtype| dtype != wanted);
    let place = (0..3).find(is_wrong).unwrap_or(2);
    wrong(["lhs", "rhs", "out"][place], types[place], found[place], lens[place])
}

#[cold]
fn wrong(operand: &'static str, dtype: Option<DType>, found: u64, needed: u64) -> LaunchError {
    let dtype = dtype.map_or("nothing", DType::name);
    LaunchError::Operand { operand, dtype, found: found as usize, needed: needed as usize }
}
