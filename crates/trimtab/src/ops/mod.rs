//! The operations: each checks shapes, builds the problem, and lets the runtime choose and run.

mod elementwise;
mod matmul;
mod reduce;
mod transpose;

pub use elementwise::Operand;
pub use reduce::Axis;

use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use std::borrow::Cow;
use trimtab_cpu::Element;

/// Types with fractions: what products, functions and means are defined for.
pub trait Float: Element {}
impl Float for f32 {}
impl Float for f64 {}
impl Float for trimtab_operands::f16 {}

fn sizes(shape: &[usize]) -> Vec<u64> {
    shape.iter().map(|&size| size as u64).collect()
}

impl Runtime {
    /// The elements in row-major order, copied only if they do not lie so.
    fn dense<'a, T: Element>(&self, tensor: &'a Tensor<T>) -> Result<Cow<'a, [T]>, Error> {
        match tensor.as_slice() {
            Some(slice) => Ok(Cow::Borrowed(slice)),
            None => {
                let dense = self.contiguous(tensor)?;
                Ok(Cow::Owned(dense.to_vec()))
            }
        }
    }
}
