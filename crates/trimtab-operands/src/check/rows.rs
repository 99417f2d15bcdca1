//! What elements along an axis may be off, by what they are made of.

use crate::operands::Operands;
use crate::slice::Data;
use trimtab_core::{Attention, Rows, RowsOp, Scan, ScanOp};

/// The positions of a row's elements in the middle of `outer × len × inner`.
fn row(nth: usize, len: usize, inner: usize) -> impl Iterator<Item = usize> + Clone {
    let first = nth / inner * len * inner + nth % inner;
    (0..len).map(move |at| first + at * inner)
}

fn at(data: Option<&Data>, place: usize) -> f64 {
    data.and_then(|data| data.at(place)).unwrap_or(1.0)
}

/// By element of the result.
pub(super) fn slack(p: &Rows, operands: &Operands, values: &Data) -> Vec<f32> {
    let (len, inner) = (p.len as usize, p.inner as usize);
    let input = operands.inputs.first();
    let mut slack = vec![0.0f32; values.len()];
    for nth in 0..(p.outer * p.inner) as usize {
        let places = row(nth, len, inner);
        let finite = places.clone().map(|place| at(input, place)).filter(|value| value.is_finite());
        let count = len.max(1) as f64;
        let most = finite.clone().fold(0.0, |most: f64, value| most.max(value.abs()));
        let squares = finite.clone().map(|value| value * value).sum::<f64>() / count;
        let mean = finite.sum::<f64>() / count;
        match p.op {
            RowsOp::Variance => slack[nth] = squares as f32,
            RowsOp::LogSumExp => slack[nth] = (most + count.ln()) as f32,
            RowsOp::LogSoftmax => {
                places.for_each(|place| slack[place] = (2.0 * most + count.ln()) as f32);
            }
            RowsOp::Softmax => {
                // An error of the exponent is one of the result, as large as the numbers are.
                places.for_each(|place| slack[place] = ((2.0 + 2.0 * most) * at(Some(values), place)) as f32);
            }
            RowsOp::LayerNorm | RowsOp::RmsNorm => {
                let epsilon = at(operands.inputs.last(), 0);
                let variance = if p.op == RowsOp::LayerNorm { squares - mean * mean } else { squares };
                let by = most / (variance.max(0.0) + epsilon).sqrt();
                for (column, place) in places.enumerate() {
                    let scale = if p.scaled { at(operands.inputs.get(1), column).abs() } else { 1.0 };
                    slack[place] = (by * scale) as f32;
                }
            }
        }
    }
    slack
}

/// For every element: values are averaged, a weight is off by what its exponent is, and an average of many by the rounding of sums.
pub(super) fn attention_slack(p: &Attention, operands: &Operands) -> f64 {
    let size = |input: usize| super::size(operands, input);
    let exponents = (p.depth as f64).sqrt() * size(0) * size(1);
    let values = operands.inputs.get(2);
    let finite =
        (0..values.map_or(0, Data::len)).map(|place| at(values, place)).filter(|value| value.is_finite());
    let most = finite.fold(0.0, |most: f64, value| most.max(value.abs()));
    most * (2.0 + 2.0 * exponents + (p.keys as f64).sqrt() / 4.0)
}

/// By element of the result: what was added up, or how often was multiplied.
pub(super) fn scan_slack(p: &Scan, operands: &Operands, values: &Data) -> Vec<f32> {
    if matches!(p.op, ScanOp::Max | ScanOp::Min) {
        return vec![];
    }
    let (len, inner) = (p.len as usize, p.inner as usize);
    let mut slack = vec![0.0f32; values.len()];
    for nth in 0..(p.outer * p.inner) as usize {
        let mut sizes = 0.0;
        for (steps, place) in row(nth, len, inner).enumerate() {
            let size = at(operands.inputs.first(), place).abs();
            sizes += if size.is_finite() { size } else { 0.0 };
            slack[place] = match p.op {
                ScanOp::Sum => sizes as f32,
                _ => (1.0 + (steps as f32).sqrt() / 4.0) * at(Some(values), place).abs() as f32,
            };
        }
    }
    slack
}
