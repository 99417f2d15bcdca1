//! What happened when a kernel ran: a sample, or how it failed.

use crate::Nanos;
use std::fmt;

/// One timed batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Time of the whole batch.
    pub elapsed: Nanos,
    /// How many launches the batch held; at least 1.
    pub iterations: u32,
    /// What disturbed the batch, if anything was seen.
    pub interference: Option<Interference>,
    /// Energy of the whole batch in microjoules, where the machine can tell.
    pub energy_uj: Option<u64>,
    /// Time it took to build the kernel, where it was built for this sample. Not part of `elapsed`.
    pub compiled_in: Option<Nanos>,
}

impl Sample {
    /// Time of one launch in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.elapsed.0 as f64 / f64::from(self.iterations.max(1))
    }
}

/// Something else used the machine while a batch was timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interference {
    /// The thread was taken off its core.
    Preempted,
    /// The hypervisor gave the core to another guest.
    Stolen,
    /// Somebody computed on the other thread of the core.
    Shared,
    /// The clock frequency was lowered by heat or power limits.
    Throttled,
}

impl fmt::Display for Interference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Interference::Preempted => "pre-empted by another thread",
            Interference::Stolen => "core taken by the hypervisor",
            Interference::Shared => "core shared with another",
            Interference::Throttled => "clock throttled",
        })
    }
}

/// The ways a candidate can fail. Remembered like a time, but for the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureKind {
    /// The kernel could not be built for this device.
    Compile,
    /// It could not be started or reported an error.
    Launch,
    /// Its result differs from the reference.
    Wrong,
    /// It did not finish in time.
    TimedOut,
    /// The process died while it ran.
    Crashed,
    /// It could not be tried, for reasons that are not its own. Says nothing about it and is never remembered.
    Untried,
}

impl FailureKind {
    /// Every kind that is remembered.
    pub const ALL: [FailureKind; 5] = [
        FailureKind::Compile,
        FailureKind::Launch,
        FailureKind::Wrong,
        FailureKind::TimedOut,
        FailureKind::Crashed,
    ];

    /// The name in wisdom and `--json` output.
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Compile => "compile",
            FailureKind::Launch => "launch",
            FailureKind::Wrong => "wrong",
            FailureKind::TimedOut => "timeout",
            FailureKind::Crashed => "crashed",
            FailureKind::Untried => "untried",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<FailureKind> {
        FailureKind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How a candidate failed, in words a person can act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which way.
    pub kind: FailureKind,
    /// What was seen, with the numbers.
    pub message: String,
}

impl Failure {
    /// A failure of that kind.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Failure {
        Failure { kind, message: message.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.message)
    }
}
