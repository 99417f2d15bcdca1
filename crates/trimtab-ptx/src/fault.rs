//! What can be wrong: with a module when it is loaded, with a launch before it starts, with a kernel while it runs.

use std::fmt;

/// A module that is not understood. Nothing that is not modelled is ever executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The line of the PTX text, from 1.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// The statement or line in question.
    pub statement: String,
}

impl LoadError {
    pub(crate) fn new(line: u32, message: impl Into<String>, statement: &str) -> Self {
        Self { line, message: message.into(), statement: statement.trim().to_string() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PTX line {}: {}: `{}`", self.line, self.message, self.statement)
    }
}

impl std::error::Error for LoadError {}

/// The kinds of mistakes of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// An access outside everything that is allocated.
    OutOfBounds,
    /// An address that is no multiple of the size of the access.
    Misaligned,
    /// A read of bytes nobody wrote.
    Uninitialised,
    /// Two threads use the same bytes, one of them writes, and nothing orders them.
    Race,
    /// Threads of a block wait at different barriers, or some can never come.
    Barrier,
    /// A warp-wide instruction names threads that never arrive.
    Deadlock,
    /// A warp-wide instruction executed by, or reading from, a lane its mask does not name.
    Mask,
    /// A use of shared memory that an asynchronous copy is still writing.
    CopyInFlight,
    /// A write to a constant, a parameter or a variable of the module.
    ReadOnly,
    /// A division of integers by zero.
    DivisionByZero,
    /// More instructions than [`Limits::instructions`](crate::Limits::instructions).
    TooLong,
    /// The kernel executed `trap`.
    Trap,
}

/// A mistake of a kernel: which, whose, where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of mistake.
    pub kind: FaultKind,
    /// The particulars: addresses, sizes, the other thread.
    pub message: String,
    /// The kernel.
    pub kernel: String,
    /// The block (`blockIdx`).
    pub block: [u32; 3],
    /// The thread (`threadIdx`).
    pub thread: [u32; 3],
    /// The line of the PTX text, from 1.
    pub line: u32,
    /// The line of the CUDA source, where the PTX was compiled with line information.
    pub source_line: Option<u32>,
    /// The text of that PTX line.
    pub statement: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(
            f,
            "{}; kernel {}, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), ",
            self.message, self.kernel
        )?;
        if let Some(line) = self.source_line {
            write!(f, "source line {line}, ")?;
        }
        write!(f, "PTX line {}: `{}`", self.line, self.statement)
    }
}

impl std::error::Error for Fault {}

/// Why a launch did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchError {
    /// The launch asks for what cannot be: too many threads, too much shared memory, parameters of another size.
    Refused(String),
    /// The kernel made a mistake. What it wrote until then stays written.
    Fault(Box<Fault>),
}

impl LaunchError {
    /// The kernel's mistake, if it was one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Fault(fault) => Some(fault),
            Self::Refused(_) => None,
        }
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) => write!(f, "{message}"),
            Self::Fault(fault) => write!(f, "{fault}"),
        }
    }
}

impl std::error::Error for LaunchError {}
