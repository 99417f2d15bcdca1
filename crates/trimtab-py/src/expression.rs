//! Computations that are written down first, as a class of Python. Everything that is not in `fast.rs` is computed by way of it.

use crate::array::{array_of, dtype_named};
use crate::current::runtime;
use crate::errors::{raised, wrong_type, wrong_value};
use crate::fast::finish;
use crate::operand::{Operand, axis_of, expression, pair};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use trimtab::advanced::core::{BinaryOp, Channels, MaskOp, PoolOp, ReduceOp, ScanOp, UnaryOp};
use trimtab::{AnyExpression, Axis, Windows};

/// A computation that is written down and not yet made. `trimtab.lazy` begins one; operators and methods go on; `numpy`, `item`,
/// `numpy.asarray` and printing compute it as a whole.
///
/// >>> import numpy as np, trimtab as tt
/// >>> x = np.array([1.0, 4.0, 9.0])
/// >>> y = (tt.lazy(x) * 2 + x).sqrt()
/// >>> y.shape, y.dtype
/// ((3,), 'f64')
/// >>> print(f"{y.sum():.3f}")
/// 10.392
#[pyclass(frozen, weakref, module = "trimtab")]
pub struct Expression {
    pub inner: AnyExpression,
}

/// What was written down, or what is wrong with it: Python tells that where it was written.
fn checked(made: AnyExpression) -> PyResult<Expression> {
    match made.error() {
        Some(error) => Err(raised(error.clone())),
        None => Ok(Expression { inner: made }),
    }
}

/// An operation on an operand that may not be there.
fn beside(py: Python<'_>, object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<AnyExpression>> {
    let runtime = runtime(py)?;
    object.map(|object| expression(&runtime, object)).transpose()
}

fn named<T>(what: &str, name: &str, found: Option<T>, all: &[&str]) -> PyResult<T> {
    found.ok_or_else(|| wrong_value(format!("there is no {what} `{name}`; there are: {}", all.join(", "))))
}

impl Expression {
    fn term(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<AnyExpression> {
        let runtime = runtime(py)?;
        Operand::read(&runtime, other)?.beside(&runtime, self.inner.dtype())
    }

    fn with(&self, py: Python<'_>, op: BinaryOp, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.inner.binary(op, self.term(py, other)?))
    }

    fn behind(&self, py: Python<'_>, op: BinaryOp, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.term(py, other)?.binary(op, &self.inner))
    }

    fn axis(&self, axis: isize) -> PyResult<usize> {
        axis_of(axis, self.inner.shape())
    }

    fn reduced(&self, op: ReduceOp, axis: Option<isize>) -> PyResult<Expression> {
        let axis = axis.map_or(Ok(Axis::All), |axis| self.axis(axis).map(Axis::One))?;
        checked(self.inner.reduce(op, axis))
    }

    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let value = py.detach(|| self.inner.eval().and_then(|value| value.fetched().cloned()));
        // The value is kept for whoever asks again, so nobody may write to it.
        array_of(py, value.map_err(raised)?, false)
    }
}

#[pymethods]
impl Expression {
    /// NumPy leaves operators to us.
    #[classattr]
    #[pyo3(name = "__array_ufunc__")]
    fn array_ufunc() -> Option<i32> {
        None
    }

