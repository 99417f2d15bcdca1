//! What turns a point into numbers: the joint between a study and whatever it tunes.

use crate::outcome::{Failed, Ran};
use crate::quiet::Quiet;
use crate::space::NamedPoint;

/// Why a run gave no numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// The point failed. The search goes on.
    Failed(Failed),
    /// No point can work: a program is missing. The search ends, and says what to do.
    Fatal(String),
    /// It was stopped before it was known.
    Stopped,
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Trouble {
        Trouble::Failed(failed)
    }
}

/// Turns a point into numbers. Commands do ([`crate::CommandRunner`]); a kernel in a file can too.
pub trait Runner: Sync {
    /// Whether the value is a time: then nothing else may run beside it, and the smallest of several runs counts.
    fn measures_time(&self) -> bool;

    /// Whether [`Runner::build`] may work for some points while another is measured.
    fn builds_ahead(&self) -> bool {
        false
    }

    /// What pauses while a time is taken.
    fn quiet(&self) -> Option<&Quiet> {
        None
    }

    /// Makes what runs of the point need. Called before its first run, once, or again where it is cheap: who builds keeps what was built.
    fn build(&self, _point: &NamedPoint, _makes_way: bool) -> Result<(), Trouble> {
        Ok(())
    }

    /// Runs a point once. Of the first run of a point the result is checked too.
    fn run(&self, point: &NamedPoint, worker: usize, first: bool) -> Result<Ran, Trouble>;
}
