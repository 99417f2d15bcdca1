//! Elements by index: taken, looked up, added.

use super::calls::{self, Given};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_operands::Element;

impl Runtime {
    /// The elements along an axis that a list of indices names; the shape of the indices takes the axis' place. Indices are i32 or i64,
    /// negative ones count from the end, and one that is not there is an error that names it.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])?;
    /// let rows = Tensor::from(vec![2i64, 0, -1]);
    /// assert_eq!(rt.take(&x, &rows, 0)?.to_vec(), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    /// let told = rt.take(&x, &rows, 1).unwrap_err().to_string();
    /// assert!(told.contains("index 2, number 0 of the indices, is not in an axis of 2"), "{told}");
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn take<T: Element, I: Element>(
        &self,
        tensor: &Tensor<T>,
        indices: &Tensor<I>,
        axis: usize,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::take(tensor.spec(), indices.spec(), axis)?;
        self.call(&call, &[Given::Tensor(&tensor.any), Given::Tensor(&indices.any)])?.typed()
    }

    /// The elements along an axis, each by an index of its own: what [`Runtime::argsort`] and [`Runtime::top_k`] name.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 4.0, 9.0, 5.0], &[2, 3])?;
    /// let largest = rt.top_k(&x, 1, 2)?;
    /// assert_eq!(rt.take_along(&x, &largest, 1)?.to_vec(), [3.0, 2.0, 9.0, 5.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn take_along<T: Element, I: Element>(
        &self,
        tensor: &Tensor<T>,
        indices: &Tensor<I>,
        axis: usize,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::take_along(tensor.spec(), indices.spec(), axis)?;
        self.call(&call, &[Given::Tensor(&tensor.any), Given::Tensor(&indices.any)])?.typed()
    }

    /// The rows of a table that indices name: [`Runtime::take`] along the first axis.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let table = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[3, 2])?;
    /// let words = Tensor::from(vec![2i64, 0]);
    /// assert_eq!(rt.embedding(&table, &words)?.to_vec(), [5.0, 6.0, 1.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn embedding<T: Element, I: Element>(
        &self,
        table: &Tensor<T>,
        indices: &Tensor<I>,
    ) -> Result<Tensor<T>, Error> {
        self.take(table, indices, 0)
    }

    /// A copy with rows added along an axis, each where a list of indices says: `added` has the shape of the indices in the place of the axis.
    /// What has the same index is all added; integers wrap, and in which order floats are added is not said.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let counts = Tensor::<i32>::zeros(&[3])?;
    /// let (bins, ones) = (Tensor::from(vec![0i64, 2, 2, -1]), Tensor::full(&[4], 1)?);
    /// assert_eq!(rt.scatter_add(&counts, &bins, &ones, 0)?.to_vec(), [1, 0, 3]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn scatter_add<T: Element, I: Element>(
        &self,
        tensor: &Tensor<T>,
        indices: &Tensor<I>,
        added: &Tensor<T>,
        axis: usize,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::scatter_add(tensor.spec(), indices.spec(), added.spec(), axis)?;
        let given = [&tensor.any, &indices.any, &added.any].map(Given::Tensor);
        self.call(&call, &given)?.typed()
    }

    /// A copy with elements added along an axis, each where an index of its own says.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (x, at) = (Tensor::<i32>::zeros(&[2, 2])?, Tensor::from_vec(vec![1i64, 1, 0, 1], &[2, 2])?);
    /// let added = Tensor::from_vec(vec![1, 2, 3, 4], &[2, 2])?;
    /// assert_eq!(rt.scatter_add_along(&x, &at, &added, 1)?.to_vec(), [0, 3, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scatter_add_along<T: Element, I: Element>(
        &self,
        tensor: &Tensor<T>,
        indices: &Tensor<I>,
        added: &Tensor<T>,
        axis: usize,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::scatter_add_along(tensor.spec(), indices.spec(), added.spec(), axis)?;
        let given = [&tensor.any, &indices.any, &added.any].map(Given::Tensor);
        self.call(&call, &given)?.typed()
    }
}
