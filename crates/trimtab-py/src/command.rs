//! The command, as `python -m trimtab` and as the script beside the package.

use pyo3::prelude::*;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command; its exit code. `program` are the words that start it again.
#[pyfunction]
pub fn _command(py: Python<'_>, words: Vec<OsString>, program: Vec<String>) -> u8 {
    let code = py.detach(|| trimtab_cli::run(words, &program));
    // A code cannot be read, only compared.
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}
