//! What live calls took: sampled, dropped into a bounded ring, drained off the hot path.

use crate::plan::Plan;
use crossbeam_queue::ArrayQueue;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reports kept until they are drained; more are dropped and counted.
const RING_SIZE: usize = 4096;

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
}

impl Feedback {
    pub(crate) fn new() -> Feedback {
        Feedback { ring: ArrayQueue::new(RING_SIZE), dropped: AtomicU64::new(0) }
    }

    /// Drops a report into the ring: no lock, no allocation, no disk.
    #[inline]
    pub(crate) fn report(&self, plan: &Plan, elapsed_ns: u64) {
        let report = Report { plan_id: plan.id, elapsed_ns };
        if plan.id != 0 && self.ring.push(report).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
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
