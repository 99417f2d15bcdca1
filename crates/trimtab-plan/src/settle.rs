//! Settling: plans nobody is sure of are checked at their real size and raced again in the background.
//!
//! One thread, at idle priority where the system has that, works through what decisions left open: a bounded share of the time, a
//! larger one while the process makes no calls, and nothing while somebody decides or others use the machine. It makes way within
//! one run when a call has to decide.

use crate::decide::{Ask, fact_key};
use crate::event::Event;
use crate::plan::{Plan, Rival};
use crate::planner::Inner;
use crate::record::Decision;
use crate::table::TermsId;
use crate::trust::Trust;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;
use trimtab_core::{Condition, FailureKind, Nanos, Patience, Problem};
use trimtab_tune::{Progress, Rules, Stopwatch, run_when_idle};
use trimtab_wisdom::{Outcome, Stats};

/// Plans waiting to be settled; more keep what they have until they are asked for again.
const MAX_WAITING: usize = 256;
/// Times a plan is raced again: where the machine never is quiet, or a space never is searched, it stays as it is.
const MAX_RACES: u32 = 6;
/// What the first of them may take, and on a GPU, where times vary more; each later one twice as much …
const FIRST_RACE: Nanos = Nanos::from_millis(400);
const FIRST_NOISY_RACE: Nanos = Nanos::from_millis(1_000);
/// … or so many runs of the plan in force, …
const RUNS: u64 = 48;
/// … but never more than this.
const LONGEST_RACE: Nanos = Nanos::from_millis(6_000);
/// A plan whose runs take longer is checked, not raced.
const LONGEST_RUN: Nanos = Nanos::from_millis(600);
/// Operands of its own may use one part in so many of the free memory.
const MEMORY_SHARE: u64 = 8;
/// Nothing begins before the last decision is this long ago: the next may follow.
const QUIET: Duration = Duration::from_millis(250);
/// How long a decision that is being made is waited for.
const STEP: Duration = Duration::from_millis(20);
/// How long nothing is tried while others use the machine.
const WHILE_BUSY: Duration = Duration::from_millis(200);
/// A rest after work, in shares of what it took: a twentieth of the time is used while the process makes calls, nine tenths while it makes none.
const REST: f64 = 19.0;
const IDLE_REST: f64 = 0.1;
/// Calls that were reported within this time are calls being made.
const CALLS: Nanos = Nanos::from_millis(1_500);

/// A plan that waits.
#[derive(Clone, Copy)]
struct Waiting {
    problem: Problem,
    terms: TermsId,
    races: u32,
    /// A race found another plan to be faster: another race, on other operands, has to agree.
    doubted: bool,
}

/// What is left open, and who works on it.
pub(crate) struct Settling {
    waiting: Mutex<VecDeque<Waiting>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Decisions being made now, for which the background makes way.
    pub first: Arc<AtomicU32>,
    born: Stopwatch,
    /// When somebody decided last, and when a call was reported, in nanoseconds since birth.
    decided: AtomicU64,
    called: AtomicU64,
    settled: AtomicU64,
}

impl Default for Settling {
    fn default() -> Settling {
        let (waiting, thread, first, decided, called, settled) = Default::default();
        Settling { waiting, thread, first, born: Stopwatch::start(), decided, called, settled }
    }
}

/// A decision being made: the background waits for it.
pub(crate) struct First<'a>(&'a Settling);

