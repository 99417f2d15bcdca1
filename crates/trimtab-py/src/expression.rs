//! Computations that are written down first, as a class of Python. Everything that is not in `fast.rs` is computed by way of it.

mod methods;
mod operators;

use crate::array::array_of;
use crate::current::runtime;
use crate::errors::{raised, wrong_value};
use crate::fast::{axes, finish, has_extremes};
use crate::operand::{Operand, axis_of, expression};
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};
use serde_json::{Value, json};
use trimtab::advanced::core::{BinaryOp, MaskOp, ReduceOp};
use trimtab::{AnyExpression, Axis, Nanos};

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

    fn reduced(&self, op: ReduceOp, axis: Option<&Bound<'_, PyAny>>, keepdims: bool) -> PyResult<Expression> {
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

    /// Expressions are what they are, not what they give: `==` asks whether two are one and the same, `eq` compares elements.
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        slf.as_ptr() as isize
    }

    /// An expression is its value where it is pickled.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, (Bound<'py, PyAny>,))> {
        Ok((py.get_type::<Expression>(), (self.value(py)?,)))
    }
}
