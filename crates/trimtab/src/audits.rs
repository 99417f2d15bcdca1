//! Audits: some of what kernels answered is computed again, from the caller's own operands.
//!
//! The first answer of every plan, and the first 32 of a user's kernel, are looked at before the caller gets them; a wrong one is
//! never delivered where the part that is looked at shows it. Of later calls that are timed a few are put aside, a small part of each, and looked at in the background: who is found
//! out there answers no more. Short calls of a user's kernel are too small for that: a few are looked at whole, at once.

use crate::journal::Journal;
use crate::runtime::{HOST, Runtime, Shared};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use trimtab_core::{Bytes, Device, LaunchError, Nanos, Problem, VariantClass};
use trimtab_operands::{Audit, Share, Slice};
use trimtab_plan::{Decision, MAX_NUMBER, Plan, Witness};
use trimtab_tune::Stopwatch;

/// What is taken of a plan's first call, and of a later one: a caller waits for what is taken, and the first time for the rest too. Of
/// small problems the first time all is.
const FIRST: Share = Share { taken: 1 << 22, computed: 1 << 18 };
const LATER: Share = Share { taken: 1 << 15, computed: 1 << 15 };
/// First calls of a plan of a user's kernel that are looked at: nobody else has tried it.
const USERS_CALLS: u8 = 32;
/// Calls of a plan that could not be looked at, because their numbers are such that right kernels need not agree, before that is given up;
/// one of a large problem counts as several, because the caller waits for what is taken.
const MISSES: u8 = 8;
const MISSES_OF_LARGE: u8 = 4;
const LARGE: Bytes = Bytes(1 << 20);
/// One timed call in so many may be put aside, …
const EVERY: u32 = 8;
/// … if the last one is this long ago: taking a part takes some ten microseconds.
const APART: Nanos = Nanos::from_millis(20);
/// Shorter calls, and smaller problems of the processor, are looked at in their first call only, unless the kernel is a user's: taking a
/// part would allocate, and take longer than they do. Whatever is put in force in the background is checked at their very size before.
const SHORT: Nanos = Nanos(20_000);
const SMALL: Bytes = Bytes(64 << 10);
/// Of a user's kernel such calls are looked at whole if they are timed, and if so many times as long has passed as the last look took.
const REST: u64 = 100;
/// What a look is taken to cost at most: one that was interrupted does not keep others from being looked at.
const LONGEST_LOOK: Nanos = Nanos::from_millis(1);
/// Audits that wait to be looked at; more are not taken.
const MAX_WAITING: usize = 32;

/// What was looked at, and what waits for it.
pub(crate) struct Audits {
    /// For each plan by number how many of its first calls were looked at.
    seen: Box<[AtomicU8]>,
    /// The same for those that could not be.
    missed: Box<[AtomicU8]>,
    timed: AtomicU32,
    born: Stopwatch,
    last: AtomicU64,
    /// When the next short call of a user's kernel is due.
    short_due: AtomicU64,
    waiting: Mutex<VecDeque<(Plan, Audit, Option<f64>)>>,
    made: AtomicU64,
    wrong: AtomicU64,
}

impl Default for Audits {
    fn default() -> Audits {
        let (timed, last, short_due, waiting, made, wrong) = Default::default();
        let none = || (0..=MAX_NUMBER).map(|_| AtomicU8::new(0)).collect();
        let (seen, missed) = (none(), none());
        Audits { seen, missed, timed, born: Stopwatch::start(), last, short_due, waiting, made, wrong }
    }
}

impl Audits {
    /// Whether a plan has not answered often enough yet to be trusted.
    fn is_new(&self, plan: &Plan) -> bool {
        let enough = if plan.is_users() { USERS_CALLS } else { 1 };
        let seen = self.seen.get(plan.number() as usize).filter(|_| plan.number() > 0);
        let missed = || self.missed[plan.number() as usize].load(Ordering::Relaxed) < MISSES;
        seen.is_some_and(|seen| seen.load(Ordering::Relaxed) < enough) && missed()
    }

    /// A call could not be looked at: the next may be.
    fn miss(&self, plan: &Plan, problem: &Problem) {
        let is_large = problem.operand_bytes() >= LARGE;
        if let Some(missed) = self.missed.get(plan.number() as usize).filter(|_| self.is_new(plan)) {
            missed.fetch_add(if is_large { MISSES_OF_LARGE } else { 1 }, Ordering::Relaxed);
        }
    }

    /// Whether no call was looked at yet.
    fn is_unseen(&self, plan: &Plan) -> bool {
        let seen = self.seen.get(plan.number() as usize);
        seen.is_none_or(|seen| seen.load(Ordering::Relaxed) == 0)
    }

