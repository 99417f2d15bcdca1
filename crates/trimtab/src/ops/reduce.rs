//! Reductions over everything or along an axis.

use super::{Float, sizes};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::{Reduce, ReduceOp};
use trimtab_operands::Element;

/// What a reduction runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// All elements; the result has no dimensions.
    All,
    /// One axis, which the result does not have.
    One(usize),
    /// One axis, of which the result has one element: it fits the operand again.
    ///
    /// ```
    /// use trimtab::{Axis, Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_vec(vec![1.0f32, 3.0, 2.0, 6.0], &[2, 2])?;
    /// let shares = rt.div(&a, &rt.sum(&a, Axis::Kept(1))?)?;
    /// assert_eq!(shares.to_vec(), [0.25, 0.75, 0.25, 0.75]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    Kept(usize),
}

impl Axis {
    /// Its number, if it is one.
    pub(crate) fn number(self) -> Option<usize> {
        match self {
            Axis::All => None,
            Axis::One(axis) | Axis::Kept(axis) => Some(axis),
        }
    }

    /// The shape of what a reduction of that shape leaves.
    pub(crate) fn left_of(self, shape: &[usize]) -> Vec<usize> {
        let left = |(at, &size): (usize, &usize)| match self {
            Axis::All => None,
            Axis::One(axis) => (at != axis).then_some(size),
            Axis::Kept(axis) => Some(if at == axis { 1 } else { size }),
        };
        shape.iter().enumerate().filter_map(left).collect()
    }
}

impl From<usize> for Axis {
    fn from(axis: usize) -> Axis {
        Axis::One(axis)
    }
}

impl Runtime {
    /// The sum, at least pairwise-accurate. Of integers: exact, or an error if it does not fit.
    ///
    /// ```
    /// use trimtab::{Axis, Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    /// assert_eq!(rt.sum(&a, Axis::All)?.item()?, 21.0);
    /// assert_eq!(rt.sum(&a, 0)?.to_vec(), [5.0, 7.0, 9.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn sum<T: Element>(
        &self,
        tensor: &Tensor<T>,
        axis: impl Into<Axis>,
    ) -> Result<Tensor<T::Total>, Error> {
        self.reduce_to(ReduceOp::Sum, tensor, axis)
    }

    /// The arithmetic mean.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.mean(&x, 1)?.to_vec(), [3.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mean<T: Float>(&self, tensor: &Tensor<T>, axis: impl Into<Axis>) -> Result<Tensor<T>, Error> {
        self.reduce(ReduceOp::Mean, tensor, axis)
    }

    /// The smallest element; a NaN wins. See [`Runtime::minimum`] for the smaller of two tensors.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.min(&x, 1)?.to_vec(), [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn min<T: Element>(&self, tensor: &Tensor<T>, axis: impl Into<Axis>) -> Result<Tensor<T>, Error> {
        self.reduce(ReduceOp::Min, tensor, axis)
    }

    /// The largest element; a NaN wins. See [`Runtime::maximum`] for the larger of two tensors.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.max(&x, Axis::All)?.item()?, 5.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max<T: Element>(&self, tensor: &Tensor<T>, axis: impl Into<Axis>) -> Result<Tensor<T>, Error> {
        self.reduce(ReduceOp::Max, tensor, axis)
    }

    /// The product. Of integers: exact, or an error if it does not fit.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.prod(&x, 1)?.to_vec(), [5.0, 8.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prod<T: Element>(
        &self,
        tensor: &Tensor<T>,
        axis: impl Into<Axis>,
    ) -> Result<Tensor<T::Total>, Error> {
        self.reduce_to(ReduceOp::Prod, tensor, axis)
    }

    /// Any reduction by name whose result is of the same type; sums and products of small integers are not.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::ReduceOp;
    /// let x = Tensor::from_vec(vec![1.0f32, 5.0, 4.0, 2.0], &[2, 2])?;
    /// assert_eq!(rt.reduce(ReduceOp::Min, &x, 0)?.to_vec(), [1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reduce<T: Element>(
        &self,
        op: ReduceOp,
        tensor: &Tensor<T>,
        axis: impl Into<Axis>,
    ) -> Result<Tensor<T>, Error> {
        self.reduce_to(op, tensor, axis)
    }

    /// A reduction whose result is of that type, or an error that says of which it is.
    fn reduce_to<T: Element, U: Element>(
        &self,
        op: ReduceOp,
        tensor: &Tensor<T>,
        axis: impl Into<Axis>,
    ) -> Result<Tensor<U>, Error> {
        let axis = axis.into();
        let Some(input) = tensor.any.on_host() else {
            return self.lazy_any(&tensor.any).reduce(op, axis).eval()?.typed();
        };
        let problem = Reduce::new(op, T::DTYPE, &sizes(tensor.shape()), axis.number())?;
        self.compute(&problem, &[input], problem.out_dtype(), &axis.left_of(tensor.shape()))?.typed()
    }
}
