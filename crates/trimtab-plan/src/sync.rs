//! What threads share plans and reports with. The package `interleavings` compiles `table.rs`, `overflow.rs` and `feedback.rs` with types of the
//! same names that try every order of events.

pub(crate) use crossbeam_queue::ArrayQueue;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, OnceLock, RwLock};
pub(crate) use std::thread::Thread;

/// Parts of the plans beyond the table, each with a lock of its own; a power of two.
pub(crate) const PARTS: usize = 64;
/// Longest chain of the table that is looked through. At half load the longest chain stays far below.
pub(crate) const MAX_PROBES: usize = 64;
