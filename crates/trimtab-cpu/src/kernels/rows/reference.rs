//! Rows element by element in `f64`: the yardstick of accuracy.

use super::given;
use crate::args::{Args, Launched};
use trimtab_core::{Bytes, Flops, Rows, RowsOp};
use trimtab_operands::Element;

reference!("cpu.rows.reference", Rows);

fn counted(problem: &Rows) -> (Flops, Bytes) {
    super::counted(problem, 3, 1)
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
        let mean = row().sum::<f64>() / len as f64;
        let sum = || row().map(|x| (x - most).exp()).sum::<f64>();
        let variance = || row().map(|x| (x - mean) * (x - mean)).sum::<f64>() / len as f64;
        let squares = || row().map(|x| x * x).sum::<f64>() / len as f64;
        let scale = |at: usize| given.scale.map_or(1.0, |scale| scale[at].to_f64());
        let shift = |at: usize| given.shift.map_or(0.0, |shift| shift[at].to_f64());
        let (by, less): (f64, f64) = match problem.op {
            RowsOp::LogSumExp => {
                let value = if most.is_infinite() { most } else { most + sum().ln() };
                given.out[nth] = T::from_f64(value);
                continue;
            }
            RowsOp::Variance => {
                given.out[nth] = T::from_f64(variance());
                continue;
            }
            RowsOp::Softmax => (1.0 / sum(), most),
            RowsOp::LogSoftmax => (sum().ln(), most),
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
