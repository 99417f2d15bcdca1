//! Measuring and racing: the clock, statistics of samples, budgets, and the race that finds the fastest candidate.
//!
//! Nothing here knows what a kernel computes or where facts are kept: candidates go in, measurements come out.
#![forbid(unsafe_code)]

mod allowance;
mod budget;
mod clock;
mod expression;
mod leash;
mod race;
mod resize;
mod rules;
mod sandbox;
pub mod search;
mod stats;
mod threads;

pub use allowance::Allowance;
pub use budget::Budget;
pub use clock::{Stopwatch, precision};
pub use expression::{Expression, ExpressionError, MAX_CONSTRAINT_BYTES, MAX_TERMS};
pub use leash::{Held, Leash};
pub use race::{Candidate, Event, Progress, RaceReport, Raced, StopReason, race};
pub use resize::{Margins, Observed, Resize};
pub use rules::{LADDER, Rules};
pub use sandbox::{MAX_ABANDONED, Sandbox, Session};
pub use stats::{geomean, median, median_absolute_deviation, minimum, spread_log2};
pub use threads::{ThreadClock, ThreadId, keep_off_this_core, run_when_idle};
