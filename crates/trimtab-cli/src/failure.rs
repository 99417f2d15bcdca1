//! What an error means to the shell: 1 the operation failed, 2 the input was wrong. Decides by type, never by text.

use std::fmt;
use std::process::ExitCode;
use trimtab::Error;
use trimtab::advanced::core::ProblemError;
use trimtab::advanced::wisdom::WisdomError;

/// Exit code of an operation or check that failed.
pub const FAILED: u8 = 1;
/// Exit code of bad usage or input; clap uses the same.
const BAD_INPUT: u8 = 2;

/// The caller asked for something that does not exist or does not fit; the message says what does.
#[derive(Debug)]
pub struct BadInput(pub String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// An error that says what to give instead.
pub fn bad_input(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(BadInput(message.into()))
}

/// The exit code of an error.
pub fn exit_code(error: &anyhow::Error) -> ExitCode {
    let bad = error.chain().any(|cause| {
        cause.is::<BadInput>()
            || cause.is::<ProblemError>()
            || cause.is::<WisdomError>()
            || matches!(
                cause.downcast_ref::<Error>(),
                Some(Error::Environment { .. } | Error::NoSuchDevice { .. } | Error::Problem(_))
            )
    });
    ExitCode::from(if bad { BAD_INPUT } else { FAILED })
}

/// Whether standard output was closed by its reader.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