impl Drop for First<'_> {
    fn drop(&mut self) {
        self.0.decided.store(self.0.born.elapsed().0, Ordering::Relaxed);
        self.0.first.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Settling {
    /// Somebody decides now.
    pub(crate) fn go_first(&self) -> First<'_> {
        self.first.fetch_add(1, Ordering::Relaxed);
        First(self)
    }

    /// Calls were made.
    pub(crate) fn called(&self) {
        self.called.store(self.born.elapsed().0.max(1), Ordering::Relaxed);
    }

    /// Plans that were settled in the background so far.
    pub(crate) fn settled(&self) -> u64 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Plans that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.lock().map_or(0, |waiting| waiting.len())
    }

    pub(crate) fn clear(&self) {
        if let Ok(mut waiting) = self.waiting.lock() {
            waiting.clear();
        }
    }

    fn since(&self, then: &AtomicU64) -> Nanos {
        self.born.elapsed().saturating_sub(Nanos(then.load(Ordering::Relaxed)))
    }

    fn makes_calls(&self) -> bool {
        self.called.load(Ordering::Relaxed) > 0 && self.since(&self.called) < CALLS
    }

    fn wait(&self, one: Waiting) {
        if let Ok(mut waiting) = self.waiting.lock() {
            let same = |other: &Waiting| (other.problem, other.terms) == (one.problem, one.terms);
            if waiting.len() < MAX_WAITING && !waiting.iter().any(same) {
                waiting.push_back(one);
            }
        }
    }

    /// The first that waits and is such.
    fn next(&self, is_such: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let first = |waiting: &VecDeque<Waiting>| waiting.iter().position(&is_such);
        let all: VecDeque<Waiting> = self.waiting.lock().ok()?.clone();
        let one = *all.get(first(&all)?)?;
        let mut waiting = self.waiting.lock().ok()?;
        let at = waiting.iter().position(|other| (other.problem, other.terms) == (one.problem, one.terms))?;
        waiting.remove(at)
    }

    /// Whoever was raced least often, and of those the one that is ahead by least.
    fn next_by_lead(&self, lead: impl Fn(&Waiting) -> f64) -> Option<Waiting> {
        let all: VecDeque<Waiting> = self.waiting.lock().ok()?.clone();
        let by = |one: &Waiting| (one.races, lead(one));
        let order = |a: &(u32, f64), b: &(u32, f64)| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
        let (first, _) = (all.iter().map(|one| (one, by(one)))).min_by(|a, b| order(&a.1, &b.1))?;
        self.next(|one| (one.problem, one.terms) == (first.problem, first.terms))
    }

    /// Makes way for good, and gives the thread to be waited for.
    pub(crate) fn end(&self) -> Option<JoinHandle<()>> {
        self.first.fetch_add(1, Ordering::Relaxed);
        let handle = self.thread.lock().ok()?.take()?;
        handle.thread().unpark();
        Some(handle)
    }
}

/// What came of a plan that waited.
enum Came {
    /// Nothing more is to be done.
    Settled,
    /// Nothing more can be done.
    Left,
    /// It is to be looked at again.
    Again { raced: bool },
    /// One race speaks against it.
    Doubted,
}

impl Inner {
    /// Has a plan settled later that nobody is sure of.
    pub(crate) fn settle_later(self: &Arc<Inner>, problem: &Problem, terms: TermsId, decision: &Decision) {
        let may = self.settings.settle && self.settings.patience > Patience::Off;
        if !may || !self.is_open_to_settling(decision) {
            return;
        }
        self.settling.wait(Waiting { problem: *problem, terms, races: 0, doubted: false });
        let Ok(mut thread) = self.settling.thread.lock() else { return };
        match &*thread {
            Some(handle) => handle.thread().unpark(),
            None => {
                let weak = Arc::downgrade(self);
                let run = move || work(&weak);
                *thread = std::thread::Builder::new().name("trimtab-settle".to_string()).spawn(run).ok();
            }
        }
    }

    fn is_open_to_settling(&self, decision: &Decision) -> bool {
        let races = self.settings.patience >= Patience::Measure;
        let enough = if races { Trust::Settled } else { Trust::Checked };
        let devices = self.decider.devices.within(&decision.scope);
        // Operands of a custom problem are its owner's, times of a recording are those it has.
        (decision.trust() < enough || decision.awaited().is_some())
            && !matches!(decision.problem, Problem::Custom(_))
            && !devices.iter().any(|(_, device)| device.facts().habits.recorded)
    }

    /// Whether a plan that waits answers without its result having been checked at its size.
    fn is_unchecked(&self, one: &Waiting) -> bool {
        let kept = self.kept(&one.problem, one.terms);
        kept.is_some_and(|record| record.trust() == Trust::Provisional)
    }

    /// How far a plan that waits is ahead of other kernels and other numbers of threads.
    fn lead(&self, one: &Waiting) -> f64 {
        self.kept(&one.problem, one.terms).map_or(f64::INFINITY, |record| record.lead())
    }

    /// Whether others use the machine.
    fn is_busy_around(&self) -> bool {
        let host = self.decider.devices.own().iter().find(|device| device.facts().habits.host_memory);
        host.is_some_and(|host| self.decider.condition(host.as_ref()) == Condition::Busy)
    }

    fn settle(self: &Arc<Inner>, one: &Waiting) -> Came {
        let Waiting { problem, terms, races, .. } = one;
        let Some(plan) = self.table.get(problem, *terms).map(|(_, plan)| *plan) else { return Came::Left };
        let Ok(record) = self.record(problem, *terms) else { return Came::Left };
        if record.trust() == Trust::Provisional && !self.fits(problem) {
            return Came::Left;
        }
        if record.trust() > Trust::Provisional
            && let Some(awaited) = record.awaited()
        {
            return if self.fits(problem) { self.build(one, &plan, awaited) } else { Came::Left };
        }
        if record.trust() == Trust::Provisional {
            return match self.check(&record, *terms, &plan) {
                Some(checked) if self.is_open_to_settling(&checked) => Came::Again { raced: false },
                Some(_) => Came::Settled,
                None => Came::Left,
            };
        }
        if !self.is_open_to_settling(&record) {
            return Came::Settled;
        }
        if *races >= MAX_RACES || plan.expected > LONGEST_RUN || !self.fits(problem) {
            return Came::Left;
        }
        self.race_again(one, &plan, record.complete)
    }

