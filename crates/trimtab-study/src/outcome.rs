//! What came of a point: numbers, or how it failed and what it said last.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use trimtab_core::FailureKind;

/// Lines of output kept of a failure.
pub const KEPT_LINES: usize = 20;
/// Characters kept of such a line.
const KEPT_CHARACTERS: usize = 400;

trimtab_core::named! {
    /// The ways a point can fail.
    pub enum Fault {
        /// It did not end in time and was ended.
        TimedOut = "timeout",
        /// It used more memory than it may and was ended.
        Memory = "memory",
        /// A signal ended it.
        Crashed = "crash",
        /// It said itself that it failed.
        Exit = "exit",
        /// It could not be started.
        Start = "start",
        /// What builds it failed.
        Compile = "compile",
        /// What prepares a run failed.
        Prepare = "prepare",
        /// What checks the result says it is wrong.
        Wrong = "wrong",
        /// It ran, but the number asked for is not there.
        Unreadable = "metric",
        /// It ran, and one of its numbers is beyond a limit.
        Limit = "limit",
        /// Some of its runs failed and others did not.
        Flaky = "flaky",
        /// Whoever runs it says that it failed.
        Told = "told",
    }
}

impl Fault {
    /// The nearest kind among those of kernels, for exchange with others.
    pub fn kind(self) -> FailureKind {
        match self {
            Fault::TimedOut => FailureKind::TimedOut,
            Fault::Crashed => FailureKind::Crashed,
            Fault::Compile => FailureKind::Compile,
            Fault::Wrong => FailureKind::Wrong,
            _ => FailureKind::Launch,
        }
    }
}

impl Serialize for Fault {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Fault {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Fault, D::Error> {
        let name = String::deserialize(from)?;
        Fault::parse(&name).ok_or_else(|| serde::de::Error::custom(format!("there is no fault `{name}`")))
    }
}

/// How a point failed, with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Which way.
    pub fault: Fault,
    /// What was seen, with the numbers.
    pub message: String,
    /// The last lines it wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub output: Vec<String>,
    /// Its numbers, where it ran and a limit was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Ran>,
}

impl Failed {
    /// A failure without output.
    pub fn new(fault: Fault, message: impl Into<String>) -> Failed {
        Failed { fault, message: message.into(), output: Vec::new(), ran: None }
    }

    /// The same with the last lines of what was written.
    pub fn with_output(mut self, written: &[u8]) -> Failed {
        self.output = last_lines(written);
        self
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.fault, self.message)
    }
}

/// The last lines that are not empty.
pub(crate) fn last_lines(written: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(written);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(KEPT_LINES)
        .map(|line| line.chars().take(KEPT_CHARACTERS).collect())
        .collect();
    lines.reverse();
    lines
}

/// The numbers of a point that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// What is minimised or maximised.
    pub value: f64,
    /// What the value was made of, in the order it was measured: the smallest of times, the middle of other numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<f64>,
    /// Further numbers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, f64>,
}

impl Ran {
    /// A value and nothing else.
    pub fn of(value: f64) -> Ran {
        Ran { value, samples: vec![value], others: BTreeMap::new() }
    }
}

/// What came of a point.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It ran.
    Ran(Ran),
    /// It did not, or not as it may.
    Failed(Failed),
}

impl Outcome {
    /// Its numbers, if it ran and kept to the limits.
    pub fn ran(&self) -> Option<&Ran> {
        match self {
            Outcome::Ran(ran) => Some(ran),
            Outcome::Failed(_) => None,
        }
    }

    /// How it failed, if it did.
    pub fn failed(&self) -> Option<&Failed> {
        match self {
            Outcome::Ran(_) => None,
            Outcome::Failed(failed) => Some(failed),
        }
    }
}
