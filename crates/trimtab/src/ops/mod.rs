//! The operations: each checks shapes, builds the problem, and lets the runtime choose and run.

mod blocks;
pub(crate) mod calls;
mod elementwise;
mod fft;
mod indices;
mod lines;
mod masks;
mod matmul;
mod places;
mod reduce;
mod transpose;
mod windows;

pub use elementwise::Operand;
pub use reduce::Axis;
pub use windows::Windows;

use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::{AnyTensor, Dims, MAX_TENSOR_RANK, Tensor, allocate_result, element_count};
use calls::{Call, Given, Spec};
use trimtab_core::{DType, Lookup, MAX_INPUTS};
use trimtab_operands::{Data, Element, Slice};

/// Types with fractions: what products, functions and means are defined for.
pub trait Float: Element<Total = Self> {}
impl Float for f32 {}
impl Float for f64 {}
impl Float for trimtab_operands::f16 {}
impl Float for trimtab_operands::bf16 {}

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

impl<T: Element> Tensor<T> {
    /// Its type and shape.
    fn spec(&self) -> Spec<'_> {
        Spec { dtype: T::DTYPE, shape: self.shape() }
    }
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

    /// Computes a call: at once where its operands lie in row-major order in the processor's memory, else as an expression of one
    /// operation, so that what lies on a device may be computed and stay there.
    fn call(&self, call: &Call, given: &[Given<'_>]) -> Result<AnyTensor, Error> {
        let number = |given: &Given<'_>| match given {
            Given::Tensor(_) => None,
            Given::Number(dtype, number) => Some(Data::of_numbers(*dtype, &[*number])),
        };
        let numbers: Vec<Data> = given.iter().filter_map(number).collect();
        let mut numbers = numbers.iter();
        let mut inputs = [Slice::None; MAX_INPUTS + 1];
        for (input, operand) in inputs.iter_mut().zip(given) {
            let slice = match operand {
                Given::Tensor(tensor) => tensor.on_host(),
                Given::Number(..) => numbers.next().map(Data::slice),
            };
            match slice {
                Some(slice) => *input = slice,
                None => return self.lazy_call(call, given).eval(),
            }
        }
        self.compute(&call.problem, &inputs[..given.len().min(inputs.len())], call.dtype, &call.shape)
    }
}