    /// Whether operands of its own leave others enough memory.
    fn fits(&self, problem: &Problem) -> bool {
        let free = self.decider.devices.own().iter().find_map(|device| device.state().memory_free);
        free.is_none_or(|free| problem.operand_bytes().0.saturating_mul(MEMORY_SHARE) <= free.0)
    }

    /// Compares the result of a plan in force with the reference's at its real size; the record if it agrees. One that does not is
    /// out, and the next best is in force.
    fn check(self: &Arc<Inner>, record: &Arc<Decision>, terms: TermsId, plan: &Plan) -> Option<Decision> {
        let problem = &record.problem;
        let rival = record.winner().filter(|rival| plan.runs(rival))?;
        let watch = Stopwatch::start();
        match self.decider.run_once(problem, rival) {
            Ok(_) => (),
            Err(failure) if failure.kind == FailureKind::Untried => {
                // Not its fault, but whoever asks is told: a device may be gone.
                let why = format!("{} on {}: {}", rival.label(), rival.device_id, failure.message);
                self.keep(problem, terms, plan, Arc::new(record.with(Event::Untried { why })));
                return None;
            }
            Err(failure) => {
                let _guard = self.deciding.lock();
                self.put_out(problem, terms, plan, &failure).ok();
                return None;
            }
        }
        let took = watch.elapsed();
        let device = self.decider.devices.get(rival.device)?;
        let key = fact_key(device.as_ref(), problem, rival, Condition::Checked);
        self.decider.wisdom.record(key, Outcome::Timed(Stats::single(took.0 as f64)));
        let checked = record.with(Event::Checked { took_ns: took.0 });
        self.keep(problem, terms, plan, Arc::new(checked.clone()));
        Some(checked)
    }

    /// Whether a plan answers until a faster one is built.
    fn awaits_build(&self, one: &Waiting) -> bool {
        self.kept(&one.problem, one.terms).is_some_and(|record| record.awaited().is_some())
    }

    /// Builds the faster one, which is checked on the way, and decides again.
    fn build(&self, one: &Waiting, plan: &Plan, awaited: &Rival) -> Came {
        let Waiting { problem, terms, .. } = one;
        match self.decider.run_once(problem, awaited) {
            Ok(_) => (),
            Err(failure) => {
                if failure.kind != FailureKind::Untried {
                    self.decider.record_failure(problem, awaited, &failure);
                }
                return Came::Left;
            }
        }
        let mut quiet = |_: &Progress| ();
        let ask = self.ask(problem, *terms, self.settings.patience, &mut quiet);
        let ask = Ask { behind: Some(Arc::clone(&self.settling.first)), in_force: None, ..ask };
        let Ok(decision) = self.decider.decide(ask) else { return Came::Left };
        self.take_up(one, plan, decision, false)
    }

    /// Races again. What a whole race found is replaced by what two find: where the operands lie decides a close call as often as not.
    fn race_again(&self, one: &Waiting, plan: &Plan, was_complete: bool) -> Came {
        let Waiting { problem, terms, races, doubted } = one;
        let mut quiet = |_: &Progress| ();
        let device = self.decider.devices.get(plan.device);
        let noisy = device.is_some_and(|device| device.facts().habits.noisy);
        let first = if noisy { FIRST_NOISY_RACE } else { FIRST_RACE };
        let longest = Nanos(plan.expected.0.saturating_mul(RUNS)).max(first);
        let budget = Nanos(longest.0 << races.min(&4)).min(LONGEST_RACE);
        let ask = self.ask(problem, *terms, self.settings.patience, &mut quiet);
        let behind = Some(Arc::clone(&self.settling.first));
        let rules = Rules { timeout: self.settings.rules.timeout.min(LONGEST_RUN), ..Rules::careful() };
        let rules = Rules { precision: self.settings.rules.precision, ..rules };
        let ask = Ask { budget, session: budget, accept_partial: false, behind, rules, ..ask };
        let Ok(decision) = self.decider.decide(ask) else { return Came::Left };
        if self.settling.first.load(Ordering::Relaxed) > 0 {
            return Came::Again { raced: false };
        }
        let is_other = decision.plan().is_some_and(|next| !next.is_same(plan));
        if is_other && was_complete && !doubted {
            return Came::Doubted;
        }
        self.take_up(one, plan, decision, true)
    }

