//! The operations: each checks shapes, builds the problem, and lets the runtime choose and run.

mod elementwise;
mod lines;
mod matmul;
mod reduce;
mod transpose;
mod windows;

pub use elementwise::Operand;
pub use reduce::Axis;
pub use windows::Windows;

use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::{AnyTensor, Dims, MAX_TENSOR_RANK, Tensor, allocate_result, element_count};
use trimtab_core::{DType, Lookup};
use trimtab_operands::{Element, Slice};

/// Types with fractions: what products, functions and means are defined for.
pub trait Float: Element {}
impl Float for f32 {}
impl Float for f64 {}
impl Float for trimtab_operands::f16 {}

/// The shape of a tensor as problems take it.
pub(crate) fn sizes(shape: &[usize]) -> Dims<u64> {
    let mut sizes = [0; MAX_TENSOR_RANK];
    sizes.iter_mut().zip(shape).for_each(|(own, &size)| *own = size as u64);
    Dims::new(&sizes[..shape.len().min(MAX_TENSOR_RANK)]).unwrap_or_default()
}

/// The shape both fit when repeated, aligned at the last axis.
pub(crate) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let size =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    (0..rank)
        .map(|axis| match (size(a, axis), size(b, axis)) {
            (own, other) if own == other => Some(own),
            (1, other) | (other, 1) => Some(other),
            _ => None,
        })
        .collect()
}

impl Runtime {
    /// Computes a problem on operands in the caller's memory.
    fn compute(
        &self,
        problem: &impl Lookup,
        inputs: &[Slice<'_>],
        dtype: DType,
        shape: &[usize],
    ) -> Result<AnyTensor, Error> {
        let mut out = allocate_result(dtype, element_count(dtype, shape)?)?;
        self.execute_inputs(problem, inputs, out.slice_mut())?;
        AnyTensor::from_data(out, dtype, shape)
    }

    /// Computes a problem on tensors wherever and however they lie: views are copied in row-major order, values of other devices fetched.
    fn compute_dense<T: Element>(
        &self,
        problem: &impl Lookup,
        given: &[&Tensor<T>],
        shape: &[usize],
    ) -> Result<Tensor<T>, Error> {
        let dense = given.iter().map(|tensor| self.contiguous(tensor)).collect::<Result<Vec<_>, _>>()?;
        let fetched = dense.iter().map(|tensor| tensor.any.fetched()).collect::<Result<Vec<_>, _>>()?;
        let slices: Vec<Slice<'_>> =
            fetched.iter().map(|tensor| tensor.on_host().unwrap_or(Slice::None)).collect();
        self.compute(problem, &slices, T::DTYPE, shape).map(Tensor::wrap)
    }
}
