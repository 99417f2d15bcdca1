//! Keeps what hangs from being started again.

use crate::clock::Stopwatch;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trimtab_core::{Failure, FailureKind, Nanos};

/// How often somebody who waits for a run to come back looks.
const MOMENT: Duration = Duration::from_millis(1);
/// A run for a caller that takes so many times as long as usual, …
const SLOWER_THAN_USUAL: u64 = 4;
/// … and this, may hang. Nobody else starts it until it comes back or is given up. To wait for one that was just slow costs little.
const SUSPICIOUS: Nanos = Nanos::from_millis(1);

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
    /// Runs for callers that are under way, and from when on each is suspicious.
    under_way: Mutex<Vec<(u64, Stopwatch, Nanos)>>,
    next: AtomicU64,
    proven: AtomicBool,
}

impl Runs {
    fn under_way(&self) -> MutexGuard<'_, Vec<(u64, Stopwatch, Nanos)>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run for a caller is under way while this lives.
struct UnderWay<'a>(&'a Runs, u64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way().retain(|run| run.0 != self.1);
    }
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

    /// Runs it for a caller, perhaps alone. A run that a race gave up may just be slow: it is waited for. So is one for another caller
    /// that takes far longer than usual: if it hangs, only those hang with it that were inside by then.
    pub fn call<R>(
        &self,
        limit: Nanos,
        usual: Nanos,
        alone: bool,
        run: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let _turn = alone.then(|| self.0.turn.lock().unwrap_or_else(PoisonError::into_inner));
        self.wait(limit)?;
        let _under_way = self.begin(usual)?;
        self.counting(true, run)
    }

    /// Begins a run for a caller, once none is suspicious.
    fn begin(&self, usual: Nanos) -> Result<UnderWay<'_>, Failure> {
        let suspicious = Nanos(usual.0.saturating_mul(SLOWER_THAN_USUAL).saturating_add(SUSPICIOUS.0));
        loop {
            // Those given up are counted before they leave the list.
            let mut under_way = self.0.under_way();
            if let Some(why) = self.why() {
                return Err(Failure::new(FailureKind::Untried, why));
            }
            if under_way.iter().all(|(_, since, longest)| since.elapsed() <= *longest) {
                let number = self.0.next.fetch_add(1, Ordering::Relaxed);
                under_way.push((number, Stopwatch::start(), suspicious));
                return Ok(UnderWay(&self.0, number));
            }
            drop(under_way);
            std::thread::sleep(MOMENT);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::Sandbox;
    use std::sync::mpsc::channel;

    const LONG: Nanos = Nanos::from_millis(60_000);
    /// What a run takes usually.
    const USUAL: Nanos = Nanos(1);

    #[test]
    fn a_run_that_takes_far_longer_than_usual_is_not_joined_by_others() {
        let (leash, order) = (Leash::default(), Mutex::new(Vec::new()));
        let ((is_inside, inside), (let_go, wait)) = (channel(), channel::<()>());
        std::thread::scope(|scope| {
            let (leash, order) = (&leash, &order);
            scope.spawn(move || {
                leash.call(LONG, USUAL, false, || {
                    let _ = is_inside.send(Stopwatch::start());
                    let _ = wait.recv();
                    order.lock().unwrap().push("first");
                    Ok(())
                })
            });
            let since = inside.recv().unwrap();
            while since.elapsed() <= Nanos(2 * SUSPICIOUS.0) {
                std::thread::yield_now();
            }
            let (starts, started) = channel();
            let second = scope.spawn(move || {
                let _ = starts.send(Stopwatch::start());
                leash.call(LONG, USUAL, false, || {
                    order.lock().unwrap().push("second");
                    Ok(())
                })
            });
            // Long enough for it to begin, if it were let in.
            let since = started.recv().unwrap();
            while since.elapsed() <= Nanos::from_millis(20) {
                std::thread::yield_now();
            }
            let_go.send(()).unwrap();
            assert_eq!(second.join().unwrap(), Ok(()), "it was just slow");
        });
        assert_eq!(order.into_inner().unwrap(), ["first", "second"]);
    }

    #[test]
    fn those_who_wait_for_a_run_that_hangs_are_sent_away() {
        let (leash, runs) = (Leash::default(), AtomicU32::new(0));
        let ((let_go, wait), (is_inside, inside)) = (channel::<()>(), channel());
        std::thread::scope(|scope| {
            let (leash, runs) = (&leash, &runs);
            let first = scope.spawn(move || {
                let mut sandbox = Sandbox::default();
                leash.call(LONG, USUAL, false, || {
                    sandbox.run(Nanos::from_millis(200), move || {
                        let _ = is_inside.send(Stopwatch::start());
                        wait.recv().is_ok()
                    })
                })
            });
            let since = inside.recv().unwrap();
            while since.elapsed() <= Nanos(2 * SUSPICIOUS.0) {
                std::thread::yield_now();
            }
            let others = [(); 4].map(|()| {
                scope.spawn(move || {
                    leash.call(LONG, USUAL, false, || {
                        runs.fetch_add(1, Ordering::Relaxed);
                        Ok(true)
                    })
                })
            });
            assert_eq!(first.join().unwrap().unwrap_err().kind, FailureKind::TimedOut);
            for other in others {
                assert_eq!(other.join().unwrap().unwrap_err().kind, FailureKind::Untried);
            }
        });
        assert_eq!(runs.into_inner(), 0);
        drop(let_go);
    }
}
