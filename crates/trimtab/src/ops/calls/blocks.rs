//! Calls of masks and of blocks.

use super::{Call, Spec};
use crate::error::Error;
use crate::ops::{broadcast, sizes};
use trimtab_core::{Concat, Mask, MaskOp, Put};

/// Truth values of a comparison.
pub(crate) fn compare(op: MaskOp, a: Spec<'_>, b: Spec<'_>) -> Result<Call, Error> {
    let problem = Mask::new(op, a.dtype, &[&sizes(a.shape), &sizes(b.shape)])?;
    Call::new(problem, &broadcast(a.shape, b.shape).unwrap_or_default(), a, [b])
}

/// Elements of one where a mask is true, else of another.
pub(crate) fn select(mask: Spec<'_>, yes: Spec<'_>, no: Spec<'_>) -> Result<Call, Error> {
    let shapes = [mask, yes, no].map(|of| sizes(of.shape));
    let problem = Mask::new(MaskOp::Where, yes.dtype, &[&shapes[0], &shapes[1], &shapes[2]])?;
    let both = broadcast(yes.shape, no.shape).unwrap_or_default();
    Call::new(problem, &broadcast(mask.shape, &both).unwrap_or_default(), mask, [yes, no])
}

/// Operands side by side along an axis.
pub(crate) fn concat(of: &[Spec<'_>], axis: usize) -> Result<Call, Error> {
    let shapes: Vec<_> = of.iter().map(|of| sizes(of.shape)).collect();
    let shapes: Vec<&[u64]> = shapes.iter().map(|shape| &**shape).collect();
    let Some((first, others)) = of.split_first() else {
        let reason = "there is nothing to put side by side".to_string();
        return Err(Error::Shapes { operation: "concat", lhs: vec![], rhs: vec![], reason });
    };
    let problem = Concat::new(first.dtype, &shapes, axis)?;
    let mut shape = first.shape.to_vec();
    shape[axis] = of.iter().map(|of| of.shape[axis]).sum();
    Call::new(problem, &shape, *first, others.iter().copied())
}

/// A block with a number around it: so many before and behind along each axis. The number is the first operand.
pub(crate) fn pad(number: Spec<'_>, of: Spec<'_>, by: &[(usize, usize)]) -> Result<Call, Error> {
    let wrong = |reason: String| Error::Shapes {
        operation: "pad",
        lhs: of.shape.to_vec(),
        rhs: vec![by.len()],
        reason,
    };
    if by.len() != of.shape.len() {
        return Err(wrong("there is a pair, before and behind, for each axis".to_string()));
    }
    let padded =
        |(size, (before, behind)): (&usize, &(usize, usize))| size.checked_add(*before)?.checked_add(*behind);
    let shape: Option<Vec<usize>> = of.shape.iter().zip(by).map(padded).collect();
    let shape = shape.ok_or_else(|| wrong("sizes are more than this machine can address".to_string()))?;
    let first: Vec<u64> = by.iter().map(|(before, _)| *before as u64).collect();
    let problem = Put::new(of.dtype, &sizes(&shape), &sizes(of.shape), &first, true)?;
    Call::new(problem, &shape, number, [of])
}

/// A copy with a block in the place of what begins at an index.
pub(crate) fn slice_assign(of: Spec<'_>, block: Spec<'_>, first: &[usize]) -> Result<Call, Error> {
    let first: Vec<u64> = first.iter().map(|&at| at as u64).collect();
    let problem = Put::new(of.dtype, &sizes(of.shape), &sizes(block.shape), &first, false)?;
    Call::new(problem, of.shape, of, [block])
}
