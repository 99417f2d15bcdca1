//! Watches launches of users' kernels on callers' own threads, which nobody can leave behind: one that takes far too long is named, and
//! its kernel gets no more calls.
//!
//! A launch is entered when it begins and crossed out when it ends. The background thread looks twice a second, so that short ones are
//! never seen.

use super::limit;
use crate::runtime::Shared;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_core::{Condition, Failure, FailureKind, Nanos, Problem};
use trimtab_plan::{Plan, Planner};
use trimtab_tune::{Allowance, Held, Leash, Stopwatch, ThreadClock, ThreadId};
use trimtab_wisdom::{FactKey, Outcome};

/// Threads enter their launches in so many lists, so that they rarely wait for each other.
const LISTS: usize = 16;
/// How often the background looks.
const STEP: Nanos = Nanos::from_millis(500);

thread_local! {
    /// The processor time of this thread; not known before it is needed.
    static CLOCK: RefCell<Option<Arc<Option<ThreadClock>>>> = const { RefCell::new(None) };
}

fn clock() -> Arc<Option<ThreadClock>> {
    CLOCK.with_borrow_mut(|clock| Arc::clone(clock.get_or_insert_with(|| Arc::new(ThreadId::own().clock()))))
}

/// A launch that is under way.
struct Running {
    number: u64,
    plan: Plan,
    problem: Problem,
    clock: Arc<Option<ThreadClock>>,
    leash: Leash,
    /// When it was looked at last, and what is left of its time.
    seen: Option<(Stopwatch, Allowance)>,
    hangs: Option<Held>,
}

impl Running {
    /// Whether it was just found to be late.
    fn is_late(&mut self, planner: &Planner, unknown: Nanos) -> bool {
        let now = || self.clock.as_ref().as_ref().and_then(ThreadClock::read);
        let Some((watch, allowance)) = &mut self.seen else {
            let limit = limit(planner.measured(&self.plan), unknown);
            self.seen = Some((Stopwatch::start(), Allowance::new(limit, now())));
            return false;
        };
        let took = watch.elapsed();
        *watch = Stopwatch::start();
        if self.hangs.is_some() || allowance.left(took, STEP, now).is_some() {
            return false;
        }
        self.hangs = Some(self.leash.hold());
        true
    }
}

/// The launches on callers' threads.
pub(crate) struct Watch {
    lists: [Mutex<Vec<Running>>; LISTS],
    next: AtomicU64,
    /// What a launch has whose time nobody knows.
    unknown: Nanos,
}

/// A launch is under way while this lives.
pub(crate) struct Watched<'a> {
    watch: &'a Watch,
    number: u64,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut list = self.watch.list(self.number);
        if let Some(at) = list.iter().position(|running| running.number == self.number) {
            list.swap_remove(at);
        }
    }
}

impl Watch {
    pub(crate) fn new(unknown: Nanos) -> Watch {
        Watch { lists: Default::default(), next: AtomicU64::new(0), unknown }
    }

    fn list(&self, number: u64) -> MutexGuard<'_, Vec<Running>> {
        self.lists[number as usize % LISTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A launch begins on this thread.
    pub(crate) fn begin(&self, plan: &Plan, problem: &Problem, leash: Leash) -> Watched<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (plan, problem, clock, seen, hangs) = (*plan, *problem, clock(), None, None);
        self.list(number).push(Running { number, plan, problem, clock, leash, seen, hangs });
        Watched { watch: self, number }
    }

    /// Launches that were just found to be late.
    fn late(&self, planner: &Planner) -> Vec<(Plan, Problem)> {
        let mut late = Vec::new();
        for list in &self.lists {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let found = list.iter_mut().filter_map(|running| {
                running.is_late(planner, self.unknown).then_some((running.plan, running.problem))
            });
            late.extend(found);
        }
        late
    }
}

impl Shared {
    /// Looks at launches that are under way. Whoever takes too long gets no more calls, here and in later processes.
    pub(crate) fn look_at_running(&self) {
        for (plan, problem) in self.watch.late(&self.planner) {
            let limit = self.apart.limit(&self.planner, &plan);
            let message = format!("no result within {limit} in a live call, on the caller's own thread");
            let failure = Failure::new(FailureKind::TimedOut, message.clone());
            let _ = self.planner.accuse(&plan, &failure);
            let Some([device, kernel, version, point]) = self.planner.names(&problem, &plan) else {
                continue;
            };
            // Whatever is told on standard error: the program stands still, and nobody else can say why.
            eprintln!(
                "trimtab: {kernel} has not come back from {problem} after {limit}, on a thread of this program that cannot be left \
                 behind; it gets no more calls. Mend it, or build the runtime with `.forbid(\"{kernel}\")` or TRIMTAB_KERNELS=-{kernel}"
            );
            let (problem, condition) = (problem.to_string(), Condition::Quiet);
            let key = FactKey { device, kernel, version, point, problem, condition };
            // One is enough: this process may never do anything else.
            self.planner.wisdom().record(key, Outcome::Failed { kind: FailureKind::TimedOut, message });
            self.planner.wisdom().flush();
        }
    }
}
