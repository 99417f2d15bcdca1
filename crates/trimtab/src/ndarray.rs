//! Interop with the crate `ndarray`.

use crate::error::Error;
use crate::tensor::Tensor;
use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};
use trimtab_cpu::Element;

impl<T: Element> Tensor<T> {
    /// A tensor with a copy of the array's elements.
    ///
    /// ```
    /// use trimtab::Tensor;
    /// let array = ndarray::array![[1.0f32, 2.0], [3.0, 4.0]];
    /// let tensor = Tensor::from_ndarray(&array.t())?;
    /// assert_eq!(tensor.to_vec(), [1.0, 3.0, 2.0, 4.0]);
    /// assert_eq!(tensor.to_ndarray()?, array.t().into_dyn());
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn from_ndarray<S: Data<Elem = T>, D: Dimension>(
        array: &ArrayBase<S, D>,
    ) -> Result<Tensor<T>, Error> {
        Tensor::from_vec(array.iter().copied().collect(), array.shape())
    }

    /// An array with a copy of the elements.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let tensor = Tensor::from_vec(vec![1.0f32, 2.0], &[1, 2])?;
    /// assert_eq!(tensor.to_ndarray()?, ndarray::array![[1.0f32, 2.0]].into_dyn());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_ndarray(&self) -> Result<ArrayD<T>, Error> {
        ArrayD::from_shape_vec(IxDyn(self.shape()), self.to_vec()).map_err(|_| Error::ElementCount {
            shape: self.shape().to_vec(),
            needed: self.len(),
            found: self.len(),
        })
    }
}
