//! Tensors side by side, with a margin, and with a part replaced.

use super::calls::{self, Given};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::MAX_PARTS;
use trimtab_operands::Element;

impl Runtime {
    /// Tensors side by side along an axis; sizes along the others are the same.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (a, b) = (Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?, Tensor::from_vec(vec![5, 6], &[2, 1])?);
    /// assert_eq!(rt.concat(&[&a, &b], 1)?.to_vec(), [1, 2, 5, 3, 4, 6]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn concat<T: Element>(&self, tensors: &[&Tensor<T>], axis: usize) -> Result<Tensor<T>, Error> {
        // More than one launch takes: some at a time, then those.
        if tensors.len() > MAX_PARTS {
            let some = |some: &[&Tensor<T>]| self.concat(some, axis);
            let joined: Vec<Tensor<T>> = tensors.chunks(MAX_PARTS).map(some).collect::<Result<_, _>>()?;
            return self.concat(&joined.iter().collect::<Vec<_>>(), axis);
        }
        let specs: Vec<_> = tensors.iter().map(|tensor| tensor.spec()).collect();
        let call = calls::concat(&specs, axis)?;
        let given: Vec<Given<'_>> = tensors.iter().map(|tensor| Given::Tensor(&tensor.any)).collect();
        self.call(&call, &given)?.typed()
    }

    /// A tensor with a number around it: so many elements before and behind along each axis.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1, 2], &[1, 2])?;
    /// assert_eq!(rt.pad(&x, &[(1, 0), (0, 1)], 7)?.to_vec(), [7, 7, 7, 1, 2, 7]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn pad<T: Element>(
        &self,
        tensor: &Tensor<T>,
        by: &[(usize, usize)],
        number: T,
    ) -> Result<Tensor<T>, Error> {
        let number = Tensor::scalar(number);
        let call = calls::pad(number.spec(), tensor.spec(), by)?;
        self.call(&call, &[Given::Tensor(&number.any), Given::Tensor(&tensor.any)])?.typed()
    }

    /// A copy with a block in the place of what begins at an index: `copy[first..first + shape of the block] = block`.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (x, block) = (Tensor::<i32>::zeros(&[2, 3])?, Tensor::full(&[1, 2], 4)?);
    /// assert_eq!(rt.slice_assign(&x, &[1, 1], &block)?.to_vec(), [0, 0, 0, 0, 4, 4]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn slice_assign<T: Element>(
        &self,
        tensor: &Tensor<T>,
        first: &[usize],
        block: &Tensor<T>,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::slice_assign(tensor.spec(), block.spec(), first)?;
        self.call(&call, &[Given::Tensor(&tensor.any), Given::Tensor(&block.any)])?.typed()
    }
}
