//! What trimtab remembers: measurements as facts that merge without locks, in memory and in a store.
//!
//! [`Wisdom`] is the whole interface for those who remember; [`Store`] for those who bring another place than a directory.
//! Trouble with the store never fails a call: it becomes a [`Warning`] and memory goes on alone. What is stored is
//! described in FORMAT.md beside this crate's manifest; it is a public interface.
//!
//! ```
//! use trimtab_wisdom::{FactKey, Outcome, Stats, Wisdom};
//! let wisdom = Wisdom::in_memory();
//! let key = FactKey { device: "cpu".into(), problem: "matmul:f32:8x8x8".into(), ..FactKey::default() };
//! wisdom.record(key.clone(), Outcome::Timed(Stats::single(120.0)));
//! wisdom.record(key, Outcome::Timed(Stats::single(100.0)));
//! let facts = wisdom.facts("cpu", "matmul:f32:8x8x8");
//! assert_eq!(facts[0].outcome.stats().map(Stats::mean), Some(110.0));
//! ```
#![forbid(unsafe_code)]

mod blob;
mod compact;
pub mod conformance;
mod directory;
mod exchange;
mod fact;
pub mod files;
#[doc(hidden)]
pub mod fuzzing;
mod line;
mod memory;
mod names;
mod private;
mod quick;
mod seen;
mod segment;
mod store;
mod told;
mod union;
mod verdicts;
mod view;
mod wall;
mod warning;
mod wisdom;

pub use compact::{CompactReport, MAX_BYTES, MAX_SEGMENTS};
pub use directory::Directory;
pub use exchange::{Best, BestChange, ImportReport, MAX_IMPORT_BYTES, MAX_REJECTED, Rejected};
pub use fact::{Extent, Fact, FactKey, Filter, HALF_LIFE_MS, MERGED, MeasuredOn, Outcome, Stats, Verdict};
pub use line::{FORMAT_VERSION, MAX_LINE_BYTES};
pub use memory::Memory;
pub use segment::MAX_LISTED;
pub use store::{MAX_SEGMENT_BYTES, NewSegment, Old, Part, Store, Writer, aside_name};
pub use union::{MAX_FACTS, MAX_FORGETS, MAX_INTENTS, MAX_LIVE_FACTS, MAX_ORIGINS, MAX_VERDICTS};
pub use warning::{MAX_WARNINGS, Warning, WarningKind, WisdomError};
pub use wisdom::{CRASHES, Death, MAX_MESSAGE_BYTES, MAX_QUEUED, Wisdom};
