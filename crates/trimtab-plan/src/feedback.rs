//! What live calls took: sampled, dropped into a bounded ring, drained off the hot path.
//!
//! The package `interleavings` runs this very file in every order of events that few threads can have.

use crate::plan::Plan;
use crate::sync::{ArrayQueue, AtomicU32, AtomicU64, OnceLock, Ordering, Thread};
use std::cell::Cell;

/// Reports kept until they are drained; more are dropped and counted.
const RING_SIZE: usize = 4096;

/// Shorter calls do not wake the thread that drains: waking takes a few microseconds, and many of them come in half a second.
const WORTH_WAKING_NS: u64 = 100_000;

thread_local! {
    /// The random number that decides which calls of this thread are timed; zero before the first. Per thread, so that threads do
    /// not share a cache line.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// A linear congruential generator (Knuth's MMIX): one multiplication a call. Its high bits are the random ones.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
const HIGH_BITS: u32 = 40;

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

/// Whether this call of the plan should be timed. Each is drawn by itself: with a counter that all plans of a thread share, one of
/// two plans called in turns would never be timed.
#[inline]
pub(crate) fn should_time(plan: &Plan) -> bool {
    DRAWN.with(|drawn| {
        let last = match drawn.get() {
            0 => seed(),
            last => last,
        };
        let next = last.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        drawn.set(next);
        (next >> HIGH_BITS) as u32 & plan.sample_mask == 0
    })
}

/// Where a thread's draws begin: elsewhere than those of the others, or threads of a few calls would all time the same ones.
#[cold]
fn seed() -> u64 {
    static THREADS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    THREADS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trimtab_core::{KernelId, Nanos, Point};

    /// Calls of each plan of a loop at least; plans that are timed most seldom get some hundred of them.
    const CALLS: usize = 200_000;
    /// How many standard deviations of a fair draw a plan's timed calls may be away from its share.
    const DEVIATIONS: f64 = 6.0;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn every_plan_of_a_loop_gets_its_share_of_timed_calls_whatever_the_pattern(
            expected in proptest::collection::vec(1u64..20_000, 1..=8),
            more in proptest::collection::vec(any::<usize>(), 0..24),
        ) {
            let plans: Vec<Plan> = expected.iter().map(|&ns| Plan::new(0, KernelId(0), Point::EMPTY, Nanos(ns))).collect();
            let pattern: Vec<usize> = (0..plans.len()).chain(more.iter().map(|at| at % plans.len())).collect();
            let mut counts = vec![(0u32, 0u32); plans.len()];
            for _ in 0..CALLS {
                for &at in &pattern {
                    counts[at].0 += 1;
                    counts[at].1 += u32::from(should_time(&plans[at]));
                }
            }
            for (plan, (calls, timed)) in plans.iter().zip(counts) {
                let (calls, share) = (f64::from(calls), 1.0 / f64::from(plan.sample_interval()));
                let off = (f64::from(timed) - calls * share).abs();
                let bound = DEVIATIONS * (calls * share * (1.0 - share)).sqrt();
                prop_assert!(off <= bound, "{timed} of {calls} calls timed, one in {}", plan.sample_interval());
            }
        }
    }

    #[test]
    fn threads_of_a_single_call_time_their_share_too() {
        let plan = Plan::new(0, KernelId(0), Point::EMPTY, Nanos(1_000));
        let calls = 400;
        let timed: u32 = (0..calls)
            .map(|_| u32::from(std::thread::spawn(move || should_time(&plan)).join().unwrap()))
            .sum();
        let share = f64::from(calls) / f64::from(plan.sample_interval());
        assert!((f64::from(timed) - share).abs() <= DEVIATIONS * share.sqrt(), "{timed} for {share}");
    }
}
