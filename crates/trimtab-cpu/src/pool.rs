//! Threads that share the work of one launch. The caller takes part, late helpers are not waited for, and nothing
//! is allocated per launch.
//!
//! Rayon was left out on purpose: a call from outside its pool hands the whole job over and sleeps, which costs two
//! thread switches; here the caller computes from the first nanosecond.

use crate::running::Caller;
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{JoinHandle, Thread};
use trimtab_tune::ThreadId;

/// Most threads a pool has.
pub const MAX_THREADS: u32 = 256;
/// Polls before an idle helper goes to sleep: about 20 µs. Waking a sleeper costs about as much.
const SPINS_BEFORE_SLEEP: u32 = 4_000;

/// In `Shared::state`: the job takes no more helpers.
const CLOSED: u64 = 1 << 31;
/// In `Shared::state`: helpers at work.
const ACTIVE: u64 = CLOSED - 1;

type Body<'a> = &'a (dyn Fn(usize) + Sync);

struct Job {
    /// Valid while the caller is inside `run`, which does not return before `ACTIVE` is zero and `CLOSED` is set.
    body: Body<'static>,
    tasks: usize,
    caller: Caller,
}

struct Shared {
    /// Generation in the upper half, `CLOSED` and the number of active helpers in the lower.
    state: AtomicU64,
    job: UnsafeCell<Job>,
    next: AtomicUsize,
    /// Helpers wanted for the present job; those with a higher index stay away.
    wanted: AtomicU32,
    stop: AtomicBool,
    /// Times a helper took part in a job.
    joined: AtomicU64,
    asleep: Vec<AtomicBool>,
    /// The helpers' names for the system, once they run.
    ids: Vec<OnceLock<ThreadId>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only by the caller that holds `Pool::busy`, while `CLOSED` is set and no helper is active;
// helpers read it only between raising and lowering the active count of an open job.
unsafe impl Sync for Shared {}

/// A pool of threads, the caller's included.
pub struct Pool {
    shared: Arc<Shared>,
    busy: AtomicBool,
    helpers: Vec<Thread>,
    handles: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pool({} threads)", self.threads())
    }
}

impl Pool {
    /// A pool of that many threads including the caller's. If the system refuses a thread, the pool is smaller.
    pub fn new(threads: u32) -> Pool {
        let wanted = threads.clamp(1, MAX_THREADS) - 1;
        let shared = Arc::new(Shared {
            state: AtomicU64::new(CLOSED),
            job: UnsafeCell::new(Job { body: &|_| (), tasks: 0, caller: Caller::NOBODY }),
            next: AtomicUsize::new(0),
            wanted: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            joined: AtomicU64::new(0),
            asleep: (0..wanted).map(|_| AtomicBool::new(false)).collect(),
            ids: (0..wanted).map(|_| OnceLock::new()).collect(),
            panic: Mutex::new(None),
        });
        let mut handles = Vec::new();
        for index in 0..wanted {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name(format!("trimtab-{index}"));
            match builder.spawn(move || {
                // Set once, by nobody else.
                let _ = shared.ids[index as usize].set(ThreadId::own());
                shared.help(index);
            }) {
                Ok(handle) => handles.push(handle),
                Err(_) => break,
            }
        }
        let helpers = handles.iter().map(|handle| handle.thread().clone()).collect();
        Pool { shared, busy: AtomicBool::new(false), helpers, handles }
    }

    /// Threads this pool can use at once, the caller's included.
    pub fn threads(&self) -> u32 {
        self.helpers.len() as u32 + 1
    }

    /// Times a helper took part so far: whether it did in the last job tells if it is awake.
    pub(crate) fn joined(&self) -> u64 {
        self.shared.joined.load(Ordering::Relaxed)
    }

    /// The helpers that run by now.
    pub(crate) fn helpers(&self) -> impl Iterator<Item = ThreadId> {
        self.shared.ids.iter().filter_map(|id| id.get().copied())
    }

