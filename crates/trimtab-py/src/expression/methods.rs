//! What expressions do along axes: reductions, shapes, elements by index, windows, rows, transforms.

use super::{Expression, beside, checked, named};
use crate::array::dtype_named;
use crate::current::runtime;
use crate::errors::wrong_value;
use crate::operand::expression;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use trimtab::Windows;
use trimtab::advanced::core::{Channels, PoolOp, ReduceOp, ScanOp, UnaryOp};

#[pymethods]
impl Expression {
    /// With all axes in reverse order.
    #[getter(T)]
    fn reversed(&self) -> PyResult<Expression> {
        checked(self.inner.transpose())
    }

    /// The sum over everything, an axis or several; with ``keepdims`` the axes stay, of size 1.
    #[pyo3(signature = (axis=None, *, keepdims=false))]
    fn sum(&self, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Expression> {
        self.reduced(ReduceOp::Sum, axis, keepdims)
    }

    /// The arithmetic mean of floats, as `sum` has axes.
    #[pyo3(signature = (axis=None, *, keepdims=false))]
    fn mean(&self, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Expression> {
        self.reduced(ReduceOp::Mean, axis, keepdims)
    }

    /// The smallest element, as `sum` has axes; a NaN wins.
    #[pyo3(signature = (axis=None, *, keepdims=false))]
    fn min(&self, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Expression> {
        self.reduced(ReduceOp::Min, axis, keepdims)
    }

    /// The largest element, as `sum` has axes; a NaN wins.
    #[pyo3(signature = (axis=None, *, keepdims=false))]
    fn max(&self, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Expression> {
        self.reduced(ReduceOp::Max, axis, keepdims)
    }

    /// The product, as `sum` has axes.
    #[pyo3(signature = (axis=None, *, keepdims=false))]
    fn prod(&self, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Expression> {
        self.reduced(ReduceOp::Prod, axis, keepdims)
    }

    /// ``exp(x) / sum(exp(x))`` along an axis, without overflow.
    #[pyo3(signature = (axis=-1), text_signature = "($self, axis=-1)")]
    fn softmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.softmax(self.axis(axis)?))
    }

    /// The logarithm of the softmax, along an axis.
    #[pyo3(signature = (axis=-1), text_signature = "($self, axis=-1)")]
    fn log_softmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.log_softmax(self.axis(axis)?))
    }

    /// ``log(sum(exp(x)))`` along an axis, which the result does not have.
    #[pyo3(signature = (axis=-1), text_signature = "($self, axis=-1)")]
    fn logsumexp(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.logsumexp(self.axis(axis)?))
    }

