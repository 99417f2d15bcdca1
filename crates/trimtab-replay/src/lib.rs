//! Recordings of kernels on machines we do not own: read, written, made of any device, and searches replayed on them.
#![forbid(unsafe_code)]

mod reader;
mod record;
mod recording;
mod simulate;
mod t4;
mod writer;

pub use reader::{MAX_INDEX_BYTES, MAX_ROWS, MAX_TABLE_BYTES, ReadError, list_recordings, read_recordings};
pub use record::{RecordProgress, RecordRequest, Recorded, record};
pub use recording::{Axis, Completeness, Outcome, Recording, Row, Timing};
pub use simulate::{BUDGETS, Run, Stats, donor_of, simulate, stats};
pub use t4::{Imported, MAX_T4_BYTES, T4Error, T4Names, read_t4, write_t4};
pub use trimtab_tune::{Expression, ExpressionError, MAX_CONSTRAINT_BYTES, MAX_TERMS};
pub use writer::{SameName, WriteError, add_recording, file_name, write_recordings, write_whole};