    /// Puts what was decided in force, if the plan it was made for still is.
    fn take_up(&self, one: &Waiting, plan: &Plan, decision: Decision, raced: bool) -> Came {
        let Waiting { problem, terms, .. } = one;
        let came = match self.is_open_to_settling(&decision) {
            true => Came::Again { raced },
            false => Came::Settled,
        };
        let decision = Arc::new(decision);
        let Some(next) = decision.plan() else { return came };
        let _guard = self.deciding.lock();
        let same = next.is_same(plan);
        let Some(next) = self.table.replace(problem, *terms, plan.id, next) else { return Came::Left };
        self.keep(problem, *terms, &next, Arc::clone(&decision));
        if !same {
            self.changed(&next, &decision);
            self.live_counts.count(|counts| counts.changed += 1);
        }
        came
    }
}

/// What the thread does, until its planner is gone.
fn work(weak: &Weak<Inner>) {
    run_when_idle();
    let mut pause = STEP;
    loop {
        let rest = Stopwatch::start();
        // New work ends the wait for work, not a rest that work has earned.
        loop {
            std::thread::park_timeout(pause.saturating_sub(rest.elapsed().duration()));
            let Some(inner) = weak.upgrade() else { return };
            if inner.stop.load(Ordering::Acquire) {
                return;
            }
            if pause == Duration::MAX || rest.elapsed().duration() >= pause {
                break;
            }
        }
        let Some(inner) = weak.upgrade() else { return };
        pause = step(&inner);
    }
}

/// One piece of work, and how long nothing is to be done then.
fn step(inner: &Arc<Inner>) -> Duration {
    let settling = &inner.settling;
    if settling.first.load(Ordering::Relaxed) > 0 {
        return STEP;
    }
    // What answers unchecked comes first, whatever else goes on; races wait until the machine is quiet.
    let unchecked = settling.next(|one| inner.is_unchecked(one));
    let one = match unchecked {
        Some(one) => one,
        None if settling.waiting() == 0 => return Duration::MAX,
        None if settling.since(&settling.decided).duration() < QUIET => return QUIET,
        // Building is not measuring: a machine that is always busy must not keep a service from what is faster.
        None => match settling.next(|one| inner.awaits_build(one)) {
            Some(one) => one,
            None if inner.is_busy_around() => return WHILE_BUSY,
            // What a race speaks against comes first: it is probably wrong. Then where another kernel or number of threads came close: quiet time may be short.
            // Whoever leaves something to be done wakes this thread.
            None => match settling
                .next(|one| one.doubted)
                .or_else(|| settling.next_by_lead(|one| inner.lead(one)))
            {
                Some(one) => one,
                None => return Duration::MAX,
            },
        },
    };
    let watch = Stopwatch::start();
    match inner.settle(&one) {
        Came::Settled => {
            settling.settled.fetch_add(1, Ordering::Relaxed);
        }
        Came::Left => (),
        Came::Again { raced } => {
            let (races, doubted) = (one.races + u32::from(raced), one.doubted && !raced);
            settling.wait(Waiting { races, doubted, ..one });
        }
        Came::Doubted => settling.wait(Waiting { races: one.races + 1, doubted: true, ..one }),
    }
    let rest = if settling.makes_calls() { REST } else { IDLE_REST };
    watch.elapsed().duration().mul_f64(rest)
}

/// The current thread, for a planner that ends on it.
pub(crate) fn is_current(thread: &Thread) -> bool {
    thread.id() == std::thread::current().id()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::{DType, Elementwise, UnaryOp};

    #[test]
    fn whoever_is_ahead_by_least_comes_first_and_whoever_was_raced_comes_later() {
        let settling = Settling::default();
        let problem = |length: u64| Elementwise::unary(UnaryOp::Neg, DType::F32, &[length]).ok();
        let lead = |one: &Waiting| one.problem.out_len() as f64;
        for (length, races) in [(5, 0), (3, 1), (9, 0), (4, 0), (2, 1)] {
            let Some(problem) = problem(length).map(Problem::from) else { panic!("{length} elements") };
            settling.wait(Waiting { problem, terms: TermsId::default(), races, doubted: false });
        }
        let mut order = Vec::new();
        while let Some(next) = settling.next_by_lead(lead) {
            order.push((next.problem.out_len(), next.races));
        }
        assert_eq!(order, [(4, 0), (5, 0), (9, 0), (2, 1), (3, 1)]);
    }
}
