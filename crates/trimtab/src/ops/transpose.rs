//! Reordering axes, and copies of views in row-major order.

use super::sizes;
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::{Tensor, allocate_result, can_allocate};
use trimtab_core::Transpose;
use trimtab_cpu::Element;

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
    pub fn transpose<T: Element>(&self, tensor: &Tensor<T>) -> Result<Tensor<T>, Error> {
        self.contiguous(&tensor.transposed())
    }

    /// The same tensor in row-major order; shares the data if it lies so already.
    pub fn contiguous<T: Element>(&self, tensor: &Tensor<T>) -> Result<Tensor<T>, Error> {
        if tensor.is_contiguous() {
            return Ok(tensor.clone());
        }
        if let Some((stored, axes, data)) = tensor.as_permutation() {
            // A view the problem cannot hold (over six axes that all move) is gathered below.
            if let Ok(problem) = Transpose::new(T::DTYPE, &sizes(&stored), &axes) {
                let mut out = allocate_result(tensor.len())?;
                self.execute(&problem, data, &[], &mut out)?;
                return Tensor::from_vec(out, tensor.shape());
            }
        }
        // A repeated view may be far larger than the data it shows.
        can_allocate::<T>(tensor.len())?;
        Tensor::from_vec(tensor.to_vec(), tensor.shape())
    }
}
