//! Building ahead where the driver compiles: children of their own build the next points and launch one workgroup of each, so that the
//! driver finds them on disk when they are measured. Nothing they say counts.
//!
//! With PoCL a point of the example `stencil` takes 0.06 s instead of 0.65 s to build. A driver that keeps nothing is found out: whoever was
//! built ahead and still takes long shows it.

use crate::job::{Job, Question};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_core::Nanos;
use trimtab_study::{Conversation, Launch, Quiet};
use trimtab_tune::Stopwatch;

/// Children at once.
const WARMERS: usize = 2;
/// Each has arguments of its own: beyond so many bytes nothing is built ahead.
const MAX_BYTES: usize = 256 << 20;
/// Points after which it is asked whether it helps, and the share of the time it must save.
const TRIED: u32 = 3;
const SAVED: f64 = 0.3;

/// Children that build ahead.
#[derive(Debug, Default)]
pub(crate) struct Warmers {
    talks: [Mutex<Option<Conversation>>; WARMERS],
    savings: Mutex<Savings>,
    /// They do not help here.
    is_off: AtomicBool,
    /// They end now.
    is_resting: AtomicBool,
}

#[derive(Debug, Default)]
struct Savings {
    /// Seconds that building ahead took, by what was built, until it is measured.
    ahead: BTreeMap<String, f64>,
    points: u32,
    /// Seconds of building ahead, and of the first runs of the same points.
    before: f64,
    after: f64,
}

fn name(job: &Job) -> String {
    format!("{:?} {:?} {:?}", job.defines, job.flags, job.workgroup)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Warmers {
    /// Builds a point ahead, if a child is free for it and it is worth it.
    pub(crate) fn warm(
        &self,
        job: &Job,
        child: &[String],
        limit: Nanos,
        memory: Option<u64>,
        quiet: &Arc<Quiet>,
        stop: &AtomicBool,
    ) {
        let bytes = job.arguments.iter().map(|given| given.bytes()).fold(0, usize::saturating_add);
        if self.is_off.load(Ordering::Relaxed) || bytes > MAX_BYTES {
            return;
        }
        let Some(mut talk) = self.talks.iter().find_map(|talk| talk.try_lock().ok()) else { return };
        if talk.is_none() {
            let makes_way_for = Some(Arc::clone(quiet));
            let launch = Launch { words: child.to_vec(), makes_way_for, ..Launch::default() };
            *talk = Conversation::start(&launch).ok();
        }
        let Ok(line) = serde_json::to_string(&Question::Warm { job: job.clone() }) else { return };
        let watch = Stopwatch::start();
        let answer =
            talk.as_mut().map(|talk| talk.ask(&line, Some(limit), memory, &[stop, &self.is_resting]));
        match answer {
            Some(Ok(_)) => {
                lock(&self.savings).ahead.insert(name(job), watch.elapsed().0 as f64 / 1e9);
            }
            // What is wrong with the point shows when it is measured.
            _ => *talk = None,
        }
    }

    /// The first run of a point took that long: was building it ahead of use?
    pub(crate) fn measured(&self, job: &Job, seconds: f64) {
        let mut savings = lock(&self.savings);
        let Some(ahead) = savings.ahead.remove(&name(job)) else { return };
        savings.points += 1;
        savings.before += ahead;
        savings.after += seconds;
        let helps = savings.after < (1.0 - SAVED) * savings.before;
        drop(savings);
        if !helps && lock(&self.savings).points >= TRIED {
            self.is_off.store(true, Ordering::Relaxed);
            self.rest();
        }
    }

    /// Ends the children, until one is wanted again: what they hold may be what a point lacks. Whether there were any.
    pub(crate) fn rest(&self) -> bool {
        let is_there =
            |talk: &Mutex<Option<Conversation>>| talk.try_lock().map_or(true, |talk| talk.is_some());
        let any = self.talks.iter().any(is_there);
        // Those at work see it within a tick.
        self.is_resting.store(true, Ordering::Relaxed);
        self.talks.iter().for_each(|talk| *lock(talk) = None);
        self.is_resting.store(false, Ordering::Relaxed);
        any
    }
}
