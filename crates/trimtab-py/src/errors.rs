//! What went wrong, as Python says it: wrong types are `TypeError`, wrong shapes and values `ValueError`, with the facade's own text.

use pyo3::PyErr;
use pyo3::exceptions::{
    PyArithmeticError, PyIndexError, PyMemoryError, PyOSError, PyOverflowError, PyRuntimeError, PyTypeError,
    PyValueError, PyZeroDivisionError,
};
use trimtab::Error;
use trimtab::advanced::core::{LaunchError, ProblemError};

/// The exception for an error of the facade.
#[cold]
pub fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Problem(ProblemError::DType { .. })
        | Error::MixedTypes { .. }
        | Error::ElementType { .. }
        | Error::Number { .. } => PyTypeError::new_err(text),
        Error::Launch(LaunchError::Overflow { .. }) => PyOverflowError::new_err(text),
        Error::Launch(LaunchError::Data(_)) if text.contains("zero") => PyZeroDivisionError::new_err(text),
        Error::Launch(LaunchError::Data(_)) if text.contains("index") => PyIndexError::new_err(text),
        Error::Launch(LaunchError::Data(_)) => PyArithmeticError::new_err(text),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
        Error::File { .. } => PyOSError::new_err(text),
        Error::Launch(_) | Error::Fetch(_) | Error::Plan(_) | Error::Place(_) => {
            PyRuntimeError::new_err(text)
        }
        _ => PyValueError::new_err(text),
    }
}

/// The exception for a value that makes no sense.
pub fn wrong_value(text: impl ToString) -> PyErr {
    PyValueError::new_err(text.to_string())
}

/// The exception for something of a type nobody can compute with.
pub fn wrong_type(text: impl ToString) -> PyErr {
    PyTypeError::new_err(text.to_string())
}
