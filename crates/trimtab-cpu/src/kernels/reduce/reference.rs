//! Reduction element by element with compensated sums in `f64`: the yardstick of accuracy.

use super::fold::{Fold, Foldable, Visit};
use super::{bytes_walked, lens};
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Flops, LaunchError, Reduce};

reference!("cpu.reduce.reference", Reduce, super::plain::reference);

fn counted(problem: &Reduce) -> (Flops, Bytes) {
    // A compensated addition is eight operations.
    (Flops(problem.input_len().saturating_mul(8)), bytes_walked(problem))
}

fn run<T: Foldable>(problem: &Reduce, args: Args<'_>) -> Launched {
    let typed = args.typed::<T>(lens(problem)?)?;
    let visitor = Reference { problem, input: typed.lhs, out: typed.out };
    T::visit(problem.op, visitor)
        .unwrap_or_else(|| Err(LaunchError::Kernel("the mean of integers is undefined".to_string())))
}

struct Reference<'a, T> {
    problem: &'a Reduce,
    input: &'a [T],
    out: &'a mut [T],
}

impl<T: Foldable> Visit<T> for Reference<'_, T> {
    type Out = Launched;
    fn visit<F: Fold<T>>(self) -> Self::Out {
        let (len, inner) = (self.problem.len as usize, self.problem.inner as usize);
        for (index, out) in self.out.iter_mut().enumerate() {
            let first = index / inner * len * inner + index % inner;
            let mut state = F::EMPTY;
            for step in 0..len {
                state = F::absorb(state, F::step(F::EMPTY_RUN, self.input[first + step * inner]));
            }
            *out = F::finish(state, len)?;
        }
        Ok(())
    }
}
