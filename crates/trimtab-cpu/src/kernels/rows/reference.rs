//! Rows element by element in `f64`: the yardstick of accuracy.

use super::given;
use crate::args::{Args, Launched};
use crate::kernels::reduce::fold::merge_sums;
use trimtab_core::{Bytes, Flops, Rows, RowsOp};
use trimtab_operands::Element;

reference!("cpu.rows.reference", Rows);

fn counted(problem: &Rows) -> (Flops, Bytes) {
    super::counted(problem, 3, 1)
}

/// A sum that keeps what rounding loses: the yardstick of `f64` itself.
fn sum(terms: impl Iterator<Item = f64>) -> f64 {
    let (total, lost) = terms.fold((0.0, 0.0), |sum, term| merge_sums(sum, (term, 0.0)));
    if f64::is_finite(total) { total + lost } else { total }
}

fn run<T: Element>(problem: &Rows, args: Args<'_>) -> Launched {
    let given = given::<T>(problem, args)?;
    let (len, inner) = (problem.len as usize, problem.inner as usize);
    for nth in 0..(problem.outer * problem.inner) as usize {
        let first = nth / inner * len * inner + nth % inner;
        let row = || (0..len).map(|at| given.input[first + at * inner].to_f64());
        let most =
            row().fold(
                f64::NEG_INFINITY,
                |most, x| if x.is_nan() || most.is_nan() { f64::NAN } else { most.max(x) },
            );
        let mean = sum(row()) / len as f64;
        let exps = || sum(row().map(|x| (x - most).exp()));
        let variance = || sum(row().map(|x| (x - mean) * (x - mean))) / len as f64;
        let squares = || sum(row().map(|x| x * x)) / len as f64;
        let scale = |at: usize| given.scale.map_or(1.0, |scale| scale[at].to_f64());
        let shift = |at: usize| given.shift.map_or(0.0, |shift| shift[at].to_f64());
        let (by, less): (f64, f64) = match problem.op {
            RowsOp::LogSumExp => {
                let value = if most.is_infinite() { most } else { most + exps().ln() };
                given.out[nth] = T::from_f64(value);
                continue;
            }
            RowsOp::Variance => {
                given.out[nth] = T::from_f64(variance());
                continue;
            }
            RowsOp::Softmax => (1.0 / exps(), most),
            RowsOp::LogSoftmax => (exps().ln(), most),
            RowsOp::LayerNorm => (1.0 / (variance() + given.epsilon).sqrt(), mean),
            RowsOp::RmsNorm => (1.0 / (squares() + given.epsilon).sqrt(), 0.0),
        };
        for (at, x) in row().enumerate() {
            let value = match problem.op {
                RowsOp::Softmax => (x - less).exp() * by,
                RowsOp::LogSoftmax => x - less - by,
                _ => (x - less) * by * scale(at) + shift(at),
            };
            given.out[first + at * inner] = T::from_f64(value);
        }
    }
    Ok(())
}
