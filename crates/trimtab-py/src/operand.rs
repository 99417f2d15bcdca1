//! What callers give: arrays of NumPy and of others, expressions, and Python's own numbers, which take the type of what stands beside them.

use crate::array::Array;
use crate::errors::{raised, wrong_type};
use crate::expression::Expression;
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt};
use trimtab::DType;
use trimtab::advanced::operands::{Data, Element, by_dtype};
use trimtab::{AnyExpression, AnyTensor, Error, Runtime, Tensor};

/// A number of Python's, which has no element type of its own.
#[derive(Clone, Copy)]
pub enum Number {
    Flag(bool),
    Integer(i64),
    /// A whole number beyond 64 bits.
    Large(f64),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    /// The number an object is. NumPy's scalars are none: they have a type.
    #[inline]
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Number>> {
        if object.is_exact_instance_of::<PyFloat>() {
            return Ok(Some(Number::Float(object.extract()?)));
        }
        if object.is_exact_instance_of::<PyInt>() {
            // Beyond 64 bits only floats have it, rounded, as in NumPy.
            return match object.extract() {
                Ok(integer) => Ok(Some(Number::Integer(integer))),
                Err(_) => object.extract().map(|float| Some(Number::Large(float))),
            };
        }
        if object.is_exact_instance_of::<PyBool>() {
            return object.extract().map(|flag| Some(Number::Flag(flag)));
        }
        if let Ok(complex) = object.cast_exact::<PyComplex>() {
            use pyo3::types::PyComplexMethods;
            return Ok(Some(Number::Complex(complex.real(), complex.imag())));
        }
        Ok(None)
    }

    /// The number as an element, if it is one of the type.
    fn element<T: Element>(self) -> PyResult<T> {
        let dtype = T::DTYPE;
        let is_whole = dtype.is_integer() || dtype == DType::Bool;
        let wrong = |value: String| raised(Error::Number { value, dtype });
        match self {
            Number::Flag(flag) => Ok(T::from_i64(i64::from(flag))),
            Number::Integer(integer) if is_whole => {
                let (least, most) = dtype.range().unwrap_or((i64::MIN, i64::MAX));
                match dtype == DType::Bool || !(least..=most).contains(&integer) {
                    true if dtype == DType::Bool => Err(wrong(integer.to_string())),
                    true => Err(PyOverflowError::new_err(format!(
                        "{integer} is not a number of the type {dtype}"
                    ))),
                    false => Ok(T::from_i64(integer)),
                }
            }
            Number::Integer(integer) => Ok(T::from_i64(integer)),
            Number::Large(large) if is_whole => {
                Err(PyOverflowError::new_err(format!("{large:.3e} is not a number of the type {dtype}")))
            }
            Number::Large(large) => Ok(T::of_numbers([large, 0.0])),
            Number::Float(float) if !is_whole => Ok(T::of_numbers([float, 0.0])),
            Number::Float(float) => Err(wrong(format!("{float:?}"))),
            Number::Complex(re, im) if dtype.is_complex() => Ok(T::of_numbers([re, im])),
            Number::Complex(re, im) => Err(wrong(format!("{re}{im:+}j"))),
        }
    }

    /// The number as one element of that type.
    pub fn data(self, dtype: DType) -> PyResult<Data> {
        by_dtype!(dtype, T => self.element::<T>().map(|element| T::own(vec![element])))
    }

    fn tensor(self, dtype: DType) -> PyResult<AnyTensor> {
        by_dtype!(dtype, T => self.element::<T>().map(|element| Tensor::scalar(element).into()))
    }
}

/// An operand of an expression.
pub enum Operand {
    Expression(AnyExpression),
    Number(Number),
}

impl Operand {
    /// Reads anything that can be computed with.
    pub fn read(runtime: &Runtime, object: &Bound<'_, PyAny>) -> PyResult<Operand> {
        match Number::of(object)? {
            Some(number) => Ok(Operand::Number(number)),
            None => expression(runtime, object).map(Operand::Expression),
        }
    }

    /// The operand beside one of that type.
    pub fn beside(self, runtime: &Runtime, dtype: DType) -> PyResult<AnyExpression> {
        match self {
            Operand::Expression(expression) => Ok(expression),
            Operand::Number(number) => Ok(runtime.lazy_any(&number.tensor(dtype)?)),
        }
    }

    /// The element type, unless it takes its neighbour's.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Operand::Expression(expression) => Some(expression.dtype()),
            Operand::Number(_) => None,
        }
    }
}

/// Two operands, of which a number takes the other's type; two numbers are what NumPy makes of them.
pub fn pair(
    runtime: &Runtime,
    a: &Bound<'_, PyAny>,
    b: &Bound<'_, PyAny>,
) -> PyResult<(AnyExpression, AnyExpression)> {
    let (left, right) = (Operand::read(runtime, a)?, Operand::read(runtime, b)?);
    match left.dtype().or(right.dtype()) {
        Some(dtype) => Ok((left.beside(runtime, dtype)?, right.beside(runtime, dtype)?)),
        None => {
            let left = expression(runtime, a)?;
            let dtype = left.dtype();
            Ok((left, right.beside(runtime, dtype)?))
        }
    }
}

/// Anything but a lone number as an expression; a lone number is what NumPy makes of it.
pub fn expression(runtime: &Runtime, object: &Bound<'_, PyAny>) -> PyResult<AnyExpression> {
    if let Ok(known) = object.cast::<Expression>() {
        return Ok(known.get().inner.clone());
    }
    if let Some(array) = Array::of(object)? {
        return Ok(runtime.lazy_any(&array.tensor(object)?));
    }
    let taken = take(object)?;
    match Array::of(&taken)? {
        Some(array) => Ok(runtime.lazy_any(&array.tensor(&taken)?)),
        None => Err(wrong_type(format!("{} cannot be computed with", object.get_type()))),
    }
}

/// What is no array of NumPy's as one: shared by DLPack where it can be, else converted.
#[cold]
pub fn take<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object.py().import("trimtab._interop")?.call_method1("take", (object,))
}

/// Whether an object is neither of NumPy nor of Python: what is computed of it is given back as its own kind.
pub fn is_others(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if Number::of(object)?.is_some() || Array::of(object)?.is_some() {
        return Ok(false);
    }
    object.hasattr("__dlpack__")
}

/// A result as the kind of array the operand was.
#[cold]
pub fn give_back<'py>(like: &Bound<'py, PyAny>, result: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    like.py().import("trimtab._interop")?.call_method1("give", (like, result))
}

/// An axis that counts from the end where it is below zero.
pub fn axis_of(axis: isize, shape: &[usize]) -> PyResult<usize> {
    let rank = shape.len() as isize;
    match if axis < 0 { axis + rank } else { axis } {
        found if (0..rank).contains(&found) => Ok(found as usize),
        _ => Err(crate::errors::wrong_value(format!(
            "axis {axis} is none of shape {shape:?}; axes go from {} to {}",
            -rank,
            rank - 1
        ))),
    }
}
