//! Methods of expressions for operations that are calls: convolution, pooling, rows, scans, sorting, indices, casts.

use super::node::Node;
use super::{AnyExpression, AnyTerm, Expression, Term};
use crate::ops::calls::{self, Call, Given};
use crate::ops::{Float, Windows};
use crate::runtime::Runtime;
use std::sync::Arc;
use trimtab_core::{ArgOp, DType, PoolOp, RowsOp, ScanOp, UnaryOp};
use trimtab_operands::Element;

impl Runtime {
    /// A call of operands that are there, as an expression.
    pub(crate) fn lazy_call(&self, call: &Call, given: &[Given<'_>]) -> AnyExpression {
        let node = |given: &Given<'_>| match given {
            Given::Tensor(tensor) => Node::given(tensor),
            Given::Number(dtype, number) => Node::number(*number, *dtype),
        };
        AnyExpression { rt: self.clone(), node: Node::called(Ok(*call), given.iter().map(node).collect()) }
    }
}

/// Methods of one operand and nothing but numbers beside it, of expressions with a type and without.
macro_rules! methods {
    ($($bound:ident { $($(#[$doc:meta])* $name:ident($($with:ident: $type:ty),*) = |$of:ident| $call:expr;)* })*) => {
        impl AnyExpression {
            $($($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> AnyExpression {
                let $of = self.node.spec();
                self.with(Node::called($call, vec![Arc::clone(&self.node)]))
            })*)*
        }
        $(impl<T: $bound> Expression<T> {
            $($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> Expression<T> {
                Expression::wrap(self.any().$name($($with),*))
            })*
        })*
    };
}

methods! {
    Float {
        /// `exp(x) / Σ exp(x)` along an axis, as [`Runtime::softmax`].
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from_vec(vec![1.0f32, 1.0, 7.0, 7.0], &[2, 2])?;
        /// assert_eq!(rt.lazy(&x).softmax(1).to_vec()?, [0.5; 4]);
        /// assert_eq!(rt.lazy(&x).any().softmax(1).shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        softmax(axis: usize) = |x| calls::rows(RowsOp::Softmax, x, axis);
        /// The logarithm of the softmax, along an axis.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from_vec(vec![1.0f32, 1.0, 7.0, 7.0], &[2, 2])?;
        /// assert!(rt.lazy(&x).log_softmax(1).to_vec()?.iter().all(|y| (y + std::f32::consts::LN_2).abs() < 1e-5));
        /// assert_eq!(rt.lazy(&x).any().log_softmax(1).shape(), [2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        log_softmax(axis: usize) = |x| calls::rows(RowsOp::LogSoftmax, x, axis);
        /// `log Σ exp(x)` along an axis, which the result does not have.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from_vec(vec![1.0f32, 1.0, 7.0, 7.0], &[2, 2])?;
        /// assert!((rt.lazy(&x).logsumexp(1).to_vec()?[0] - 1.0 - std::f32::consts::LN_2).abs() < 1e-5);
        /// assert_eq!(rt.lazy(&x).any().logsumexp(1).shape(), [2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        logsumexp(axis: usize) = |x| calls::rows(RowsOp::LogSumExp, x, axis);
        /// The mean of squared distances from the mean, along an axis, which the result does not have.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from_vec(vec![1.0f32, 3.0, 2.0, 6.0], &[2, 2])?;
        /// assert_eq!(rt.lazy(&x).variance(1).to_vec()?, [1.0, 4.0]);
        /// assert_eq!(rt.lazy(&x).any().variance(1).shape(), [2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        variance(axis: usize) = |x| calls::rows(RowsOp::Variance, x, axis);
        /// Any pooling by name, as [`Runtime::pool`].
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::{Windows, advanced::core::PoolOp};
        /// let x = Tensor::from_fn(&[1, 1, 4, 4], |i| i as f32)?;
        /// let windows = Windows { stride: &[2], ..Windows::default() };
        /// assert_eq!(rt.lazy(&x).pool(PoolOp::Max, &[2, 2], &windows).to_vec()?, [5.0, 7.0, 13.0, 15.0]);
        /// assert_eq!(rt.lazy(&x).any().pool(PoolOp::Max, &[2, 2], &windows).shape(), [1, 1, 2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        pool(op: PoolOp, window: &[usize], windows: &Windows<'_>) = |x| calls::pool(op, x, window, windows);
        /// Of every window the largest element, as [`Runtime::max_pool`].
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Windows;
        /// let x = Tensor::from_fn(&[1, 1, 4, 4], |i| i as f32)?;
        /// let windows = Windows { stride: &[2], ..Windows::default() };
        /// assert_eq!(rt.lazy(&x).max_pool(&[2, 2], &windows).to_vec()?, [5.0, 7.0, 13.0, 15.0]);
        /// assert_eq!(rt.lazy(&x).any().max_pool(&[2, 2], &windows).shape(), [1, 1, 2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        max_pool(window: &[usize], windows: &Windows<'_>) = |x| calls::pool(PoolOp::Max, x, window, windows);
        /// Of every window the mean, as [`Runtime::mean_pool`].
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::Windows;
        /// let x = Tensor::from_fn(&[1, 1, 4, 4], |i| i as f32)?;
        /// let windows = Windows { stride: &[2], ..Windows::default() };
        /// assert_eq!(rt.lazy(&x).mean_pool(&[2, 2], &windows).to_vec()?, [2.5, 4.5, 10.5, 12.5]);
        /// assert_eq!(rt.lazy(&x).any().mean_pool(&[2, 2], &windows).shape(), [1, 1, 2, 2]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        mean_pool(window: &[usize], windows: &Windows<'_>) = |x| calls::pool(PoolOp::Mean, x, window, windows);
    }
    Element {
        /// Any scan by name, as [`Runtime::scan`].
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// use trimtab::advanced::core::ScanOp;
        /// let x = Tensor::from(vec![1i32, 2, 3, 4]);
        /// assert_eq!(rt.lazy(&x).scan(ScanOp::Prod, 0, false).to_vec()?, [1, 2, 6, 24]);
        /// assert_eq!(rt.lazy(&x).any().scan(ScanOp::Prod, 0, false).shape(), [4]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        scan(op: ScanOp, axis: usize, exclusive: bool) = |x| calls::scan(op, x, axis, exclusive);
        /// Every element with those before it along an axis, added up.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from(vec![1i32, 2, 3, 4]);
        /// assert_eq!(rt.lazy(&x).cumsum(0).to_vec()?, [1, 3, 6, 10]);
        /// assert_eq!(rt.lazy(&x).any().cumsum(0).shape(), [4]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        cumsum(axis: usize) = |x| calls::scan(ScanOp::Sum, x, axis, false);
        /// The elements along an axis in order, the smallest first, as [`Runtime::sort`].
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from(vec![3.0f32, -1.0, 2.0]);
        /// assert_eq!(rt.lazy(&x).sort(0).to_vec()?, [-1.0, 2.0, 3.0]);
        /// assert_eq!(rt.lazy(&x).any().sort(0).shape(), [3]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        sort(axis: usize) = |x| calls::sort(x, axis, false);
        /// The same, the largest first.
        ///
        /// ```
        /// # use trimtab::prelude::*;
        /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
        /// let x = Tensor::from(vec![3.0f32, -1.0, 2.0]);
        /// assert_eq!(rt.lazy(&x).sort_descending(0).to_vec()?, [3.0, 2.0, -1.0]);
        /// assert_eq!(rt.lazy(&x).any().sort_descending(0).shape(), [3]);
        /// # Ok::<(), Box<dyn std::error::Error>>(())
        /// ```
        sort_descending(axis: usize) = |x| calls::sort(x, axis, true);
    }
}

/// Methods whose result is of another type.
macro_rules! indices {
    ($($(#[$doc:meta])* $name:ident($($with:ident: $type:ty),*) = |$of:ident| $call:expr;)*) => {
        impl AnyExpression {
            $($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> AnyExpression {
                let $of = self.node.spec();
                self.with(Node::called($call, vec![Arc::clone(&self.node)]))
            })*
        }
        impl<T: Element> Expression<T> {
            $($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> Expression<i64> {
                Expression::wrap(self.any().$name($($with),*))
            })*
        }
    };
}

indices! {
    /// The index of the smallest element along an axis, which the result does not have, as [`Runtime::argmin`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 4.0, 9.0, 5.0], &[2, 3])?;
    /// assert_eq!(rt.lazy(&x).argmin(1).to_vec()?, [1, 0]);
    /// assert_eq!(rt.lazy(&x).any().argmin(1).shape(), [2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    argmin(axis: usize) = |x| calls::arg(ArgOp::Min, x, axis, false, 1);
    /// The index of the largest element along an axis, as [`Runtime::argmax`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 4.0, 9.0, 5.0], &[2, 3])?;
    /// assert_eq!(rt.lazy(&x).argmax(1).to_vec()?, [0, 1]);
    /// assert_eq!(rt.lazy(&x).any().argmax(1).shape(), [2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    argmax(axis: usize) = |x| calls::arg(ArgOp::Max, x, axis, false, 1);
    /// The indices that put the elements along an axis in order, as [`Runtime::argsort`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 4.0, 9.0, 5.0], &[2, 3])?;
    /// assert_eq!(rt.lazy(&x).argsort(1, false).to_vec()?, [1, 2, 0, 0, 2, 1]);
    /// assert_eq!(rt.lazy(&x).any().argsort(1, false).shape(), [2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    argsort(axis: usize, descending: bool) = |x| calls::arg(ArgOp::Sort, x, axis, descending, 0);
    /// The indices of so many of the largest elements along an axis, as [`Runtime::top_k`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![3.0f32, 1.0, 2.0, 4.0, 9.0, 5.0], &[2, 3])?;
    /// assert_eq!(rt.lazy(&x).top_k(1, 2).to_vec()?, [0, 2, 1, 2]);
    /// assert_eq!(rt.lazy(&x).any().top_k(1, 2).shape(), [2, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    top_k(axis: usize, count: usize) = |x| calls::arg(ArgOp::Top, x, axis, false, count);
}

impl<T: Element> Expression<T> {
    /// Every element as the nearest of another type, as [`Runtime::cast`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from(vec![1.9f32, -0.5]);
    /// assert_eq!(rt.lazy(&x).cast::<i32>().to_vec()?, [1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cast<U: Element>(&self) -> Expression<U> {
        Expression::wrap(self.any().cast(U::DTYPE))
    }
}

impl AnyExpression {
    /// Every element as the nearest of another type, as [`Runtime::cast`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from(vec![1.9f32, -0.5]));
    /// assert_eq!(rt.lazy_any(&x).cast(DType::I32).eval()?.typed::<i32>()?.to_vec(), [1, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cast(&self, to: DType) -> AnyExpression {
        if self.dtype() == to {
            return self.clone();
        }
        self.with(Node::called(calls::cast(self.node.spec(), to), vec![Arc::clone(&self.node)]))
    }

    /// The convolution with weights, as [`Runtime::conv`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{AnyTensor, Windows};
    /// let x = AnyTensor::from(Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?);
    /// let weights = AnyTensor::from(Tensor::full(&[1, 1, 1, 1], 2.0f32)?);
    /// let y = rt.lazy_any(&x).conv(&weights, &Windows::default());
    /// assert_eq!(y.eval()?.typed::<f32>()?.to_vec(), [2.0, 4.0, 6.0, 8.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn conv(&self, weights: impl AnyTerm, windows: &Windows<'_>) -> AnyExpression {
        self.conv_ending(weights, windows, None, None)
    }

    /// The same with a bias for each channel of the result and a function at the end, as [`Runtime::conv_ending`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{AnyTensor, Windows, advanced::core::UnaryOp};
    /// let x = AnyTensor::from(Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?);
    /// let weights = AnyTensor::from(Tensor::full(&[1, 1, 1, 1], 2.0f32)?);
    /// let bias = rt.lazy_any(&AnyTensor::from(Tensor::from(vec![-5.0f32])));
    /// let y = rt.lazy_any(&x).conv_ending(&weights, &Windows::default(), Some(&bias), Some(UnaryOp::Relu));
    /// assert_eq!(y.eval()?.typed::<f32>()?.to_vec(), [0.0, 0.0, 1.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn conv_ending(
        &self,
        weights: impl AnyTerm,
        windows: &Windows<'_>,
        bias: Option<&AnyExpression>,
        act: Option<UnaryOp>,
    ) -> AnyExpression {
        let weights = weights.node(self.dtype());
        let beside = bias.map(|bias| bias.node.spec());
        let call = calls::conv(self.node.spec(), weights.spec(), windows, beside, act);
        let operands =
            [Arc::clone(&self.node), weights].into_iter().chain(bias.map(|bias| Arc::clone(&bias.node)));
        self.with(Node::called(call, operands.collect()))
    }

    /// `(x - mean) / √(variance + ε)` along an axis, times a scale and plus a shift, as [`Runtime::layer_norm`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from_vec(vec![1.0f64, 3.0, -5.0, 5.0], &[2, 2])?);
    /// let y = rt.lazy_any(&x).layer_norm(1, None, None, 0.0);
    /// assert_eq!(y.eval()?.typed::<f64>()?.to_vec(), [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layer_norm(
        &self,
        axis: usize,
        scale: Option<&AnyExpression>,
        shift: Option<&AnyExpression>,
        epsilon: f64,
    ) -> AnyExpression {
        self.norm(RowsOp::LayerNorm, axis, scale, shift, epsilon)
    }

    /// `x / √(mean of x² + ε)` along an axis, times a scale, as [`Runtime::rms_norm`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let x = AnyTensor::from(Tensor::from_vec(vec![2.0f64, -2.0, 4.0, 4.0], &[2, 2])?);
    /// let y = rt.lazy_any(&x).rms_norm(1, None, 0.0);
    /// assert_eq!(y.eval()?.typed::<f64>()?.to_vec(), [1.0, -1.0, 1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rms_norm(&self, axis: usize, scale: Option<&AnyExpression>, epsilon: f64) -> AnyExpression {
        self.norm(RowsOp::RmsNorm, axis, scale, None, epsilon)
    }

    /// These queries' values, weighted by how well keys fit, as [`Runtime::attention`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::AnyTensor;
    /// let same = AnyTensor::zeros(DType::F32, &[1, 2, 4])?;
    /// let values = AnyTensor::from(Tensor::from_vec(vec![1.0f32, 3.0], &[1, 2, 1])?);
    /// let y = rt.lazy_any(&same).attention(&same, &values, false);
    /// assert_eq!(y.eval()?.typed::<f32>()?.to_vec(), [2.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attention(&self, keys: impl AnyTerm, values: impl AnyTerm, causal: bool) -> AnyExpression {
        let (keys, values) = (keys.node(self.dtype()), values.node(self.dtype()));
        let call = calls::attention(self.node.spec(), keys.spec(), values.spec(), causal);
        self.with(Node::called(call, vec![Arc::clone(&self.node), keys, values]))
    }

    fn norm(
        &self,
        op: RowsOp,
        axis: usize,
        scale: Option<&AnyExpression>,
        shift: Option<&AnyExpression>,
        epsilon: f64,
    ) -> AnyExpression {
        let [scaled, shifted] = [scale, shift].map(|beside| beside.map(|beside| beside.node.spec()));
        let call = calls::norm(op, self.node.spec(), axis, scaled, shifted);
        let given = [Some(self), scale, shift].into_iter().flatten().map(|given| Arc::clone(&given.node));
        self.with(Node::called(call, given.chain([Node::number(epsilon, self.dtype())]).collect()))
    }
}

