//! Operations as problems: from the types and shapes of operands to what is asked and the shape of the result. Eager calls and
//! expressions both ask here, so that every rule about shapes is written once.

mod blocks;
mod places;

pub(crate) use blocks::{compare, concat, pad, select, slice_assign};
pub(crate) use places::{scatter_add, scatter_add_along, take, take_along};

use super::{Windows, sizes};
use crate::error::Error;
use crate::tensor::{AnyTensor, Dims, Tensor, dims};
use trimtab_core::{
    Arg, ArgOp, Attention, Cast, Conv, DType, Fft, FftOp, Moves, Pool, PoolOp, Problem, Rows, RowsOp, Scan,
    ScanOp, Sort, UnaryOp,
};
use trimtab_operands::Element;

/// The type and shape of an operand.
#[derive(Clone, Copy)]
pub(crate) struct Spec<'a> {
    pub dtype: DType,
    pub shape: &'a [usize],
}

/// What an operation asks of operands that fit it, and what comes of it.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub problem: Problem,
    /// The result's type and shape.
    pub dtype: DType,
    pub shape: Dims<usize>,
}

impl Call {
    /// An operation on operands whose shapes fit, in the problem's order; whether their types do is found out here.
    fn new<'a>(
        problem: impl Into<Problem>,
        shape: &[usize],
        of: Spec<'a>,
        beside: impl IntoIterator<Item = Spec<'a>>,
    ) -> Result<Call, Error> {
        let problem = problem.into();
        for (place, operand) in [of].into_iter().chain(beside).enumerate() {
            if let Some(lhs) = problem.input_dtype(place).filter(|wanted| *wanted != operand.dtype) {
                let operation = problem.operation().name().to_string();
                return Err(Error::MixedTypes { operation, lhs, rhs: operand.dtype });
            }
        }
        Ok(Call { problem, dtype: problem.out_dtype().unwrap_or(of.dtype), shape: dims(shape)? })
    }
}

/// An operand of a call.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    Tensor(&'a AnyTensor),
    Number(DType, f64),
}

