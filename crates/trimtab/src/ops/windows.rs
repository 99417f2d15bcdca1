//! Convolution and pooling: windows over the space of an operand.

use super::calls::{self, Given};
use super::{Float, sizes};
use crate::error::Error;
use crate::runtime::Runtime;
use crate::tensor::Tensor;
use trimtab_core::{Channels, Moves, PoolOp, UnaryOp};

/// How a window moves and where channels lie. One number of stride, padding or dilation holds for every axis.
#[derive(Clone, Copy, Debug)]
pub struct Windows<'a> {
    /// Elements from one window to the next; one where it is empty.
    pub stride: &'a [usize],
    /// Elements before and behind the operand; none where it is empty.
    pub pad: &'a [usize],
    /// Elements from one of the window to its next; one where it is empty.
    pub dilation: &'a [usize],
    /// Groups of channels that do not see each other.
    pub groups: usize,
    /// Whether channels lie before the space (`N C H W`) or behind it (`N H W C`).
    pub channels: Channels,
}

impl Default for Windows<'_> {
    fn default() -> Self {
        Windows { stride: &[], pad: &[], dilation: &[], groups: 1, channels: Channels::First }
    }
}

impl Windows<'_> {
    pub(super) fn with<R>(&self, with: impl FnOnce(Moves<'_>) -> R) -> R {
        let (stride, pad, dilation) = (sizes(self.stride), sizes(self.pad), sizes(self.dilation));
        with(Moves { stride: &stride, pad: &pad, dilation: &dilation })
    }
}

impl Runtime {
    /// The convolution of an operand with weights, in one to three dimensions of space (a cross-correlation, as in libraries of
    /// networks): `N C H W` and `K C R S`, or with channels behind the space `N H W C` and `K R S C`.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor, Windows};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let image = Tensor::from_fn(&[1, 1, 4, 4], |i| i as f32)?;
    /// let blur = Tensor::full(&[1, 1, 3, 3], 1.0f32 / 9.0)?;
    /// let windows = Windows { pad: &[1], ..Windows::default() };
    /// assert_eq!(rt.conv(&image, &blur, &windows)?.shape(), [1, 1, 4, 4]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn conv<T: Float>(
        &self,
        operand: &Tensor<T>,
        weights: &Tensor<T>,
        windows: &Windows<'_>,
    ) -> Result<Tensor<T>, Error> {
        self.conv_ending(operand, weights, windows, None, None)
    }

    /// The same with a bias for each channel of the result, and a function of each element at the end: relu, tanh, sigmoid or gelu.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{Windows, advanced::core::UnaryOp};
    /// let image = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[1, 1, 2, 2])?;
    /// let (weights, bias) = (Tensor::full(&[1, 1, 1, 1], 2.0f32)?, Tensor::from(vec![-5.0f32]));
    /// let y = rt.conv_ending(&image, &weights, &Windows::default(), Some(&bias), Some(UnaryOp::Relu))?;
    /// assert_eq!(y.to_vec(), [0.0, 0.0, 1.0, 3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn conv_ending<T: Float>(
        &self,
        operand: &Tensor<T>,
        weights: &Tensor<T>,
        windows: &Windows<'_>,
        bias: Option<&Tensor<T>>,
        act: Option<UnaryOp>,
    ) -> Result<Tensor<T>, Error> {
        let beside = bias.map(Tensor::spec);
        let call = calls::conv(operand.spec(), weights.spec(), windows, beside, act)?;
        self.call(&call, &Given::all(&[Some(operand), Some(weights), bias]))?.try_into()
    }

    /// Of every window the largest element; a NaN wins, padding is not looked at.
    ///
    /// ```
    /// use trimtab::{Runtime, Tensor, Windows};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let image = Tensor::from_fn(&[1, 1, 4, 4], |i| i as f32)?;
    /// let windows = Windows { stride: &[2], ..Windows::default() };
    /// assert_eq!(rt.max_pool(&image, &[2, 2], &windows)?.to_vec(), [5.0, 7.0, 13.0, 15.0]);
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn max_pool<T: Float>(
        &self,
        operand: &Tensor<T>,
        window: &[usize],
        windows: &Windows<'_>,
    ) -> Result<Tensor<T>, Error> {
        self.pool(PoolOp::Max, operand, window, windows)
    }

    /// Of every window the mean of the elements that are not padding.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Windows;
    /// let image = Tensor::from_fn(&[1, 1, 4, 4], |i| i as f32)?;
    /// let windows = Windows { stride: &[2], ..Windows::default() };
    /// assert_eq!(rt.mean_pool(&image, &[2, 2], &windows)?.to_vec(), [2.5, 4.5, 10.5, 12.5]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mean_pool<T: Float>(
        &self,
        operand: &Tensor<T>,
        window: &[usize],
        windows: &Windows<'_>,
    ) -> Result<Tensor<T>, Error> {
        self.pool(PoolOp::Mean, operand, window, windows)
    }

    /// Any pooling by name. Groups play no part: every channel is pooled by itself.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::{Windows, advanced::core::PoolOp};
    /// let image = Tensor::from_fn(&[1, 1, 2, 2], |i| i as f32)?;
    /// assert_eq!(rt.pool(PoolOp::Max, &image, &[2, 2], &Windows::default())?.to_vec(), [3.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pool<T: Float>(
        &self,
        op: PoolOp,
        operand: &Tensor<T>,
        window: &[usize],
        windows: &Windows<'_>,
    ) -> Result<Tensor<T>, Error> {
        let call = calls::pool(op, operand.spec(), window, windows)?;
        self.call(&call, &[Given::Tensor(&operand.any)])?.try_into()
    }
}
