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
    #[inline(always)]
    pub fn typed<T: Element>(self, lens: [u64; 3]) -> Result<Typed<'a, T>, LaunchError> {
        let Args { inputs, out, pool } = self;
        let input = |place: usize| inputs.get(place).copied().unwrap_or(Slice::None);
        let (given, dtype) = ([input(0), input(1)], out.dtype());
        let found = out.len() as u64;
        // One number after the other, and words only for the error: arrays of lengths compared as such are loaded wider than they
        // were stored, and wait for the stores: 5 ns of a 55 ns product.
        match (T::slice(given[0]), T::slice(given[1]), T::slice_mut(out)) {
            (Some(lhs), Some(rhs), Some(out))
                if lhs.len() as u64 == lens[0] && rhs.len() as u64 == lens[1] && found == lens[2] =>
            {
                Ok(Typed { lhs, rhs, out, pool })
            }
            _ => Err(wrong_operand(T::DTYPE, given, (dtype, found), lens)),
        }
    }

    /// The only input and the result, each of its own type and with exactly these lengths.
    pub(crate) fn mixed<T: Element, U: Element>(
        self,
        lens: [u64; 2],
    ) -> Result<(&'a [T], &'a mut [U], &'a Pool), LaunchError> {
        let Args { inputs, out, pool } = self;
        let input = inputs.first().copied().unwrap_or(Slice::None);
        let (found, dtype) = ([input.len() as u64, out.len() as u64], out.dtype());
        let typed = T::slice(input).filter(|input| input.len() as u64 == lens[0]);
        let Some(input) = typed else { return Err(wrong("lhs", input.dtype(), found[0], lens[0])) };
        match U::slice_mut(out) {
            Some(out) if found[1] == lens[1] => Ok((input, out, pool)),
            _ => Err(wrong("out", Some(dtype), found[1], lens[1])),
        }
    }

    /// Whether every operand has the type and the length the problem says, of whichever types those are.
    pub(crate) fn check(&self, problem: &Problem) -> Launched {
        if let Err(error) = problem.check() {
            return Err(LaunchError::Kernel(error.to_string()));
        }
        let lens = problem.input_lens();
        for (place, &needed) in lens.as_slice().iter().enumerate() {
            let input = self.inputs.get(place).copied().unwrap_or(Slice::None);
            let right = input.dtype().is_none_or(|dtype| Some(dtype) == problem.input_dtype(place));
            if !right || input.len() as u64 != needed {
                return Err(wrong(INPUT_NAMES[place], input.dtype(), input.len() as u64, needed));
            }
        }
        let (dtype, found, needed) = (self.out.dtype(), self.out.len() as u64, problem.out_len());
        // An output of no elements may be of any type.
        match found == needed && (needed == 0 || Some(dtype) == problem.out_dtype()) {
            true => Ok(()),
            false => Err(wrong("out", Some(dtype), found, needed)),
        }
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
fn wrong_operand(
    wanted: DType,
    [lhs, rhs]: [Slice<'_>; 2],
    out: (DType, u64),
    lens: [u64; 3],
) -> LaunchError {
    let types = [lhs.dtype(), rhs.dtype(), Some(out.0)];
    let found = [lhs.len() as u64, rhs.len() as u64, out.1];
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