impl<'a> Given<'a> {
    /// Operands in order, those that are there.
    pub(super) fn all<T: Element>(of: &[Option<&'a Tensor<T>>]) -> Vec<Given<'a>> {
        of.iter().flatten().map(|tensor| Given::Tensor(&tensor.any)).collect()
    }
}

/// What of [`RowsOp`] takes nothing but its elements: all but norms.
pub(crate) fn rows(op: RowsOp, of: Spec<'_>, axis: usize) -> Result<Call, Error> {
    let problem = Rows::new(op, of.dtype, &sizes(of.shape), axis)?;
    let kept = |at: &usize| *at != axis || !op.reduces();
    let shape: Vec<usize> = (0..of.shape.len()).filter(kept).map(|at| of.shape[at]).collect();
    Call::new(problem, &shape, of, [])
}

/// A norm with a scale and a shift where there are some; ε is its last operand.
pub(crate) fn norm(
    op: RowsOp,
    of: Spec<'_>,
    axis: usize,
    scale: Option<Spec<'_>>,
    shift: Option<Spec<'_>>,
) -> Result<Call, Error> {
    let problem = Rows::new(op, of.dtype, &sizes(of.shape), axis)?;
    let problem = problem.with(scale.is_some(), shift.is_some())?;
    let len = of.shape.get(axis).copied().unwrap_or(0);
    let mut beside = scale.into_iter().chain(shift);
    if let Some(wrong) = beside.find(|beside| beside.shape != [len]) {
        let reason = format!("a scale or shift has one element for each of {len} along the axis");
        let (lhs, rhs) = (of.shape.to_vec(), wrong.shape.to_vec());
        return Err(Error::Shapes { operation: op.name(), lhs, rhs, reason });
    }
    Call::new(problem, of.shape, of, scale.into_iter().chain(shift))
}

/// Values weighted by how well keys fit queries: the last two axes are of one head, all before count heads.
pub(crate) fn attention(
    queries: Spec<'_>,
    keys: Spec<'_>,
    values: Spec<'_>,
    causal: bool,
) -> Result<Call, Error> {
    let wrong = |lhs: Spec<'_>, rhs: Spec<'_>, reason: &str| {
        let (lhs, rhs) = (lhs.shape.to_vec(), rhs.shape.to_vec());
        Err(Error::Shapes { operation: "attention", lhs, rhs, reason: reason.to_string() })
    };
    let sides = |of: Spec<'_>| of.shape.len().checked_sub(2).map(|at| (of.shape[at], of.shape[at + 1]));
    let (Some((count, depth)), Some((seen, of_keys)), Some((given, width))) =
        (sides(queries), sides(keys), sides(values))
    else {
        return wrong(
            queries,
            keys,
            "queries, keys and values have two axes at least: how many, and how deep",
        );
    };
    let heads = &queries.shape[..queries.shape.len() - 2];
    if heads != &keys.shape[..keys.shape.len() - 2] || heads != &values.shape[..values.shape.len() - 2] {
        return wrong(
            queries,
            keys,
            "the axes before the last two, the heads, are the same for queries, keys and values",
        );
    }
    if depth != of_keys {
        return wrong(queries, keys, "a query and a key have as many elements");
    }
    if seen != given {
        return wrong(keys, values, "there is a value for every key");
    }
    let batch = sizes(heads).iter().fold(1u64, |all, size| all.saturating_mul(*size));
    let of = [batch, count as u64, seen as u64, depth as u64, width as u64];
    let mut shape = queries.shape.to_vec();
    shape[queries.shape.len() - 1] = width;
    Call::new(Attention::new(queries.dtype, of, causal)?, &shape, queries, [keys, values])
}

/// Every element with those before it along an axis.
pub(crate) fn scan(op: ScanOp, of: Spec<'_>, axis: usize, exclusive: bool) -> Result<Call, Error> {
    Call::new(Scan::new(op, of.dtype, &sizes(of.shape), axis, exclusive)?, of.shape, of, [])
}

/// Elements along an axis in order.
pub(crate) fn sort(of: Spec<'_>, axis: usize, descending: bool) -> Result<Call, Error> {
    Call::new(Sort::new(of.dtype, &sizes(of.shape), axis, descending)?, of.shape, of, [])
}

/// Indices along an axis; `count` is how many of the largest there are to be.
pub(crate) fn arg(
    op: ArgOp,
    of: Spec<'_>,
    axis: usize,
    descending: bool,
    count: usize,
) -> Result<Call, Error> {
    let problem = Arg::new(op, of.dtype, &sizes(of.shape), axis, descending, count as u64)?;
    let mut shape = of.shape.to_vec();
    match op {
        ArgOp::Min | ArgOp::Max => drop(shape.remove(axis)),
        ArgOp::Sort => (),
        ArgOp::Top => shape[axis] = count,
    }
    Call::new(problem, &shape, of, [])
}

/// Elements as another type.
pub(crate) fn cast(of: Spec<'_>, to: DType) -> Result<Call, Error> {
    Call::new(Cast::new(of.dtype, to, &sizes(of.shape))?, of.shape, of, [])
}

/// Spectra of so many axes at the end; `len` is the last size of a real result.
pub(crate) fn fft(op: FftOp, of: Spec<'_>, axes: usize, len: usize) -> Result<Call, Error> {
    let mut real = of.shape.to_vec();
    let mut made = of.shape.to_vec();
    match (op, real.last_mut(), made.last_mut()) {
        (FftOp::InverseReal, Some(real), Some(made)) => {
            if *real != len / 2 + 1 {
                let reason = format!("{len} real numbers have {} bins, the operand has {real}", len / 2 + 1);
                let lhs = of.shape.to_vec();
                return Err(Error::Shapes { operation: "irfft", lhs, rhs: vec![len], reason });
            }
            (*real, *made) = (len, len);
        }
        (FftOp::Real, Some(real), Some(made)) => *made = *real / 2 + 1,
        _ => (),
    }
    Call::new(Fft::new(op, of.dtype, &sizes(&real), axes)?, &made, of, [])
}

/// A convolution, perhaps with a bias and a function at the end.
pub(crate) fn conv(
    operand: Spec<'_>,
    weights: Spec<'_>,
    windows: &Windows<'_>,
    bias: Option<Spec<'_>>,
    act: Option<UnaryOp>,
) -> Result<Call, Error> {
    let (x, w) = (sizes(operand.shape), sizes(weights.shape));
    let of =
        |moves: Moves<'_>| Conv::new(operand.dtype, windows.channels, &x, &w, moves, windows.groups as u64);
    let problem = windows.with(of)?.ending(bias.is_some(), act)?;
    if let Some(bias) = bias.filter(|bias| bias.shape != [problem.outputs()]) {
        let reason =
            format!("a bias has one element for each of {} channels of the result", problem.outputs());
        let (lhs, rhs) = (weights.shape.to_vec(), bias.shape.to_vec());
        return Err(Error::Shapes { operation: "conv", lhs, rhs, reason });
    }
    Call::new(problem, &shape_of(&problem.out_shape()), operand, [weights].into_iter().chain(bias))
}

/// Of every window one element.
pub(crate) fn pool(op: PoolOp, of: Spec<'_>, window: &[usize], windows: &Windows<'_>) -> Result<Call, Error> {
    let (x, window) = (sizes(of.shape), sizes(window));
    let problem = windows.with(|moves| Pool::new(op, of.dtype, windows.channels, &x, &window, moves))?;
    Call::new(problem, &shape_of(&problem.out_shape()), of, [])
}

fn shape_of(sizes: &[u64]) -> Vec<usize> {
    sizes.iter().map(|&size| size as usize).collect()
}
