//! What a kernel will do (work) and how long that is expected to take (estimate).

use crate::{Bytes, Flops, Nanos};
use std::fmt;

/// What an estimate rests on. Nothing else enters a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// This many samples of this very problem, kernel and point.
    Measured(u32),
    /// A fit over this many measurements of the same kernel on other problems or points.
    Fitted(u32),
    /// A model of which rival is fastest, learned from this many other problems, at the level of the fits.
    Learned(u32),
    /// The kernel's work against the device's rates.
    Analytic,
}

impl Basis {
    /// The word used in `--json` output: `measured`, `fitted`, `learned`, `analytic`.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Measured(_) => "measured",
            Basis::Fitted(_) => "fitted",
            Basis::Learned(_) => "learned",
            Basis::Analytic => "analytic",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Basis::Measured(n) => write!(f, "measured ({n})"),
            Basis::Fitted(n) => write!(f, "fitted ({n})"),
            Basis::Learned(n) => write!(f, "learned ({n})"),
            Basis::Analytic => f.write_str("analytic"),
        }
    }
}

/// An expected time with its spread and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The expected time of one call.
    pub time: Nanos,
    /// One standard deviation, in doublings (log2 units).
    pub spread_log2: f64,
    /// What it rests on.
    pub basis: Basis,
}

impl Estimate {
    /// The spread, where there is one: a single sample has none, and what nothing is known of neither.
    pub fn known_spread(&self) -> Option<f64> {
        let single = matches!(self.basis, Basis::Measured(0 | 1));
        Some(self.spread_log2).filter(|spread| spread.is_finite() && !single)
    }
}

/// What one launch does: counted, not guessed. The analytic prior and the constraints are computed from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Arithmetic operations.
    pub flops: Flops,
    /// Bytes read and written, counted once per time the kernel really walks over them.
    pub bytes: Bytes,
    /// Memory the kernel needs beside its operands.
    pub scratch: Bytes,
    /// Synchronisations or launches: times work is handed to other threads or a queue.
    pub launches: u32,
    /// Threads used, including the caller's.
    pub threads: u32,
    /// Elements one arithmetic instruction handles: 1 for scalar code.
    pub lanes: u32,
    /// On a GPU: times a workgroup waits for all its invocations, summed over workgroups.
    pub barriers: u64,
    /// On a GPU: invocations that run independently of each other; zero where that is not what limits a device.
    pub invocations: u64,
    /// How far an element may be off beyond what its type's rounding explains, as a share of the sizes of the terms added up for it;
    /// zero for kernels that compute as the type does. Only a caller's [`Tolerance`](crate::Tolerance) lets others answer, and their
    /// results are checked against this.
    pub error: f64,
}
