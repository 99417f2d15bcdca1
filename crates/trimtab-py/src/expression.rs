//! Computations that are written down first, as a class of Python. Everything that is not in `fast.rs` is computed by way of it.

use crate::array::{array_of, dtype_named};
use crate::current::runtime;
use crate::errors::{raised, wrong_type, wrong_value};
use crate::fast::{axes, finish, has_extremes};
use crate::operand::{Operand, axis_of, expression, pair};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use serde_json::{Value, json};
use trimtab::advanced::core::{BinaryOp, Channels, MaskOp, PoolOp, ReduceOp, ScanOp, UnaryOp};
use trimtab::{AnyExpression, Axis, Nanos, Windows};

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

    fn compared(&self, py: Python<'_>, op: MaskOp, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.inner.mask(op, self.term(py, other)?))
    }

    fn axis(&self, axis: isize) -> PyResult<usize> {
        axis_of(axis, self.inner.shape())
    }

    fn reduced(
        &self,
        op: ReduceOp,
        axis: Option<&Bound<'_, PyAny>>,
        keepdims: bool,
    ) -> PyResult<Expression> {
        let shape = self.inner.shape();
        let over = axes(op, axis, shape)?;
        has_extremes(op, shape, over.as_deref())?;
        let one = |axis| if keepdims { Axis::Kept(axis) } else { Axis::One(axis) };
        checked(match over {
            None if keepdims => self.inner.reduce(op, Axis::All).reshape(&vec![1; shape.len()]),
            None => self.inner.reduce(op, Axis::All),
            // The last first, so that those before keep their places.
            Some(over) => {
                over.into_iter().rev().fold(self.inner.clone(), |made, axis| made.reduce(op, one(axis)))
            }
        })
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

    /// The size along each axis.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.shape())
    }

    /// The element type, as trimtab writes it: f32, i64, bool …
    #[getter]
    fn dtype(&self) -> &'static str {
        self.inner.dtype().name()
    }

    /// How many axes there are.
    #[getter]
    fn ndim(&self) -> usize {
        self.inner.shape().len()
    }

    /// With all axes in reverse order.
    #[getter(T)]
    fn reversed(&self) -> PyResult<Expression> {
        checked(self.inner.transpose())
    }

    /// Computes it: an array, which is kept for whoever asks again and is read-only. ``copy()`` it to write.
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

    /// Computes it: the one element as a number of Python's.
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

    /// How it will be computed and why: what runs as one, where, and what that is expected to take. Computes nothing.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        self._explanation(py).map(|(text, _)| text)
    }

    /// The same as text and as JSON.
    fn _explanation(&self, py: Python<'_>) -> PyResult<(String, String)> {
        let told = py.detach(|| self.inner.explain()).map_err(raised)?;
        let ns = |time: Option<Nanos>| time.map(|time| time.0);
        let launches: Vec<Value> = told
            .launches
            .iter()
            .map(|launch| {
                json!({
                    "what": launch.what, "operations": launch.operations, "device": launch.device, "why": launch.why,
                    "processor_ns": launch.processor.as_ref().map(|estimate| estimate.time.0),
                    "other": launch.other.as_ref().map(|(name, _)| name),
                    "other_ns": launch.other.as_ref().map(|(_, estimate)| estimate.time.0),
                    "apart_ns": ns(launch.apart), "note": launch.note,
                })
            })
            .collect();
        let numbers = json!({
            "launches": launches, "expected_ns": ns(told.expected), "bound_ns": ns(told.bound), "notes": told.notes,
        });
        Ok((told.to_string(), numbers.to_string()))
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

    /// The matrix product over the last two axes; the same as ``@``.
    fn matmul(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.__matmul__(py, other)
    }

    /// ``|x|``; integers wrap.
    fn abs(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Abs))
    }

    /// ``max(x, 0)``.
    fn relu(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Relu))
    }

    /// e to the power of x.
    fn exp(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Exp))
    }

    /// Natural logarithm.
    fn log(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Log))
    }

    /// Square root.
    fn sqrt(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Sqrt))
    }

    /// Hyperbolic tangent.
    fn tanh(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Tanh))
    }

    /// ``1 / (1 + exp(-x))``.
    fn sigmoid(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Sigmoid))
    }

    /// The Gaussian error linear unit, in its tanh form.
    fn gelu(&self) -> PyResult<Expression> {
        checked(self.inner.unary(UnaryOp::Gelu))
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
    #[pyo3(signature = (axis=-1))]
    fn softmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.softmax(self.axis(axis)?))
    }

    /// The logarithm of the softmax, along an axis.
    #[pyo3(signature = (axis=-1))]
    fn log_softmax(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.log_softmax(self.axis(axis)?))
    }

    /// ``log(sum(exp(x)))`` along an axis, which the result does not have.
    #[pyo3(signature = (axis=-1))]
    fn logsumexp(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.logsumexp(self.axis(axis)?))
    }

    /// The mean of squared distances from the mean along an axis, which the result does not have.
    #[pyo3(signature = (axis=-1))]
    fn variance(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.variance(self.axis(axis)?))
    }

    /// Every element with those before it along an axis, added up.
    #[pyo3(signature = (axis=-1))]
    fn cumsum(&self, axis: isize) -> PyResult<Expression> {
        checked(self.inner.cumsum(self.axis(axis)?))
    }

    /// The smaller of each pair; a NaN wins.
    fn minimum(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Min, other)
    }

    /// The larger of each pair; a NaN wins.
    fn maximum(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Max, other)
    }

    /// ``self`` to the power of ``other``, element by element; the same as ``**``.
    fn pow(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.with(py, BinaryOp::Pow, other)
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
        self.compared(py, named("comparison", op, MaskOp::parse(op), &all)?, other)
    }

    /// Whether ``self == other``, element by element.
    fn eq(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Eq, other)
    }

    /// Whether ``self != other``, element by element.
    fn ne(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Ne, other)
    }

    /// Whether ``self < other``, element by element.
    fn lt(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Lt, other)
    }

    /// Whether ``self <= other``, element by element.
    fn le(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Le, other)
    }

    /// Whether ``self > other``, element by element.
    fn gt(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Gt, other)
    }

    /// Whether ``self >= other``, element by element.
    fn ge(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Ge, other)
    }

    fn __lt__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Lt, other)
    }

    fn __le__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Le, other)
    }

    fn __gt__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Gt, other)
    }

    fn __ge__(&self, py: Python<'_>, other: &Bound<'_, PyAny>) -> PyResult<Expression> {
        self.compared(py, MaskOp::Ge, other)
    }

    /// Expressions are what they are, not what they give: `==` asks whether two are one and the same, `eq` compares elements.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize
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

    /// The element of ``yes`` where this is true, of ``no`` elsewhere.
    fn select(&self, py: Python<'_>, yes: &Bound<'_, PyAny>, no: &Bound<'_, PyAny>) -> PyResult<Expression> {
        let (yes, no) = pair(&*runtime(py)?, yes, no)?;
        checked(self.inner.select(&yes, no))
    }

    /// ``min(max(x, low), high)``; a NaN stays.
    fn clip(&self, py: Python<'_>, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.inner.clip(self.term(py, low)?, self.term(py, high)?))
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
    #[pyo3(signature = (axis=-1, descending=false))]
    fn sort(&self, axis: isize, descending: bool) -> PyResult<Expression> {
        let axis = self.axis(axis)?;
        checked(if descending { self.inner.sort_descending(axis) } else { self.inner.sort(axis) })
    }

    /// The indices that put the elements along an axis in order.
    #[pyo3(signature = (axis=-1, descending=false))]
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
    #[pyo3(signature = (count, axis=-1))]
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

    /// An expression is its value where it is pickled.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyAny>,))> {
        Ok((py.get_type::<Expression>(), (self.value(py)?,)))
    }
}

/// A shape of which one size may be left open.
fn whole_shape(sizes: &[isize], from: &[usize]) -> PyResult<Vec<usize>> {
    if sizes.iter().any(|size| *size < -1) || sizes.iter().filter(|size| **size == -1).count() > 1 {
        return Err(wrong_value(format!("shape {sizes:?} makes no sense; one size may be -1, all others count")));
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