    #[new]
    fn new(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(expression(&*runtime(py)?, x)?)
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.shape())
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.inner.dtype().name()
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.inner.shape().len()
    }

    #[getter(T)]
    fn reversed(&self) -> PyResult<Expression> {
        checked(self.inner.transpose())
    }

    fn numpy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.value(py)
    }

    /// Computed into an array that is nobody else's.
    #[pyo3(signature = (out=None))]
    fn _finish<'py>(&self, py: Python<'py>, out: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        finish(py, self.inner.clone(), out, None)
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let value = self.value(py)?;
        match (dtype, copy) {
            (Some(dtype), _) => value.call_method1("astype", (dtype,)),
            (None, Some(true)) => value.call_method0("copy"),
            (None, _) => Ok(value),
        }
    }

    fn item<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.value(py)?.call_method0("item")
    }

    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        self.item(py)?.extract()
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.value(py)?.str()?.to_string())
    }

    fn __format__(&self, py: Python<'_>, spec: &str) -> PyResult<String> {
        let value = self.value(py)?;
        let shown = if self.inner.shape().is_empty() { value.call_method0("item")? } else { value };
        shown.call_method1("__format__", (spec,))?.extract()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.inner)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.value(py)?.is_truthy()
    }

    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let told = py.detach(|| self.inner.explain());
        told.map(|explanation| explanation.to_string()).map_err(raised)
    }

    fn __add__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Add, other)
    }

    fn __radd__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.behind(py, BinaryOp::Add, other)
    }

    fn __sub__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Sub, other)
    }

    fn __rsub__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.behind(py, BinaryOp::Sub, other)
    }

    fn __mul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Mul, other)
    }

    fn __rmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.behind(py, BinaryOp::Mul, other)
    }

    fn __truediv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Div, other)
    }

    fn __rtruediv__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.behind(py, BinaryOp::Div, other)
    }

    fn __pow__(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Expression> {
        match modulo {
            Some(_) => Err(wrong_type("powers of expressions take no modulus")),
            None => self.with(py, BinaryOp::Pow, other),
        }
    }

    fn __rpow__(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyAny>,
        modulo: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Expression> {
        match modulo {
            Some(_) => Err(wrong_type("powers of expressions take no modulus")),
            None => self.behind(py, BinaryOp::Pow, other),
        }
    }

    fn __matmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.inner.matmul(self.term(py, other)?))
    }

    fn __rmatmul__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.term(py, other)?.matmul(&self.inner))
    }

    fn __neg__(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Neg))
    }

    fn __abs__(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Abs))
    }

    fn matmul(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.__matmul__(py, other)
    }

    fn abs(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Abs))
    }

    fn relu(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Relu))
    }

    fn exp(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Exp))
    }

    fn log(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Log))
    }

    fn sqrt(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Sqrt))
    }

    fn tanh(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Tanh))
    }

    fn sigmoid(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Sigmoid))
    }

    fn gelu(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Gelu))
    }

    #[pyo3(signature = (axis=None))]
    fn sum(&self, axis: Option<isize>) -> PyResult<Expression> {
        self.reduced(ReduceOp::Sum, axis)
    }

    #[pyo3(signature = (axis=None))]
    fn mean(&self, axis: Option<isize>) -> PyResult<Expression> {
        self.reduced(ReduceOp::Mean, axis)
    }

    #[pyo3(signature = (axis=None))]
    fn min(&self, axis: Option<isize>) -> PyResult<Expression> {
        self.reduced(ReduceOp::Min, axis)
    }

    #[pyo3(signature = (axis=None))]
    fn max(&self, axis: Option<isize>) -> PyResult<Expression> {
        self.reduced(ReduceOp::Max, axis)
    }

    #[pyo3(signature = (axis=None))]
    fn prod(&self, axis: Option<isize>) -> PyResult<Expression> {
        self.reduced(ReduceOp::Prod, axis)
    }

    #[pyo3(signature = (axis=-1))]
    fn softmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.softmax(self.axis(axis)?))
    }

    #[pyo3(signature = (axis=-1))]
    fn log_softmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.log_softmax(self.axis(axis)?))
    }

    #[pyo3(signature = (axis=-1))]
    fn logsumexp(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.logsumexp(self.axis(axis)?))
    }

    #[pyo3(signature = (axis=-1))]
    fn variance(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.variance(self.axis(axis)?))
    }

    #[pyo3(signature = (axis=-1))]
    fn cumsum(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.cumsum(self.axis(axis)?))
    }

    fn minimum(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Min, other)
    }

    fn maximum(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Max, other)
    }

    /// Any function of one value by name: neg, abs, relu, exp, log, sqrt, tanh, sigmoid, gelu.
    fn unary(&self, op: &str) -> PyResult<Expression> {
        let all = UnaryOp::ALL.map(UnaryOp::name);
        checked(self.inner.unary(named("function", op, UnaryOp::parse(op), &all)?))
    }

    /// Any function of two values by name: add, sub, mul, div, min, max, pow.
    fn binary(&self, py: Python<'_>, op: &str, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        let all = BinaryOp::ALL.map(BinaryOp::name);
        self.with(py, named("function", op, BinaryOp::parse(op), &all)?, other)
    }

    /// Any comparison by name: eq, ne, lt, le, gt, ge.
    fn mask(&self, py: Python<'_>, op: &str, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        let all = MaskOp::ALL.map(MaskOp::name);
        checked(self.inner.mask(named("comparison", op, MaskOp::parse(op), &all)?, self.term(py, other)?))
    }

    /// Any reduction by name: sum, mean, min, max, prod.
    #[pyo3(signature = (op, axis=None))]
    fn reduce(&self, op: &str, axis: Option<isize>) -> PyResult<Expression> {
        let all = ReduceOp::ALL.map(ReduceOp::name);
        self.reduced(named("reduction", op, ReduceOp::parse(op), &all)?, axis)
    }

    #[pyo3(signature = (*axes))]
    fn transpose(&self, axes: Vec<isize>) -> PyResult<Expression> {
        if axes.is_empty() {
            return checked(self.inner.transpose());
        }
        let axes = axes.into_iter().map(|axis| self.axis(axis)).collect::<PyResult<Vec<usize>>>()?;
        checked(self.inner.permute(&axes))
    }

    fn select(&self, py: Python<'_>, yes: &Bound<'_, PyAny>, no: &Bound<'_, PyAny>) -> PyResult<Expression> {
        let (yes, no) = pair(&*runtime(py)?, yes, no)?;
        checked(self.inner.select(&yes, no))
    }

    fn clip(&self, py: Python<'_>, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.inner.clip(self.term(py, low)?, self.term(py, high)?))
    }

    fn concat(&self, py: Python<'_>, others: Vec<Bound<'_, PyAny>>, axis: isize) -> PyResult<Expression> {
        let others = others.iter().map(|other| self.term(py, other)).collect::<PyResult<Vec<_>>>()?;
        checked(self.inner.concat(&others.iter().collect::<Vec<_>>(), self.axis(axis)?))
    }

    fn pad(
        &self,
        py: Python<'_>,
        by: Vec<(usize, usize)>,
        number: &Bound<'_, PyAny>,
    ) -> PyResult<Expression> {
        checked(self.inner.pad(&by, self.term(py, number)?))
    }

    fn slice_assign(
        &self,
        py: Python<'_>,
        first: Vec<usize>,
        block: &Bound<'_, PyAny>,
    ) -> PyResult<Expression> {
        checked(self.inner.slice_assign(&first, self.term(py, block)?))
    }

    fn take(&self, py: Python<'_>, indices: &Bound<'_, PyAny>, axis: isize) -> PyResult<Expression> {
        checked(self.inner.take(expression(&*runtime(py)?, indices)?, self.axis(axis)?))
    }

    fn take_along(&self, py: Python<'_>, indices: &Bound<'_, PyAny>, axis: isize) -> PyResult<Expression> {
        checked(self.inner.take_along(expression(&*runtime(py)?, indices)?, self.axis(axis)?))
    }

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

    #[pyo3(signature = (op, axis, exclusive=false))]
    fn scan(&self, op: &str, axis: isize, exclusive: bool) -> PyResult<Expression> {
        let all = ScanOp::ALL.map(ScanOp::name);
        checked(self.inner.scan(named("scan", op, ScanOp::parse(op), &all)?, self.axis(axis)?, exclusive))
    }

    #[pyo3(signature = (axis=-1, descending=false))]
    fn sort(&self, axis: isize, descending: bool) -> PyResult<Expression> {
        let axis = self.axis(axis)?;
        checked(if descending { self.inner.sort_descending(axis) } else { self.inner.sort(axis) })
    }

    #[pyo3(signature = (axis=-1, descending=false))]
    fn argsort(&self, axis: isize, descending: bool) -> PyResult<Expression> {
        checked(self.inner.argsort(self.axis(axis)?, descending))
    }

    fn argmin(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.argmin(self.axis(axis)?))
    }

    fn argmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.argmax(self.axis(axis)?))
    }

    #[pyo3(signature = (count, axis=-1))]
    fn top_k(&self, count: usize, axis: isize) -> PyResult<Expression> {
        checked(self.inner.top_k(self.axis(axis)?, count))
    }

    fn cast(&self, dtype: &str) -> PyResult<Expression> {
        let all = trimtab::DType::ALL.map(trimtab::DType::name);
        checked(self.inner.cast(named("element type", dtype, dtype_named(dtype), &all)?))
    }

    fn fft(&self, axes: usize) -> PyResult<Expression> {
        checked(self.inner.fftn(axes))
    }

    fn ifft(&self, axes: usize) -> PyResult<Expression> {
        checked(self.inner.ifftn(axes))
    }

    fn rfft(&self, axes: usize) -> PyResult<Expression> {
        checked(self.inner.rfftn(axes))
    }

    fn irfft(&self, axes: usize, n: usize) -> PyResult<Expression> {
        checked(self.inner.irfftn(axes, n))
    }

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

    /// An expression is its value where it is pickled.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyAny>,))> {
        Ok((py.get_type::<Expression>(), (self.value(py)?,)))
    }
}

fn channels(last: bool) -> Channels {
    if last { Channels::Last } else { Channels::First }
}
