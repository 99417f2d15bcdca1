//! Methods of expressions for operations that are calls: convolution, pooling, rows, scans, sorting, indices, casts, transforms.

use super::node::Node;
use super::{AnyExpression, AnyTerm, Expression, Term};
use crate::ops::calls::{self, Call, Given};
use crate::ops::{Float, Windows};
use crate::runtime::Runtime;
use std::sync::Arc;
use trimtab_core::{ArgOp, DType, FftOp, PoolOp, RowsOp, ScanOp, UnaryOp};
use trimtab_operands::{Complex, Element};

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
        softmax(axis: usize) = |x| calls::rows(RowsOp::Softmax, x, axis);
        /// The logarithm of the softmax, along an axis.
        log_softmax(axis: usize) = |x| calls::rows(RowsOp::LogSoftmax, x, axis);
        /// `log Σ exp(x)` along an axis, which the result does not have.
        logsumexp(axis: usize) = |x| calls::rows(RowsOp::LogSumExp, x, axis);
        /// The mean of squared distances from the mean, along an axis, which the result does not have.
        variance(axis: usize) = |x| calls::rows(RowsOp::Variance, x, axis);
        /// Any pooling by name, as [`Runtime::pool`].
        pool(op: PoolOp, window: &[usize], windows: &Windows<'_>) = |x| calls::pool(op, x, window, windows);
        /// Of every window the largest element, as [`Runtime::max_pool`].
        max_pool(window: &[usize], windows: &Windows<'_>) = |x| calls::pool(PoolOp::Max, x, window, windows);
        /// Of every window the mean, as [`Runtime::mean_pool`].
        mean_pool(window: &[usize], windows: &Windows<'_>) = |x| calls::pool(PoolOp::Mean, x, window, windows);
    }
    Element {
        /// Any scan by name, as [`Runtime::scan`].
        scan(op: ScanOp, axis: usize, exclusive: bool) = |x| calls::scan(op, x, axis, exclusive);
        /// Every element with those before it along an axis, added up.
        cumsum(axis: usize) = |x| calls::scan(ScanOp::Sum, x, axis, false);
        /// The elements along an axis in order, the smallest first, as [`Runtime::sort`].
        sort(axis: usize) = |x| calls::sort(x, axis, false);
        /// The same, the largest first.
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
    argmin(axis: usize) = |x| calls::arg(ArgOp::Min, x, axis, false, 1);
    /// The index of the largest element along an axis, as [`Runtime::argmax`].
    argmax(axis: usize) = |x| calls::arg(ArgOp::Max, x, axis, false, 1);
    /// The indices that put the elements along an axis in order, as [`Runtime::argsort`].
    argsort(axis: usize, descending: bool) = |x| calls::arg(ArgOp::Sort, x, axis, descending, 0);
    /// The indices of so many of the largest elements along an axis, as [`Runtime::top_k`].
    top_k(axis: usize, count: usize) = |x| calls::arg(ArgOp::Top, x, axis, false, count);
}

/// Transforms, by what they make of elements.
macro_rules! transforms {
    ($($from:ty => $to:ty { $($(#[$doc:meta])* $name:ident($($with:ident: $type:ty),*) = |$of:ident| $call:expr;)* })*) => {
        impl AnyExpression {
            $($($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> AnyExpression {
                let $of = self.node.spec();
                self.with(Node::called($call, vec![Arc::clone(&self.node)]))
            })*)*
        }
        $(impl<T: Element> Expression<$from>
        where
            Complex<T>: Element,
        {
            $($(#[$doc])*
            pub fn $name(&self, $($with: $type),*) -> Expression<$to> {
                Expression::wrap(self.any().$name($($with),*))
            })*
        })*
    };
}

transforms! {
    Complex<T> => Complex<T> {
        /// The spectrum of the last axis, as [`Runtime::fft`].
        fft() = |x| calls::fft(FftOp::Forward, x, 1, 0);
        /// What has that spectrum along the last axis, as [`Runtime::ifft`].
        ifft() = |x| calls::fft(FftOp::Inverse, x, 1, 0);
        /// The spectrum of the last one to three axes, as [`Runtime::fftn`].
        fftn(axes: usize) = |x| calls::fft(FftOp::Forward, x, axes, 0);
        /// What has that spectrum along the last one to three axes, as [`Runtime::ifftn`].
        ifftn(axes: usize) = |x| calls::fft(FftOp::Inverse, x, axes, 0);
    }
    T => Complex<T> {
        /// Half the spectrum of real numbers along the last axis, as [`Runtime::rfft`].
        rfft() = |x| calls::fft(FftOp::Real, x, 1, 0);
        /// Half the spectrum of real numbers along the last one to three axes, as [`Runtime::rfftn`].
        rfftn(axes: usize) = |x| calls::fft(FftOp::Real, x, axes, 0);
    }
    Complex<T> => T {
        /// The `len` real numbers that have that spectrum along the last axis, as [`Runtime::irfft`].
        irfft(len: usize) = |x| calls::fft(FftOp::InverseReal, x, 1, len);
        /// The real numbers that have that spectrum, `len` along the last axis, as [`Runtime::irfftn`].
        irfftn(axes: usize, len: usize) = |x| calls::fft(FftOp::InverseReal, x, axes, len);
    }
}

impl<T: Element> Expression<T> {
    /// Every element as the nearest of another type, as [`Runtime::cast`].
    pub fn cast<U: Element>(&self) -> Expression<U> {
        Expression::wrap(self.any().cast(U::DTYPE))
    }
}

impl AnyExpression {
    /// Every element as the nearest of another type, as [`Runtime::cast`].
    pub fn cast(&self, to: DType) -> AnyExpression {
        if self.dtype() == to {
            return self.clone();
        }
        self.with(Node::called(calls::cast(self.node.spec(), to), vec![Arc::clone(&self.node)]))
    }

    /// The convolution with weights, as [`Runtime::conv`].
    pub fn conv(&self, weights: impl AnyTerm, windows: &Windows<'_>) -> AnyExpression {
        self.conv_ending(weights, windows, None, None)
    }

    /// The same with a bias for each channel of the result and a function at the end, as [`Runtime::conv_ending`].
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
    pub fn rms_norm(&self, axis: usize, scale: Option<&AnyExpression>, epsilon: f64) -> AnyExpression {
        self.norm(RowsOp::RmsNorm, axis, scale, None, epsilon)
    }

    /// These queries' values, weighted by how well keys fit, as [`Runtime::attention`].
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
    pub fn attention(&self, keys: impl Term<T>, values: impl Term<T>, causal: bool) -> Expression<T> {
        let (keys, values) = (self.any().with(keys.node()), self.any().with(values.node()));
        Expression::wrap(self.any().attention(keys, values, causal))
    }

    /// `(x - mean) / √(variance + ε)` along an axis, times a scale and plus a shift for each element along it, as
    /// [`Runtime::layer_norm`].
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
    pub fn rms_norm(&self, axis: usize, scale: Option<&Expression<T>>, epsilon: f64) -> Expression<T> {
        Expression::wrap(self.any().rms_norm(axis, scale.map(Expression::any), epsilon))
    }
}