    /// Counts a call that is looked at.
    pub(crate) fn saw(&self, plan: &Plan) {
        let seen = self.seen.get(plan.number() as usize);
        if let Some(seen) = seen {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether this timed call is to be put aside.
    fn is_due(&self) -> bool {
        if !self.timed.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            return false;
        }
        let (now, last) = (self.born.elapsed(), self.last.load(Ordering::Relaxed));
        now.saturating_sub(Nanos(last)) >= APART
            && self.last.compare_exchange(last, now.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Looks at a short call, if it is time for one.
    fn look_if_due(&self, look: impl FnOnce() -> Result<(), LaunchError>) -> Result<(), LaunchError> {
        let (now, due) = (self.born.elapsed(), self.short_due.load(Ordering::Relaxed));
        let take = || self.short_due.compare_exchange(due, u64::MAX, Ordering::Relaxed, Ordering::Relaxed);
        if now.0 < due || take().is_err() {
            return Ok(());
        }
        let outcome = look();
        let then = self.born.elapsed();
        let cost = then.saturating_sub(now).min(LONGEST_LOOK);
        self.short_due.store(then.0 + REST * cost.0, Ordering::Relaxed);
        outcome
    }

    /// Audits made so far, and those of them that showed a wrong result.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.made.load(Ordering::Relaxed), self.wrong.load(Ordering::Relaxed))
    }
}

impl Runtime {
    /// Whether a plan's answer is to be looked at before it is delivered.
    pub(crate) fn is_new(&self, plan: &Plan) -> bool {
        self.shared.audits.is_new(plan)
    }

    /// Looks at the first answer of a plan.
    #[cold]
    pub(crate) fn first_look(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &Slice<'_>,
    ) -> Result<(), LaunchError> {
        let audits = &self.shared.audits;
        let share = if audits.is_unseen(plan) { FIRST } else { LATER };
        let Some(audit) = self.audit(plan, problem, inputs, out, share) else {
            audits.miss(plan, problem);
            return Ok(());
        };
        audits.saw(plan);
        self.judge(plan, problem, &audit)
    }

    fn judge(&self, plan: &Plan, problem: &Problem, audit: &Audit) -> Result<(), LaunchError> {
        let audits = &self.shared.audits;
        audits.made.fetch_add(1, Ordering::Relaxed);
        audit.check(&*self.shared.cpu, self.allowed(plan, problem)).map_err(|failure| {
            audits.wrong.fetch_add(1, Ordering::Relaxed);
            LaunchError::Failed(failure)
        })
    }

    /// Looks at an answer: at once if it is the plan's first, else perhaps later, if its call was timed.
    pub(crate) fn look(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &Slice<'_>,
        time: Option<Nanos>,
    ) -> Result<(), LaunchError> {
        let audits = &self.shared.audits;
        let is_small = plan.device as usize == HOST && !plan.is_users() && problem.operand_bytes() < SMALL;
        if is_small {
            return Ok(());
        }
        if audits.is_new(plan) {
            return self.first_look(plan, problem, inputs, out);
        }
        let Some(time) = time else { return Ok(()) };
        if plan.is_users() && (time < SHORT || problem.operand_bytes() < SMALL) {
            return audits.look_if_due(|| {
                let audit = self.audit(plan, problem, inputs, out, FIRST);
                audit.map_or(Ok(()), |audit| self.judge(plan, problem, &audit))
            });
        }
        if time >= SHORT
            && audits.is_due()
            && let Some(audit) = self.audit(plan, problem, inputs, out, LATER)
            && let Ok(mut waiting) = audits.waiting.lock()
            && waiting.len() < MAX_WAITING
        {
            waiting.push_back((*plan, audit, self.allowed(plan, problem)));
        }
        Ok(())
    }

    fn audit(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &Slice<'_>,
        most: Share,
    ) -> Option<Audit> {
        let executor = self.shared.executors.get(plan.device as usize)?;
        let info = executor.kernels().get(plan.kernel.0 as usize)?;
        // The processor's reference is the yardstick itself.
        let is_judged = plan.device as usize != HOST || info.class != VariantClass::Reference;
        is_judged.then(|| Audit::of(problem, inputs, out, most)).flatten()
    }

    /// The tolerance of a plan's device, or of a kernel that states one; nothing for the processor's others, which have the strictest.
    fn allowed(&self, plan: &Plan, problem: &Problem) -> Option<f64> {
        let is_rough = || self.shared.cpu.work(plan.kernel, problem, &plan.point).error > 0.0;
        (plan.device as usize != HOST || is_rough()).then(|| self.tolerance(plan, problem))
    }
}

impl Shared {
    /// Looks at what was put aside.
    fn look_at_waiting(&self) {
        let next = || self.audits.waiting.lock().ok()?.pop_front();
        while let Some((plan, audit, allowed)) = next() {
            self.audits.made.fetch_add(1, Ordering::Relaxed);
            let Err(failure) = audit.check(&*self.cpu, allowed) else { continue };
            self.audits.wrong.fetch_add(1, Ordering::Relaxed);
            let Some(decision) = self.planner.accuse(&plan, &failure) else { continue };
            if self.log {
                eprintln!("trimtab: {}: a kernel is out: {failure}", decision.problem);
            }
        }
    }
}

/// Hears of what happens in the background.
pub(crate) struct Background {
    pub journal: Arc<Journal>,
    pub shared: OnceLock<Weak<Shared>>,
}

impl Witness for Background {
    fn changed(&self, plan: &Plan, decision: &Decision) {
        self.journal.changed(plan, decision);
    }

    fn ran(&self, plan: u32, calls: u64, total: Nanos) {
        self.journal.ran(plan, calls, total);
    }

    fn idle(&self) {
        if let Some(shared) = self.shared.get().and_then(Weak::upgrade) {
            shared.look_at_running();
            shared.look_at_waiting();
        }
    }
}
