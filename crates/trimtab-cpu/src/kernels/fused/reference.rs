//! Recipes by plain loops, element by element, each step by the standard library's functions: the yardstick.

use super::{bytes_walked, flops, operation};
use crate::args::{Args, Inputs, Launched};
use crate::kernels::elementwise::ops::{self, Operand};
use crate::kernels::reduce::fold::{Fold, Foldable, Visit};
use trimtab_core::{Bytes, Flops, Fused, LaunchError, MAX_WAITING, Over, Product, Step, Varies};

reference!("cpu.fused.reference", Fused);

fn counted(problem: &Fused) -> (Flops, Bytes) {
    (flops(problem), bytes_walked(problem))
}

fn run<T: Operand + Foldable>(problem: &Fused, args: Args<'_>) -> Launched {
    let Inputs { inputs, out, .. } = args.recipe::<T>(problem)?;
    let elements = Elements {
        problem,
        steps: problem.steps().collect(),
        product: problem.product(),
        inputs,
        inner: problem.inner() as usize,
    };
    let Some((op, over)) = problem.end() else {
        for (at, out) in out.iter_mut().enumerate() {
            *out = elements.at(at / elements.inner, at % elements.inner)?;
        }
        return Ok(());
    };
    <T as Foldable>::visit(op, Ends { elements, over, out })
        .unwrap_or_else(|| Err(LaunchError::Kernel(format!("{} of integers is undefined", op.name()))))
}

/// What the steps make of the inputs.
struct Elements<'a, T> {
    problem: &'a Fused,
    steps: Vec<Step>,
    product: Option<Product>,
    inputs: [&'a [T]; trimtab_core::MAX_INPUTS + 1],
    inner: usize,
}

impl<T: Operand> Elements<'_, T> {
    /// The last step's value at a row and a column.
    fn at(&self, row: usize, column: usize) -> Result<T, LaunchError> {
        let mut waiting = [T::default(); MAX_WAITING + 1];
        let mut count = 0;
        for &step in &self.steps {
            let value = match step {
                Step::Input(input) => {
                    let input = usize::from(input);
                    let at = match self.problem.varies(input) {
                        Varies::All => row * self.inner + column,
                        Varies::Rows => row,
                        Varies::Columns => column,
                        Varies::Nowhere => 0,
                    };
                    self.inputs[input][at]
                }
                Step::Number(number) => self.inputs[self.problem.inputs()][usize::from(number)],
                Step::Product => self.product(row, column),
                Step::Unary(_) | Step::Binary(_) => {
                    let Some(op) = operation(step) else { continue };
                    count -= usize::from(matches!(step, Step::Binary(_))) + 1;
                    T::scalar(op, waiting[count], waiting[count + 1])
                        .map_err(|what| ops::undefined(what, row * self.inner + column))?
                }
            };
            waiting[count] = value;
            count += 1;
        }
        Ok(waiting[0])
    }

    /// An element of the product, summed in f64.
    fn product(&self, row: usize, column: usize) -> T {
        let Some(Product { depth, lhs_transposed, rhs_transposed }) = self.product else {
            return T::default();
        };
        let (depth, rows) = (depth as usize, self.problem.outer() as usize);
        let mut sum = 0.0;
        for p in 0..depth {
            let lhs = if lhs_transposed { p * rows + row } else { row * depth + p };
            let rhs = if rhs_transposed { column * depth + p } else { p * self.inner + column };
            sum += self.inputs[0][lhs].to_f64() * self.inputs[1][rhs].to_f64();
        }
        T::from_f64(sum)
    }
}

/// A reduction of all elements, or of each row or column.
struct Ends<'a, T> {
    elements: Elements<'a, T>,
    over: Over,
    out: &'a mut [T],
}

impl<T: Operand + Foldable> Visit<T> for Ends<'_, T> {
    type Out = Launched;
    fn visit<F: Fold<T>>(self) -> Self::Out {
        let (rows, columns) = (self.elements.problem.outer() as usize, self.elements.inner);
        for (index, out) in self.out.iter_mut().enumerate() {
            let (rows, columns) = match self.over {
                Over::All => (0..rows, 0..columns),
                Over::Rows => (0..rows, index..index + 1),
                Over::Columns => (index..index + 1, 0..columns),
            };
            let len = rows.len() * columns.len();
            let mut state = F::EMPTY;
            for row in rows {
                for column in columns.clone() {
                    state = F::absorb(state, F::step(F::EMPTY_RUN, self.elements.at(row, column)?));
                }
            }
            *out = F::finish(state, len)?;
        }
        Ok(())
    }
}
