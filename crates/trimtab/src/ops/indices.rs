//! Where elements are along an axis, and elements as another type.

use super::calls::{self, Given, Spec};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::{AnyTensor, Tensor};
use trimtab_core::{ArgOp, DType};
use trimtab_operands::Element;

impl Runtime {
    /// The index of the smallest element along an axis, the first of equal ones; of what is not a number, if there is such. The
    /// result does not have the axis.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 4.0, 9.0, 4.0], &[2, 3])?;
    /// assert_eq!(rt.argmin(&x, 1)?.to_vec(), [1, 0]);
    /// assert_eq!(rt.argmax(&x, 0)?.to_vec(), [1, 1, 1]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn argmin<T: Element>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<i64>, Error> {
        self.arg(ArgOp::Min, tensor, axis, false, 1)
    }

    /// The index of the largest element along an axis, as [`Runtime::argmin`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 4.0, 9.0, 4.0], &[2, 3])?;
    /// assert_eq!(rt.argmax(&x, 1)?.to_vec(), [0, 1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn argmax<T: Element>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<i64>, Error> {
        self.arg(ArgOp::Max, tensor, axis, false, 1)
    }

    /// The indices along an axis that put its elements in order, equal ones as they are; what is not a number comes last.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![3.0f32, f32::NAN, 1.0, 3.0]);
    /// assert_eq!(rt.argsort(&x, 0, false)?.to_vec(), [2, 0, 3, 1]);
    /// assert_eq!(rt.argsort(&x, 0, true)?.to_vec(), [0, 3, 2, 1]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn argsort<T: Element>(
        &self,
        tensor: &Tensor<T>,
        axis: usize,
        descending: bool,
    ) -> Result<Tensor<i64>, Error> {
        self.arg(ArgOp::Sort, tensor, axis, descending, 0)
    }

    /// The indices of so many of the largest elements along an axis, the largest first.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![3.0f32, 1.0, 2.0, 4.0]);
    /// assert_eq!(rt.top_k(&x, 0, 2)?.to_vec(), [3, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn top_k<T: Element>(
        &self,
        tensor: &Tensor<T>,
        axis: usize,
        count: usize,
    ) -> Result<Tensor<i64>, Error> {
        self.arg(ArgOp::Top, tensor, axis, false, count)
    }

    fn arg<T: Element>(
        &self,
        op: ArgOp,
        tensor: &Tensor<T>,
        axis: usize,
        descending: bool,
        count: usize,
    ) -> Result<Tensor<i64>, Error> {
        let call = calls::arg(op, tensor.spec(), axis, descending, count)?;
        self.call(&call, &[Given::Tensor(&tensor.any)])?.try_into()
    }

    /// Every element as the nearest of another type: floats lose what is behind the point when they become whole numbers and end
    /// where the type does, whole numbers keep their lower bits, anything but zero is true.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1.9f32, -0.5, 300.0]);
    /// assert_eq!(rt.cast::<f32, u8>(&x)?.to_vec(), [1, 0, 255]);
    /// assert_eq!(rt.cast::<f32, bool>(&x)?.to_vec(), [true, true, true]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn cast<T: Element, U: Element>(&self, tensor: &Tensor<T>) -> Result<Tensor<U>, Error> {
        self.cast_any(&tensor.any, U::DTYPE)?.typed()
    }

    /// The same with types known at run time.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![1.9f32, -0.5]));
    /// assert_eq!(rt.cast_any(&x, DType::I32)?.typed::<i32>()?.to_vec(), [1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cast_any(&self, tensor: &AnyTensor, to: DType) -> Result<AnyTensor, Error> {
        if tensor.dtype() == to {
            return Ok(tensor.clone());
        }
        let call = calls::cast(Spec { dtype: tensor.dtype(), shape: tensor.shape() }, to)?;
        self.call(&call, &[Given::Tensor(tensor)])
    }
}