    /// The mean of squared distances from the mean along an axis, which the result does not have.
    #[pyo3(signature = (axis=-1), text_signature = "($self, axis=-1)")]
    fn variance(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.variance(self.axis(axis)?))
    }

    /// Every element with those before it along an axis, added up.
    #[pyo3(signature = (axis=-1), text_signature = "($self, axis=-1)")]
    fn cumsum(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.cumsum(self.axis(axis)?))
    }

    /// Any reduction by name: sum, mean, min, max, prod.
    #[pyo3(signature = (op, axis=None, *, keepdims=false))]
    fn reduce(&self, op: &str, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Expression> {
        let all = ReduceOp::ALL.map(ReduceOp::name);
        self.reduced(named("reduction", op, ReduceOp::parse(op), &all)?, axis, keepdims)
    }

    /// The same elements in another shape; one size may be -1, which is what the others leave.
    ///
    /// >>> import numpy as np, trimtab as tt
    /// >>> tt.lazy(np.arange(6.0)).reshape(2, -1).shape
    /// (2, 3)
    #[pyo3(signature = (*shape))]
    fn reshape(&self, shape: &Bound<'_, PyTuple>) -> PyResult<Expression> {
        // As in NumPy: sizes one by one, or all as one tuple or list.
        let sizes: Vec<isize> = match shape.extract::<(Vec<isize>,)>() {
            Ok((sizes,)) => sizes,
            Err(_) => shape.extract()?,
        };
        checked(self.inner.reshape(&whole_shape(&sizes, self.inner.shape())?))
    }

    /// The axes in another order, reversed if none is said.
    #[pyo3(signature = (*axes))]
    fn transpose(&self, axes: Vec<isize>) -> PyResult<Expression> {
        if axes.is_empty() {
            return checked(self.inner.transpose());
        }
        let axes = axes.into_iter().map(|axis| self.axis(axis)).collect::<PyResult<Vec<usize>>>()?;
        checked(self.inner.permute(&axes))
    }

    /// With others behind it along an axis.
    fn concat(&self, py: Python<'_>, others: Vec<Bound<'_, PyAny>>, axis: isize) -> PyResult<Expression> {
        let others = others.iter().map(|other| self.term(py, other)).collect::<PyResult<Vec<_>>>()?;
        checked(self.inner.concat(&others.iter().collect::<Vec<_>>(), self.axis(axis)?))
    }

    /// With a number around it: so many elements before and behind along each axis.
    fn pad(
        &self,
        py: Python<'_>,
        by: Vec<(usize, usize)>,
        number: &Bound<'_, PyAny>,
    ) -> PyResult<Expression> {
        checked(self.inner.pad(&by, self.term(py, number)?))
    }

    /// With a block in the place of what begins at an index.
    fn slice_assign(
        &self,
        py: Python<'_>,
        first: Vec<usize>,
        block: &Bound<'_, PyAny>,
    ) -> PyResult<Expression> {
        checked(self.inner.slice_assign(&first, self.term(py, block)?))
    }

    /// The elements along an axis that indices name.
    fn take(&self, py: Python<'_>, indices: &Bound<'_, PyAny>, axis: isize) -> PyResult<Expression> {
        checked(self.inner.take(expression(&*runtime(py)?, indices)?, self.axis(axis)?))
    }

    /// The elements along an axis, each by an index of its own.
    fn take_along(&self, py: Python<'_>, indices: &Bound<'_, PyAny>, axis: isize) -> PyResult<Expression> {
        checked(self.inner.take_along(expression(&*runtime(py)?, indices)?, self.axis(axis)?))
    }

    /// With rows added along an axis, each where a list of indices says.
    fn scatter_add(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        added: &Bound<'_, PyAny>,
        axis: isize,
    ) -> PyResult<Expression> {
        let indices = expression(&*runtime(py)?, indices)?;
        checked(self.inner.scatter_add(indices, self.term(py, added)?, self.axis(axis)?))
    }

    /// With elements added along an axis, each where an index of its own says.
    fn scatter_add_along(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        added: &Bound<'_, PyAny>,
        axis: isize,
    ) -> PyResult<Expression> {
        let indices = expression(&*runtime(py)?, indices)?;
        checked(self.inner.scatter_add_along(indices, self.term(py, added)?, self.axis(axis)?))
    }

    /// Every element with those before it along an axis: ``sum``, ``prod``, ``max`` or ``min``.
    #[pyo3(signature = (op, axis, exclusive=false))]
    fn scan(&self, op: &str, axis: isize, exclusive: bool) -> PyResult<Expression> {
        let all = ScanOp::ALL.map(ScanOp::name);
        checked(self.inner.scan(named("scan", op, ScanOp::parse(op), &all)?, self.axis(axis)?, exclusive))
    }

    /// The elements along an axis in order; what is not a number comes last.
    #[pyo3(signature = (axis=-1, descending=false), text_signature = "($self, axis=-1, descending=False)")]
    fn sort(&self, axis: isize, descending: bool) -> PyResult<Expression> {
        let axis = self.axis(axis)?;
        checked(if descending { self.inner.sort_descending(axis) } else { self.inner.sort(axis) })
    }

    /// The indices that put the elements along an axis in order.
    #[pyo3(signature = (axis=-1, descending=false), text_signature = "($self, axis=-1, descending=False)")]
    fn argsort(&self, axis: isize, descending: bool) -> PyResult<Expression> {
        checked(self.inner.argsort(self.axis(axis)?, descending))
    }

    /// The index of the smallest element along an axis, the first of equal ones.
    fn argmin(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.argmin(self.axis(axis)?))
    }

    /// The index of the largest element along an axis, the first of equal ones.
    fn argmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.argmax(self.axis(axis)?))
    }

    /// The indices of so many of the largest elements along an axis, the largest first.
    #[pyo3(signature = (count, axis=-1), text_signature = "($self, count, axis=-1)")]
    fn top_k(&self, count: usize, axis: isize) -> PyResult<Expression> {
        checked(self.inner.top_k(self.axis(axis)?, count))
    }

    /// Every element as the nearest of another type, by NumPy's name or trimtab's.
    fn cast(&self, dtype: &str) -> PyResult<Expression> {
        let all = trimtab::DType::ALL.map(trimtab::DType::name);
        checked(self.inner.cast(named("element type", dtype, dtype_named(dtype), &all)?))
    }

    /// The spectrum of complex numbers along the last ``axes`` axes.
    fn fft(&self, axes: usize) -> PyResult<Expression> {
        checked(self.inner.fftn(axes))
    }

    /// What has that spectrum along the last ``axes`` axes.
    fn ifft(&self, axes: usize) -> PyResult<Expression> {
        checked(self.inner.ifftn(axes))
    }

    /// The first half of the spectrum of real numbers along the last ``axes`` axes.
    fn rfft(&self, axes: usize) -> PyResult<Expression> {
        checked(self.inner.rfftn(axes))
    }

    /// The real numbers, ``n`` along the last axis, that have that spectrum.
    fn irfft(&self, axes: usize, n: usize) -> PyResult<Expression> {
        checked(self.inner.irfftn(axes, n))
    }

    /// The convolution with weights; see `trimtab.conv`.
    #[pyo3(signature = (weights, stride, pad, dilation, groups, channels_last, bias=None, act=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the arguments of a convolution, by name in Python"
    )]
    fn conv(
        &self,
        py: Python<'_>,
        weights: &Bound<'_, PyAny>,
        stride: Vec<usize>,
        pad: Vec<usize>,
        dilation: Vec<usize>,
        groups: usize,
        channels_last: bool,
        bias: Option<&Bound<'_, PyAny>>,
        act: Option<&str>,
    ) -> PyResult<Expression> {
        let windows = Windows {
            stride: &stride,
            pad: &pad,
            dilation: &dilation,
            groups,
            channels: channels(channels_last),
        };
        let weights = expression(&*runtime(py)?, weights)?;
        let all = UnaryOp::ALL.map(UnaryOp::name);
        let act = act.map(|act| named("function", act, UnaryOp::parse(act), &all)).transpose()?;
        let bias = beside(py, bias)?;
        checked(self.inner.conv_ending(weights, &windows, bias.as_ref(), act))
    }

    /// Of every window the largest element or the mean (``max``, ``mean``).
    fn pool(
        &self,
        op: &str,
        window: Vec<usize>,
        stride: Vec<usize>,
        pad: Vec<usize>,
        dilation: Vec<usize>,
        channels_last: bool,
    ) -> PyResult<Expression> {
        let windows = Windows {
            stride: &stride,
            pad: &pad,
            dilation: &dilation,
            channels: channels(channels_last),
            ..Windows::default()
        };
        let all = PoolOp::ALL.map(PoolOp::name);
        checked(self.inner.pool(named("pooling", op, PoolOp::parse(op), &all)?, &window, &windows))
    }

    /// ``(x - mean) / sqrt(variance + epsilon)`` along an axis, times a scale and plus a shift.
    #[pyo3(signature = (axis, scale, shift, epsilon))]
    fn layer_norm(
        &self,
        py: Python<'_>,
        axis: isize,
        scale: Option<&Bound<'_, PyAny>>,
        shift: Option<&Bound<'_, PyAny>>,
        epsilon: f64,
    ) -> PyResult<Expression> {
        let (scale, shift) = (beside(py, scale)?, beside(py, shift)?);
        checked(self.inner.layer_norm(self.axis(axis)?, scale.as_ref(), shift.as_ref(), epsilon))
    }

    /// ``x / sqrt(mean(x * x) + epsilon)`` along an axis, times a scale.
    #[pyo3(signature = (axis, scale, epsilon))]
    fn rms_norm(
        &self,
        py: Python<'_>,
        axis: isize,
        scale: Option<&Bound<'_, PyAny>>,
        epsilon: f64,
    ) -> PyResult<Expression> {
        checked(self.inner.rms_norm(self.axis(axis)?, beside(py, scale)?.as_ref(), epsilon))
    }

    /// ``softmax(q @ k.T / sqrt(depth)) @ v`` of each head, of which this is ``q``.
    fn attention(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        causal: bool,
    ) -> PyResult<Expression> {
        let runtime = runtime(py)?;
        checked(self.inner.attention(expression(&runtime, keys)?, expression(&runtime, values)?, causal))
    }
}

/// A shape of which one size may be left open.
fn whole_shape(sizes: &[isize], from: &[usize]) -> PyResult<Vec<usize>> {
    if sizes.iter().any(|size| *size < -1) || sizes.iter().filter(|size| **size == -1).count() > 1 {
        return Err(wrong_value(format!(
            "shape {sizes:?} makes no sense; one size may be -1, all others count"
        )));
    }
    let count: usize = from.iter().product();
    let unfit = || wrong_value(format!("{count} elements of shape {from:?} cannot have shape {sizes:?}"));
    let mut known = sizes.iter().filter_map(|size| usize::try_from(*size).ok());
    let known = known.try_fold(1usize, usize::checked_mul).ok_or_else(unfit)?;
    let open = match sizes.contains(&-1) {
        true if known == 0 || !count.is_multiple_of(known) => return Err(unfit()),
        true => count / known,
        false if known != count => return Err(unfit()),
        false => 0,
    };
    Ok(sizes.iter().map(|size| usize::try_from(*size).unwrap_or(open)).collect())
}

fn channels(last: bool) -> Channels {
    if last { Channels::Last } else { Channels::First }
}
