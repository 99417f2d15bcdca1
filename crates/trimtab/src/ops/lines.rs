//! What is done along one axis: softmax, norms, variance, scans, sorting.

use super::Float;
use super::calls::{self, Given};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::{RowsOp, ScanOp};
use trimtab_operands::Element;

impl Runtime {
    /// `exp(x) / Σ exp(x)` along an axis, without overflow.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1000.0f32, 1000.0, 7.0, 7.0], &[2, 2])?;
    /// assert_eq!(rt.softmax(&x, 1)?.to_vec(), [0.5; 4]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn softmax<T: Float>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        self.rows(RowsOp::Softmax, tensor, axis)
    }

    /// The logarithm of the softmax, along an axis.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = rt.log_softmax(&Tensor::from(vec![7.0f32, 7.0]), 0)?;
    /// assert!(y.to_vec().iter().all(|y| (y + std::f32::consts::LN_2).abs() < 1e-5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn log_softmax<T: Float>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        self.rows(RowsOp::LogSoftmax, tensor, axis)
    }

    /// `log Σ exp(x)` along an axis, without overflow; the result does not have the axis.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let y = rt.logsumexp(&Tensor::from(vec![1000.0f32, 1000.0]), 0)?.item()?;
    /// assert!((y - 1000.0 - std::f32::consts::LN_2).abs() < 1e-3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn logsumexp<T: Float>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        self.rows(RowsOp::LogSumExp, tensor, axis)
    }

    /// The mean of squared distances from the mean, along an axis; the result does not have the axis.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f32, 3.0, 2.0, 6.0], &[2, 2])?;
    /// assert_eq!(rt.variance(&x, 1)?.to_vec(), [1.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn variance<T: Float>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        self.rows(RowsOp::Variance, tensor, axis)
    }

    /// What of [`RowsOp`] takes nothing but its elements.
    fn rows<T: Float>(&self, op: RowsOp, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        let call = calls::rows(op, tensor.spec(), axis)?;
        self.call(&call, &[Given::Tensor(&tensor.any)])?.try_into()
    }

    /// `(x - mean) / √(variance + ε)` along an axis, times a scale and plus a shift for each element along it.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f64, 3.0, -5.0, 5.0], &[2, 2])?;
    /// let scale = Tensor::full(&[2], 2.0)?;
    /// assert_eq!(rt.layer_norm(&x, 1, Some(&scale), None, 0.0)?.to_vec(), [-2.0, 2.0, -2.0, 2.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn layer_norm<T: Float>(
        &self,
        tensor: &Tensor<T>,
        axis: usize,
        scale: Option<&Tensor<T>>,
        shift: Option<&Tensor<T>>,
        epsilon: f64,
    ) -> Result<Tensor<T>, Error> {
        self.norm(RowsOp::LayerNorm, tensor, axis, scale, shift, epsilon)
    }

    /// `x / √(mean of x² + ε)` along an axis, times a scale for each element along it.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![2.0f64, -2.0, 4.0, 4.0], &[2, 2])?;
    /// assert_eq!(rt.rms_norm(&x, 1, None, 0.0)?.to_vec(), [1.0, -1.0, 1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rms_norm<T: Float>(
        &self,
        tensor: &Tensor<T>,
        axis: usize,
        scale: Option<&Tensor<T>>,
        epsilon: f64,
    ) -> Result<Tensor<T>, Error> {
        self.norm(RowsOp::RmsNorm, tensor, axis, scale, None, epsilon)
    }

    /// `softmax(q·kᵀ / √depth)·v` of each head: the last two axes of queries are how many and how deep, those of keys and values as many
    /// of each as the other; all axes before count heads. With `causal` a query sees keys up to its own place, the last one all.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let (q, k) = (Tensor::full(&[1, 2, 4], 0.0f32)?, Tensor::full(&[1, 2, 4], 1.0f32)?);
    /// let v = Tensor::from_vec(vec![1.0f32, 3.0], &[1, 2, 1])?;
    /// assert_eq!(rt.attention(&q, &k, &v, false)?.to_vec(), [2.0, 2.0]);
    /// assert_eq!(rt.attention(&q, &k, &v, true)?.to_vec(), [1.0, 2.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn attention<T: Float>(
        &self,
        queries: &Tensor<T>,
        keys: &Tensor<T>,
        values: &Tensor<T>,
        causal: bool,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::attention(queries.spec(), keys.spec(), values.spec(), causal)?;
        self.call(&call, &Given::all(&[Some(queries), Some(keys), Some(values)]))?.try_into()
    }

    fn norm<T: Float>(
        &self,
        op: RowsOp,
        tensor: &Tensor<T>,
        axis: usize,
        scale: Option<&Tensor<T>>,
        shift: Option<&Tensor<T>>,
        epsilon: f64,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::norm(op, tensor.spec(), axis, scale.map(Tensor::spec), shift.map(Tensor::spec))?;
        let mut given = Given::all(&[Some(tensor), scale, shift]);
        given.push(Given::Number(T::DTYPE, epsilon));
        self.call(&call, &given)?.try_into()
    }

    /// Every element with those before it along an axis, added up; integers wrap.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1, 2, 3, 4]);
    /// assert_eq!(rt.cumsum(&x, 0)?.to_vec(), [1, 3, 6, 10]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn cumsum<T: Element>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        self.scan(ScanOp::Sum, tensor, axis, false)
    }

    /// Any scan by name; `exclusive` leaves each element out of its own result.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::core::ScanOp;
    /// let x = Tensor::from(vec![1, 2, 3, 4]);
    /// assert_eq!(rt.scan(ScanOp::Prod, &x, 0, false)?.to_vec(), [1, 2, 6, 24]);
    /// assert_eq!(rt.scan(ScanOp::Sum, &x, 0, true)?.to_vec(), [0, 1, 3, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scan<T: Element>(
        &self,
        op: ScanOp,
        tensor: &Tensor<T>,
        axis: usize,
        exclusive: bool,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::scan(op, tensor.spec(), axis, exclusive)?;
        self.call(&call, &[Given::Tensor(&tensor.any)])?.try_into()
    }

    /// The elements along an axis in order, the smallest first; what is not a number comes last.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![3.0f32, -1.0, 2.0]);
    /// assert_eq!(rt.sort(&x, 0)?.to_vec(), [-1.0, 2.0, 3.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn sort<T: Element>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        self.sort_by(tensor, axis, false)
    }

    /// The same, the largest first; what is not a number comes last all the same.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![3.0f32, -1.0, 2.0]);
    /// assert_eq!(rt.sort_descending(&x, 0)?.to_vec(), [3.0, 2.0, -1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sort_descending<T: Element>(&self, tensor: &Tensor<T>, axis: usize) -> Result<Tensor<T>, Error> {
        self.sort_by(tensor, axis, true)
    }

    fn sort_by<T: Element>(
        &self,
        tensor: &Tensor<T>,
        axis: usize,
        descending: bool,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::sort(tensor.spec(), axis, descending)?;
        self.call(&call, &[Given::Tensor(&tensor.any)])?.try_into()
    }
}
