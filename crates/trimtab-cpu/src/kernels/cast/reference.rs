//! One element after the other through the widest number of its kind: the yardstick.

use super::counted;
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Cast};
use trimtab_operands::{Element, by_dtype};

yardstick!(
    "cpu.cast.reference",
    Cast,
    |problem: &Cast| {
        let wide = if problem.dtype.range().is_some() { size_of::<i64>() } else { size_of::<[f64; 2]>() };
        Bytes(problem.len.saturating_mul(wide as u64))
    },
    run
);

fn run(problem: &Cast, args: Args<'_>) -> Launched {
    /// Elements as whole numbers, or as real ones, so that only as many functions are compiled as there are types.
    enum Wide {
        Whole(Vec<i64>),
        Real(Vec<[f64; 2]>),
    }
    fn wide<T: Element>(elements: &[T]) -> Wide {
        match T::DTYPE.range().is_some() {
            true => Wide::Whole(elements.iter().map(|value| value.to_i64()).collect()),
            false => Wide::Real(elements.iter().map(|value| value.numbers()).collect()),
        }
    }
    fn narrow<U: Element>(wide: Wide, out: &mut [U]) {
        match wide {
            Wide::Whole(wide) => {
                out.iter_mut().zip(wide).for_each(|(out, value)| *out = U::from_i64(value));
            }
            Wide::Real(wide) => {
                out.iter_mut().zip(wide).for_each(|(out, value)| *out = U::of_numbers(value));
            }
        }
    }
    let input = super::blocks::checked(problem, &args)?;
    let wide = by_dtype!(problem.dtype, T => wide(T::slice(input).unwrap_or_default()));
    by_dtype!(problem.to, U => narrow(wide, U::slice_mut(args.out).unwrap_or_default()));
    Ok(())
}
