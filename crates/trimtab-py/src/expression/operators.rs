//! What expressions do element by element: operators, functions, comparisons.

use super::{Expression, checked, named};
use crate::current::runtime;
use crate::errors::wrong_type;
use crate::operand::pair;
use pyo3::prelude::*;
use trimtab::advanced::core::{BinaryOp, MaskOp, UnaryOp};

#[pymethods]
impl Expression {
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

    /// The element of ``yes`` where this is true, of ``no`` elsewhere.
    fn select(&self, py: Python<'_>, yes: &Bound<'_, PyAny>, no: &Bound<'_, PyAny>) -> PyResult<Expression> {
        let (yes, no) = pair(&*runtime(py)?, yes, no)?;
        checked(self.inner.select(&yes, no))
    }

    /// ``min(max(x, low), high)``; a NaN stays.
    fn clip(&self, py: Python<'_>, low: &Bound<'_, PyAny>, high: &Bound<'_, PyAny>) -> PyResult<Expression> {
        checked(self.inner.clip(self.term(py, low)?, self.term(py, high)?))
    }
}
