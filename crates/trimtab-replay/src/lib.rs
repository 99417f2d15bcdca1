//! Devices made of recordings: machines we do not own, replayed in virtual time, and the searches tried on them; and devices
//! made of a few numbers ([`machine`]).
#![forbid(unsafe_code)]

mod expression;
pub mod machine;
mod reader;
mod record;
mod recorded_device;
mod recording;
mod simulate;
mod t4;
mod writer;

pub use expression::{Expression, ExpressionError};
pub use reader::{ReadError, list_recordings, read_recordings};
pub use record::{RecordProgress, RecordRequest, Recorded, record};
pub use recorded_device::{RecordedDevice, problem_of};
pub use recording::{Axis, Completeness, Outcome, Recording, Row, Timing};
pub use simulate::{BUDGETS, Run, Stats, donor_of, simulate, stats};
pub use t4::{Imported, T4Error, T4Names, read_t4, write_t4};
pub use writer::{WriteError, file_name, write_recordings};
