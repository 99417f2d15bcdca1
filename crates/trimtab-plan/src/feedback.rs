//! What live calls took: sampled, dropped into a bounded ring, drained off the hot path.

use crate::plan::Plan;
use crossbeam_queue::ArrayQueue;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::Thread;

/// Reports kept until they are drained; more are dropped and counted.
const RING_SIZE: usize = 4096;

/// Shorter calls do not wake the thread that drains: waking takes a few microseconds, and many of them come in half a second.
const WORTH_WAKING_NS: u64 = 100_000;

thread_local! {
    /// Calls made by this thread; decides which are timed. Per thread, so that threads do not share a cache line.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// One timed live call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub plan_id: u32,
    pub elapsed_ns: u64,
}

/// The ring.
pub(crate) struct Feedback {
    ring: ArrayQueue<Report>,
    dropped: AtomicU64,
    /// The plan whose reports are waited for; zero for none.
    awaited: AtomicU32,
    /// Who waits.
    drainer: OnceLock<Thread>,
}

impl Feedback {
    pub(crate) fn new() -> Feedback {
        Feedback {
            ring: ArrayQueue::new(RING_SIZE),
            dropped: AtomicU64::new(0),
            awaited: AtomicU32::new(0),
            drainer: OnceLock::new(),
        }
    }

    /// Drops a report into the ring: no lock, no allocation, no disk.
    #[inline]
    pub(crate) fn report(&self, plan: &Plan, elapsed_ns: u64) {
        let report = Report { plan_id: plan.id, elapsed_ns };
        if plan.id != 0 && self.ring.push(report).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        if plan.id != 0 && plan.id == self.awaited.load(Ordering::Relaxed) && elapsed_ns >= WORTH_WAKING_NS {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        if let Some(drainer) = self.drainer.get() {
            drainer.unpark();
        }
    }

    /// The plan whose reports wake the thread that drains; zero for none.
    pub(crate) fn awaited(&self) -> u32 {
        self.awaited.load(Ordering::Relaxed)
    }

    /// Waits for another plan's reports, unless somebody else changed that meanwhile.
    pub(crate) fn await_reports(&self, before: u32, next: u32) {
        let _ = self.awaited.compare_exchange(before, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Names the thread that drains.
    pub(crate) fn drained_by(&self, drainer: &Thread) {
        let _ = self.drainer.set(drainer.clone());
    }

    pub(crate) fn take(&self) -> Option<Report> {
        self.ring.pop()
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Whether this call of the plan should be timed.
#[inline]
pub(crate) fn should_time(plan: &Plan) -> bool {
    CALLS.with(|calls| {
        let count = calls.get().wrapping_add(1);
        calls.set(count);
        count & plan.sample_mask == 0
    })
}