impl<T: Float> Expression<T> {
    /// The convolution with weights, as [`Runtime::conv`]. A bias and a function written behind it become part of it where that is
    /// faster.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor, Windows};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let image = Tensor::from_fn(&[1, 1, 8, 8], |i| i as f32 - 30.0)?;
    /// let (blur, bias) = (Tensor::full(&[4, 1, 3, 3], 0.1f32)?, Tensor::full(&[4, 1, 1], 2.0f32)?);
    /// let windows = Windows { pad: &[1], ..Windows::default() };
    /// let y = (rt.lazy(&image).conv(&blur, &windows) + &bias).relu().max_pool(&[2, 2], &windows);
    /// assert_eq!(y.eval()?.shape(), [1, 4, 9, 9]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn conv(&self, weights: impl Term<T>, windows: &Windows<'_>) -> Expression<T> {
        self.conv_ending(weights, windows, None, None)
    }

    /// The same with a bias for each channel of the result and a function at the end, as [`Runtime::conv_ending`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{Windows, advanced::core::UnaryOp};
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
    /// let (weights, bias) = (Tensor::full(&[1, 1, 1, 1], 2.0f32)?, rt.lazy(&Tensor::from(vec![-5.0f32])));
    /// let y = rt.lazy(&x).conv_ending(&weights, &Windows::default(), Some(&bias), Some(UnaryOp::Relu));
    /// assert_eq!(y.to_vec()?, [0.0, 0.0, 1.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn conv_ending(
        &self,
        weights: impl Term<T>,
        windows: &Windows<'_>,
        bias: Option<&Expression<T>>,
        act: Option<UnaryOp>,
    ) -> Expression<T> {
        let weights = self.any().with(weights.node());
        Expression::wrap(self.any().conv_ending(weights, windows, bias.map(Expression::any), act))
    }

    /// These queries' values, weighted by how well keys fit, as [`Runtime::attention`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let same = Tensor::<f32>::zeros(&[1, 2, 4])?;
    /// let values = Tensor::from_vec(vec![1.0f32, 3.0], &[1, 2, 1])?;
    /// assert_eq!(rt.lazy(&same).attention(&same, &values, false).to_vec()?, [2.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attention(&self, keys: impl Term<T>, values: impl Term<T>, causal: bool) -> Expression<T> {
        let (keys, values) = (self.any().with(keys.node()), self.any().with(values.node()));
        Expression::wrap(self.any().attention(keys, values, causal))
    }

    /// `(x - mean) / √(variance + ε)` along an axis, times a scale and plus a shift for each element along it, as
    /// [`Runtime::layer_norm`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![1.0f64, 3.0, -5.0, 5.0], &[2, 2])?;
    /// let scale = rt.lazy(&Tensor::full(&[2], 2.0f64)?);
    /// assert_eq!(rt.lazy(&x).layer_norm(1, Some(&scale), None, 0.0).to_vec()?, [-2.0, 2.0, -2.0, 2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn layer_norm(
        &self,
        axis: usize,
        scale: Option<&Expression<T>>,
        shift: Option<&Expression<T>>,
        epsilon: f64,
    ) -> Expression<T> {
        let [scale, shift] = [scale, shift].map(|beside| beside.map(Expression::any));
        Expression::wrap(self.any().layer_norm(axis, scale, shift, epsilon))
    }

    /// `x / √(mean of x² + ε)` along an axis, times a scale for each element along it, as [`Runtime::rms_norm`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let x = Tensor::from_vec(vec![2.0f64, -2.0, 4.0, 4.0], &[2, 2])?;
    /// assert_eq!(rt.lazy(&x).rms_norm(1, None, 0.0).to_vec()?, [1.0, -1.0, 1.0, 1.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rms_norm(&self, axis: usize, scale: Option<&Expression<T>>, epsilon: f64) -> Expression<T> {
        Expression::wrap(self.any().rms_norm(axis, scale.map(Expression::any), epsilon))
    }
}
