//! Calls of what finds elements by index.

use super::{Call, Spec};
use crate::error::Error;
use crate::ops::sizes;
use trimtab_core::{Gather, Scatter};

/// How many elements there are; sizes that cannot be multiplied are refused when a problem is made of them.
fn count(shape: &[usize]) -> u64 {
    shape.iter().fold(1u64, |count, &size| count.saturating_mul(size as u64))
}

/// The shape with an axis replaced by other axes; as it is where there is no such axis, which problems refuse.
fn replaced(shape: &[usize], axis: usize, by: &[usize]) -> Vec<usize> {
    let axis = axis.min(shape.len());
    [&shape[..axis], by, shape.get(axis + 1..).unwrap_or_default()].concat()
}

/// Elements along an axis by a list of indices, whose shape takes the axis' place.
pub(crate) fn take(of: Spec<'_>, indices: Spec<'_>, axis: usize) -> Result<Call, Error> {
    let problem = Gather::new(of.dtype, indices.dtype, &sizes(of.shape), axis, count(indices.shape), false)?;
    Call::new(problem, &replaced(of.shape, axis, indices.shape), of, [indices])
}

/// Whether indices fit what each of them is of: as many axes, and as long but for one.
fn fits(operation: &'static str, of: Spec<'_>, indices: Spec<'_>, axis: usize) -> Result<u64, Error> {
    let along = indices.shape.get(axis).copied().unwrap_or(0);
    if indices.shape.len() != of.shape.len() || replaced(of.shape, axis, &[along]) != indices.shape {
        let reason = format!("indices have the same sizes along every axis but axis {axis}");
        let (lhs, rhs) = (of.shape.to_vec(), indices.shape.to_vec());
        return Err(Error::Shapes { operation, lhs, rhs, reason });
    }
    Ok(along as u64)
}

/// Elements along an axis, each by an index of its own.
pub(crate) fn take_along(of: Spec<'_>, indices: Spec<'_>, axis: usize) -> Result<Call, Error> {
    let along = fits("take_along", of, indices, axis)?;
    let problem = Gather::new(of.dtype, indices.dtype, &sizes(of.shape), axis, along, true)?;
    Call::new(problem, indices.shape, of, [indices])
}

/// Rows added along an axis where a list of indices says.
pub(crate) fn scatter_add(
    of: Spec<'_>,
    indices: Spec<'_>,
    added: Spec<'_>,
    axis: usize,
) -> Result<Call, Error> {
    let wanted = replaced(of.shape, axis, indices.shape);
    let problem = Scatter::new(of.dtype, indices.dtype, &sizes(of.shape), axis, count(indices.shape), false)?;
    if added.shape != wanted {
        let reason = format!(
            "what is added has the shape {wanted:?}: that of the indices in the place of axis {axis}"
        );
        let (lhs, rhs) = (of.shape.to_vec(), added.shape.to_vec());
        return Err(Error::Shapes { operation: "scatter_add", lhs, rhs, reason });
    }
    Call::new(problem, of.shape, of, [indices, added])
}

/// Elements added along an axis, each where an index of its own says.
pub(crate) fn scatter_add_along(
    of: Spec<'_>,
    indices: Spec<'_>,
    added: Spec<'_>,
    axis: usize,
) -> Result<Call, Error> {
    let along = fits("scatter_add_along", of, indices, axis)?;
    if added.shape != indices.shape {
        let reason = "what is added has an index each".to_string();
        let (lhs, rhs) = (indices.shape.to_vec(), added.shape.to_vec());
        return Err(Error::Shapes { operation: "scatter_add_along", lhs, rhs, reason });
    }
    let problem = Scatter::new(of.dtype, indices.dtype, &sizes(of.shape), axis, along, true)?;
    Call::new(problem, of.shape, of, [indices, added])
}
