//! What threads share plans and reports with. The package `interleavings` compiles `table.rs` and `feedback.rs` with types of the
//! same names that try every order of events.

pub(crate) use crossbeam_queue::ArrayQueue;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, OnceLock, RwLock};
pub(crate) use std::thread::Thread;