    /// Calls `body` once for each of `0..tasks` on at most `threads` threads and returns when all are done. Threads take
    /// the next index as they get free: `tasks == threads` is a static schedule, more tasks a dynamic one.
    /// If the pool is in use by another caller, everything runs on this thread.
    ///
    /// # Panics
    /// If `body` panics, the panic continues here, after all other tasks.
    pub fn run(&self, threads: u32, tasks: usize, body: Body<'_>) {
        let helpers =
            (threads.saturating_sub(1) as usize).min(self.helpers.len()).min(tasks.saturating_sub(1));
        if helpers == 0 || self.busy.swap(true, Ordering::Acquire) {
            (0..tasks).for_each(body);
            return;
        }
        let shared = &*self.shared;
        // SAFETY: the lifetime is extended only until the end of this function, which closes the job and waits until
        // no helper is active before it returns or unwinds; helpers touch the body only while active.
        let body_static = unsafe { std::mem::transmute::<Body<'_>, Body<'static>>(body) };
        // SAFETY: `busy` is ours, the previous job is closed and nobody is active, so nobody reads `job` now.
        unsafe { *shared.job.get() = Job { body: body_static, tasks, caller: Caller::here() } };
        shared.next.store(0, Ordering::Relaxed);
        shared.wanted.store(helpers as u32, Ordering::Relaxed);
        let generation = (shared.state.load(Ordering::Relaxed) >> 32).wrapping_add(1);
        // Sequentially consistent, as is the helper's announcement of sleep: one of the two sees the other.
        shared.state.store(generation << 32, Ordering::SeqCst);
        for (helper, asleep) in self.helpers.iter().zip(&shared.asleep).take(helpers) {
            if asleep.load(Ordering::SeqCst) {
                helper.unpark();
            }
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.take_tasks(body, tasks)));
        // Let no more helpers in, then wait for those inside.
        shared.state.fetch_or(CLOSED, Ordering::AcqRel);
        let mut polls = 0u32;
        while shared.state.load(Ordering::Acquire) & ACTIVE != 0 {
            polls += 1;
            if polls.is_multiple_of(1024) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
        let theirs = shared.panic.lock().ok().and_then(|mut panic| panic.take());
        self.busy.store(false, Ordering::Release);
        if let Some(panic) = outcome.err().or(theirs) {
            resume_unwind(panic);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for handle in self.handles.drain(..) {
            handle.thread().unpark();
            // A helper never panics outside `catch_unwind`; there is nothing to learn from the result.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn take_tasks(&self, body: Body<'_>, tasks: usize) {
        loop {
            let task = self.next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            body(task);
        }
    }

    fn help(&self, index: u32) {
        let mut seen = 0;
        while let Some(generation) = self.wait_for_job(index, seen) {
            seen = generation;
            if !self.enter(generation) {
                continue;
            }
            if index < self.wanted.load(Ordering::Relaxed) {
                self.joined.fetch_add(1, Ordering::Relaxed);
                // SAFETY: we are active in an open job, so the caller neither rewrites it nor leaves `run`.
                let job = unsafe { &*self.job.get() };
                job.caller.help();
                let outcome = catch_unwind(AssertUnwindSafe(|| self.take_tasks(job.body, job.tasks)));
                Caller::NOBODY.help();
                if let (Err(panic), Ok(mut slot)) = (outcome, self.panic.lock()) {
                    slot.get_or_insert(panic);
                }
            }
            self.state.fetch_sub(1, Ordering::Release);
        }
    }

    /// The generation of a job newer than `seen`, or `None` when the pool is dropped.
    fn wait_for_job(&self, index: u32, seen: u64) -> Option<u64> {
        let mut polls = 0;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            let generation = self.state.load(Ordering::Acquire) >> 32;
            if generation != seen {
                return Some(generation);
            }
            polls += 1;
            if polls < SPINS_BEFORE_SLEEP {
                std::hint::spin_loop();
                continue;
            }
            let asleep = &self.asleep[index as usize];
            asleep.store(true, Ordering::SeqCst);
            // Look once more: a job published before the flag was up wakes nobody.
            if self.state.load(Ordering::SeqCst) >> 32 == seen && !self.stop.load(Ordering::SeqCst) {
                std::thread::park();
            }
            asleep.store(false, Ordering::SeqCst);
            polls = 0;
        }
    }

    /// Becomes active in the job of that generation, unless it is closed or over.
    fn enter(&self, generation: u64) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        while state >> 32 == generation && state & CLOSED == 0 {
            match self.state.compare_exchange_weak(state, state + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_exactly_once_whatever_the_number_of_threads() {
        let pool = Pool::new(4);
        for round in 0..2_000 {
            let tasks = round % 37;
            let counts: Vec<AtomicU32> = (0..tasks).map(|_| AtomicU32::new(0)).collect();
            pool.run(1 + round as u32 % 5, tasks, &|task| {
                counts[task].fetch_add(1, Ordering::Relaxed);
            });
            assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1), "round {round}");
        }
    }

    #[test]
    fn two_callers_at_once_and_a_caller_inside_a_task_both_finish() {
        let pool = Pool::new(2);
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        pool.run(2, 4, &|_| {
                            pool.run(2, 2, &|_| {
                                total.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 3 * 500 * 8);
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_goes_on() {
        let pool = Pool::new(2);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            pool.run(2, 8, &|task| assert!(task != 5, "task five"));
        }));
        assert!(outcome.is_err());
        let count = AtomicUsize::new(0);
        pool.run(2, 8, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.into_inner(), 8);
    }
}
