//! Reordering axes, and copies of views in row-major order.

use super::sizes;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::{AnyTensor, Tensor};
use trimtab_core::Transpose;
use trimtab_operands::Element;

impl Runtime {
    /// A copy with the axes in another order: axis `i` of the result is axis `axes[i]`.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(rt.permute(&a, &[1, 0])?.to_vec(), [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn permute<T: Element>(&self, tensor: &Tensor<T>, axes: &[usize]) -> Result<Tensor<T>, Error> {
        self.contiguous(&tensor.permuted(axes)?)
    }

    /// A copy with the order of axes reversed.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4, 5, 6], &[2, 3])?;
    /// assert_eq!(rt.transpose(&a)?.as_slice(), Some(&[1, 4, 2, 5, 3, 6][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transpose<T: Element>(&self, tensor: &Tensor<T>) -> Result<Tensor<T>, Error> {
        self.contiguous(&tensor.transposed())
    }

    /// The same tensor in row-major order; shares the data if it lies so already.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let a = Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?;
    /// assert!(rt.contiguous(&a.transposed())?.is_contiguous());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn contiguous<T: Element>(&self, tensor: &Tensor<T>) -> Result<Tensor<T>, Error> {
        self.contiguous_any(&tensor.any).map(Tensor::wrap)
    }

    pub(crate) fn contiguous_any(&self, tensor: &AnyTensor) -> Result<AnyTensor, Error> {
        if tensor.is_contiguous() {
            return Ok(tensor.clone());
        }
        let dtype = tensor.dtype();
        if let Some((stored, axes)) = tensor.as_stored() {
            // A view the problem cannot hold (over six axes that all move) is gathered below.
            match (Transpose::new(dtype, &sizes(stored.shape()), &axes), stored.on_host()) {
                (Ok(problem), Some(data)) => return self.compute(&problem, &[data], dtype, tensor.shape()),
                (Ok(_), None) => return self.lazy_any(&stored).permute(&axes).eval(),
                (Err(_), _) => (),
            }
        }
        AnyTensor::from_data(tensor.gathered()?, dtype, tensor.shape())
    }
}
