//! Keeps what hangs from being started again.

use crate::clock::Stopwatch;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trimtab_core::{Failure, FailureKind, Nanos};

/// How often somebody who waits for a run to come back looks.
const MOMENT: Duration = Duration::from_millis(1);

thread_local! {
    /// Where threads are counted that this thread's sandboxes leave behind.
    static COUNTED: RefCell<Option<Arc<AtomicU32>>> = const { RefCell::new(None) };
}

/// Where the threads are counted that this thread leaves behind now.
pub(crate) fn counted() -> Option<Arc<AtomicU32>> {
    COUNTED.with_borrow(Clone::clone)
}

/// Holds back one kernel: while a run of it hangs on a thread that was left behind, it is not started again. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Leash(Arc<Runs>);

#[derive(Debug, Default)]
struct Runs {
    hanging: Arc<AtomicU32>,
    turn: Mutex<()>,
    /// When a run was last given up, and whether a call did, which waits for longer than a race.
    given_up: Mutex<Option<(Stopwatch, bool)>>,
    proven: AtomicBool,
}

impl Leash {
    /// Why it is not started now.
    pub fn why(&self) -> Option<String> {
        let hangs = self.0.hanging.load(Ordering::Relaxed) > 0;
        hangs.then(|| "a run of it was given up and still hangs in this process".to_string())
    }

    /// Whether it ever came back.
    pub fn is_proven(&self) -> bool {
        self.0.proven.load(Ordering::Relaxed)
    }

    /// Checks or measures it, unless it hangs. Threads that sandboxes of this thread leave behind meanwhile are its own.
    pub fn run<R>(&self, run: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        match self.why() {
            Some(why) => Err(Failure::new(FailureKind::Untried, why)),
            None => self.counting(false, run),
        }
    }

    /// The same, one run at a time: nobody starts what hangs in somebody else's hands at that moment.
    pub fn run_alone<R>(&self, run: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        let _turn = self.0.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(run)
    }

    /// Runs it for a caller, perhaps alone. A run that a race gave up may just be slow: it is waited for.
    pub fn call<R>(
        &self,
        limit: Nanos,
        alone: bool,
        run: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let _turn = alone.then(|| self.0.turn.lock().unwrap_or_else(PoisonError::into_inner));
        self.wait(limit)?;
        self.counting(true, run)
    }

    /// Waits until it does not hang, for that long since it was given up. One that a call gave up is not waited for.
    pub fn wait(&self, limit: Nanos) -> Result<(), Failure> {
        while let Some(why) = self.why() {
            let since = *self.0.given_up.lock().unwrap_or_else(PoisonError::into_inner);
            if since.is_none_or(|(since, by_call)| by_call || since.elapsed() > limit) {
                return Err(Failure::new(FailureKind::Untried, why));
            }
            std::thread::sleep(MOMENT);
        }
        Ok(())
    }

    /// It hangs on a thread that cannot be left behind, for as long as what this returns lives.
    pub fn hold(&self) -> Held {
        self.give_up(true);
        self.0.hanging.fetch_add(1, Ordering::Relaxed);
        Held(Arc::clone(&self.0.hanging))
    }

    fn give_up(&self, by_call: bool) {
        *self.0.given_up.lock().unwrap_or_else(PoisonError::into_inner) = Some((Stopwatch::start(), by_call));
    }

    fn counting<R>(&self, by_call: bool, run: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        struct Restore(Option<Arc<AtomicU32>>);
        impl Drop for Restore {
            fn drop(&mut self) {
                COUNTED.set(self.0.take());
            }
        }
        let _restore = Restore(COUNTED.replace(Some(Arc::clone(&self.0.hanging))));
        let outcome = run();
        match &outcome {
            Ok(_) => self.0.proven.store(true, Ordering::Relaxed),
            Err(failure) if failure.kind == FailureKind::TimedOut => self.give_up(by_call),
            Err(_) => (),
        }
        outcome
    }
}

/// A run that hangs.
#[derive(Debug)]
pub struct Held(Arc<AtomicU32>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
