//! Devices made of recordings: machines we do not own, replayed in virtual time, and the searches tried on them.
#![forbid(unsafe_code)]

mod expression;
mod reader;
mod recorded_device;
mod recording;
mod simulate;

pub use expression::{Expression, ExpressionError};
pub use reader::{ReadError, list_recordings, read_recordings};
pub use recorded_device::{RecordedDevice, problem_of};
pub use recording::{Axis, Completeness, Outcome, Recording, Row, Timing};
pub use simulate::{BUDGETS, Run, Stats, donor_of, simulate, stats};
