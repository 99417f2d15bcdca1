//! Threads that share the work of one launch. The caller takes part, late helpers are not waited for, and nothing
//! is allocated per launch.
//!
//! Rayon was left out on purpose: a call from outside its pool hands the whole job over and sleeps, which costs two
//! thread switches; here the caller computes from the first nanosecond.

mod board;

use crate::process::Process;
use crate::running::Caller;
use board::Board;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use trimtab_tune::ThreadId;

/// Most threads a pool has.
pub const MAX_THREADS: u32 = 256;

type Body<'a> = &'a (dyn Fn(usize) + Sync);

#[derive(Clone, Copy)]
struct Job {
    /// Valid while the job is up, which it is only inside `run`.
    body: Body<'static>,
    tasks: usize,
    caller: Caller,
}

struct Shared {
    board: Board<Job>,
    /// Times a helper took part in a job.
    joined: AtomicU64,
    /// Callers at this moment who could use helpers.
    callers: AtomicUsize,
    /// The helpers' names for the system, once they run.
    ids: Vec<OnceLock<ThreadId>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A pool of threads, the caller's included.
pub struct Pool {
    shared: Arc<Shared>,
    helpers: Vec<Thread>,
    handles: Vec<JoinHandle<()>>,
    /// Where the helpers are: a forked child has none.
    process: Process,
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
        let nothing = Job { body: &|_| (), tasks: 0, caller: Caller::NOBODY };
        let shared = Arc::new(Shared {
            board: Board::new(nothing, wanted as usize),
            joined: AtomicU64::new(0),
            callers: AtomicUsize::new(0),
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
                shared.board.help(index as usize, |job| shared.help(job));
            }) {
                Ok(handle) => handles.push(handle),
                Err(_) => break,
            }
        }
        let helpers = handles.iter().map(|handle| handle.thread().clone()).collect();
        Pool { shared, helpers, handles, process: Process::this() }
    }

    /// Threads this pool can use at once, the caller's included: that one alone in a forked child.
    pub fn threads(&self) -> u32 {
        if self.is_here() { self.helpers.len() as u32 + 1 } else { 1 }
    }

    /// Whether its threads are in this process.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.process.is_this()
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
    /// If the pool is in use by another caller, everything runs on this thread; every other caller leaves this one a helper less. A
    /// helper for whom there is no core is taken off in the midst of a task, and its caller waits.
    ///
    /// # Panics
    /// If `body` panics, the panic continues here, once nobody is inside `body` any more. Tasks may be left undone then.
    pub fn run(&self, threads: u32, tasks: usize, body: Body<'_>) {
        let helpers =
            (threads.saturating_sub(1) as usize).min(self.helpers.len()).min(tasks.saturating_sub(1));
        let alone = || (0..tasks).for_each(body);
        if helpers == 0 || !self.is_here() {
            return alone();
        }
        let shared = &*self.shared;
        let caller = Present::enter(&shared.callers);
        let helpers = helpers.min(self.helpers.len().saturating_sub(caller.others));
        if helpers == 0 {
            return alone();
        }
        // SAFETY: helpers have the job until `open` is closed or dropped, which happens before this function returns or
        // unwinds; the lifetime is extended only until then.
        let body_static = unsafe { std::mem::transmute::<Body<'_>, Body<'static>>(body) };
        let job = Job { body: body_static, tasks, caller: Caller::here() };
        let Some(mut open) = shared.board.open(job, helpers, |helper| self.helpers[helper].unpark()) else {
            return alone();
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| shared.take_tasks(body, tasks)));
        open.close();
        let theirs = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The next caller's helpers may panic from here on.
        drop(open);
        match (outcome, theirs) {
            (Err(own), theirs) => {
                // Not dropped: that may panic in its turn, and two at a time end the process.
                std::mem::forget(theirs);
                resume_unwind(own);
            }
            (Ok(()), Some(theirs)) => resume_unwind(theirs),
            (Ok(()), None) => (),
        }
    }
}

/// A caller, while it is there.
struct Present<'a> {
    callers: &'a AtomicUsize,
    others: usize,
}

impl Present<'_> {
    fn enter(callers: &AtomicUsize) -> Present<'_> {
        Present { callers, others: callers.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.callers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.is_here() {
            // Nobody is there to be waited for: the standard library panics when it finds out.
            return self.handles.drain(..).for_each(std::mem::forget);
        }
        self.shared.board.take_down();
        for handle in self.handles.drain(..) {
            handle.thread().unpark();
            // A helper never panics outside `catch_unwind`; there is nothing to learn from the result.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn take_tasks(&self, body: Body<'_>, tasks: usize) {
        while let Some(task) = self.board.next_task(tasks) {
            body(task);
        }
    }

    /// What a helper does at a job.
    fn help(&self, job: &Job) {
        self.joined.fetch_add(1, Ordering::Relaxed);
        job.caller.help();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.take_tasks(job.body, job.tasks)));
        Caller::NOBODY.help();
        if let Err(panic) = outcome {
            // One is enough for the caller. Another is not dropped: that may panic in its turn, and end this thread.
            std::mem::forget(self.panic.lock().unwrap_or_else(PoisonError::into_inner).replace(panic));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

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

    /// Eight threads of a Python program at 256 x 256 were a third as fast as one: helpers were taken off their cores inside tasks.
    #[test]
    fn whoever_calls_beside_another_does_without_the_helper_whose_core_that_one_uses() {
        let pool = Pool::new(2);
        let meet = std::sync::Barrier::new(2);
        let (once, started, elsewhere) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let is_first = |counter: &AtomicU32| counter.fetch_add(1, Ordering::Relaxed) == 0;
        let other = |_: usize| {
            if is_first(&once) {
                meet.wait();
                meet.wait();
            }
        };
        std::thread::scope(|scope| {
            // The pool is in use by this caller, so the other one runs alone, and is still there when this one has left.
            pool.run(2, 2, &|_| {
                if is_first(&started) {
                    scope.spawn(|| pool.run(2, 2, &other));
                    meet.wait();
                }
            });
            let own = std::thread::current().id();
            pool.run(2, 64, &|_| {
                elsewhere.fetch_add(u32::from(std::thread::current().id() != own), Ordering::Relaxed);
                std::thread::sleep(std::time::Duration::from_micros(50));
            });
            meet.wait();
        });
        assert_eq!(elsewhere.into_inner(), 0);
        assert_eq!(pool.shared.callers.load(Ordering::Relaxed), 0);
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
    #[test]
    fn panics_that_panic_again_when_they_are_dropped_cost_the_pool_nothing() {
        struct Again;
        impl Drop for Again {
            fn drop(&mut self) {
                resume_unwind(Box::new("once more"));
            }
        }
        let pool = Pool::new(3);
        for _ in 0..200 {
            let outcome =
                catch_unwind(AssertUnwindSafe(|| pool.run(3, 8, &|_| resume_unwind(Box::new(Again)))));
            std::mem::forget(outcome.expect_err("every task panics"));
        }
        // Both helpers are still there: they come to some job or other.
        let came = Mutex::new(std::collections::BTreeSet::new());
        while came.lock().unwrap().len() < 3 {
            pool.run(3, 64, &|_| {
                came.lock().unwrap().insert(format!("{:?}", std::thread::current().id()));
                std::thread::yield_now();
            });
        }
    }
}
