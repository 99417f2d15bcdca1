//! Lock-free pieces of trimtab in every order of events that few threads can have: `cargo xtask loom`.
//!
//! The pieces are the very files their crates are built of, compiled here with [loom](https://docs.rs/loom)'s types in the place
//! of the standard library's: both crates name them `crate::sync`. So nothing is built differently for users, and nothing is
//! copied. A model is a function that runs a piece once with a few threads; `tests/models.rs` has loom try all orders of
//! what they do, weak memory included.
//!
//! What loom cannot try: more than five threads, time-outs (so not the sandbox's channels), and foreign code: the queue of
//! the feedback ring and the standard library's `OnceLock` are modelled by what they promise.

mod sync;

#[path = "../../crates/trimtab-cpu/src/pool/board.rs"]
mod board;
#[path = "../../crates/trimtab-plan/src/feedback.rs"]
#[expect(dead_code, reason = "a model uses a part of a piece")]
mod feedback;
#[path = "../../crates/trimtab-cpu/src/blas/one_thread.rs"]
mod one_thread;
#[path = "../../crates/trimtab-plan/src/overflow.rs"]
mod overflow;
#[path = "../../crates/trimtab-plan/src/plan.rs"]
#[expect(dead_code, reason = "a piece needs a part of it")]
mod plan;
#[path = "../../crates/trimtab-plan/src/table.rs"]
#[expect(dead_code, reason = "a model uses a part of a piece")]
mod table;

pub mod of_blas;
pub mod of_feedback;
pub mod of_pool;
pub mod of_table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a thread of a model gave; its panic is the model's.
fn join<T>(thread: loom::thread::JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Runs a model in all orders of events with at most so many involuntary switches between threads, or as many as
/// `LOOM_MAX_PREEMPTIONS` says; how many orders there were. Bugs that need more than two or three switches are very rare, and
/// each multiplies the time by ten.
///
/// # Panics
/// If one of them fails, with what went wrong.
pub fn explore(model: fn(), preemptions: usize) -> u64 {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    count.load(Ordering::Relaxed)
}
