//! The Python package's native module: arrays, expressions, choosing, tuning and the command. What callers see is in `python/trimtab`, which
//! says what things are called; nothing is decided there or here.
//!
//! Two ways to compute: `fast.rs` hands dense arrays of NumPy to kernels as they lie, and `expression.rs` writes operations down, over
//! the same memory, for everything else.

mod array;
mod choice;
mod command;
mod current;
mod errors;
mod expression;
mod fast;
mod kernel;
mod operand;
mod runtime;
mod study;

use pyo3::prelude::*;

/// Nothing here needs the interpreter's lock to be right: runtimes, studies and expressions are shared by threads in Rust as well.
#[pymodule(gil_used = false)]
mod _native {
    use super::*;
    #[pymodule_export]
    use crate::choice::NativeChoice;
    #[pymodule_export]
    use crate::command::_command;
    #[pymodule_export]
    use crate::current::{_flush, _forked};
    #[pymodule_export]
    use crate::expression::Expression;
    #[pymodule_export]
    use crate::fast::{
        _lies, _matmul_in_rust, abs, add, div, exp, gelu, log, matmul, max, maximum, mean, min, minimum, mul,
        neg, pow, prod, relu, sigmoid, sqrt, sub, sum, tanh,
    };
    #[pymodule_export]
    use crate::kernel::NativeKernel;
    #[pymodule_export]
    use crate::runtime::NativeRuntime;
    #[pymodule_export]
    use crate::study::NativeStudy;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
