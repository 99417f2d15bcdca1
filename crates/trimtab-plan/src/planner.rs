//! The planner: known path without a lock, cold path behind one, feedback drained in the background.

use crate::cold::{Ask, Cold, PlanError, fact_key};
use crate::experience::LIVE;
use crate::feedback::{self, Feedback, Report};
use crate::field;
use crate::plan::{Decision, Plan};
use crate::resize::{Live, Put, Resizes, is_resizable};
use crate::strategy_name::StrategyName;
use crate::table::{Table, TermsId};
use crate::wanted::Wanted;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use trimtab_core::{Device, Failure, FailureKind, LaunchError, Lookup, Nanos, Patience, Problem, Terms};
use trimtab_tune::{Progress, Rules, Stopwatch};
use trimtab_wisdom::{FactKey, Filter, ImportReport, Outcome, Stats, Wisdom, WisdomError};

/// Decisions kept for `explain`; the oldest go first, and can be made again from wisdom.
const MAX_DECISIONS: usize = 256;
/// Different terms one planner knows; more are refused: a program asks under a few, kept in handles.
const MAX_TERMS: usize = 1024;
/// How often the background thread drains feedback and writes wisdom.
const DRAIN_INTERVAL: Duration = Duration::from_millis(500);
/// Foreground time a new problem may cost by default.
pub const DEFAULT_BUDGET: Nanos = Nanos::from_millis(35);
/// Share by which a rival must be better before a plan in force is given up.
pub const DEFAULT_SWITCH_MARGIN: f64 = 0.02;

/// How a planner behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Effort for a problem that is not known.
    pub patience: Patience,
    /// Foreground time a new problem may cost.
    pub budget: Nanos,
    /// How races are run.
    pub rules: Rules,
    /// Share by which a rival must be better before a plan in force is given up.
    pub switch_margin: f64,
    /// The strategy for settings that are searched. With one named, kernels with few settings are searched too.
    pub strategy: Option<StrategyName>,
    /// Whether a plan that rests on no measurement learns the width of its kernel from live calls. Never with
    /// [`Patience::Off`].
    pub live_resize: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            patience: Patience::default(),
            budget: DEFAULT_BUDGET,
            rules: Rules::default(),
            switch_margin: DEFAULT_SWITCH_MARGIN,
            strategy: None,
            live_resize: true,
        }
    }
}

/// How thoroughly a problem is tuned on request.
#[derive(Clone, Debug)]
pub struct TuneRequest {
    /// Effort.
    pub patience: Patience,
    /// Time it may take.
    pub budget: Nanos,
    /// The budget of the whole session this is part of; `budget` if it stands alone. A race that was cut short in a session
    /// of at least this size is not taken up again: asking the same twice measures nothing the second time.
    pub session: Nanos,
    /// How the race is run.
    pub rules: Rules,
    /// The strategy for settings that are searched; that of the planner's settings if absent. Not used by
    /// [`Patience::Exhaustive`], which measures everything; nor are the next two.
    pub strategy: Option<StrategyName>,
    /// Most points measured.
    pub evals: Option<u32>,
    /// Ends when the best reaches this share of the speed that the device's rates allow for the work counted.
    pub good_enough: Option<f64>,
}

impl TuneRequest {
    /// A request that stands alone, with careful rules and nothing special asked of a search.
    pub fn new(patience: Patience, budget: Nanos) -> TuneRequest {
        let (strategy, evals, good_enough) = (None, None, None);
        TuneRequest {
            patience,
            budget,
            session: budget,
            rules: Rules::careful(),
            strategy,
            evals,
            good_enough,
        }
    }
}

/// Decisions by problem, and the problems in the order they came.
type Decisions = (FxHashMap<(Problem, TermsId), Arc<Decision>>, VecDeque<(Problem, TermsId)>);

struct Inner {
    cold: Cold,
    settings: Settings,
    table: Table,
    terms: Mutex<Vec<Terms>>,
    /// Held while a decision with measuring is made; whoever finds it taken gets an estimate instead of waiting.
    deciding: Mutex<()>,
    decisions: Mutex<Decisions>,
    feedback: Feedback,
    /// Live plans' keys in wisdom, so that draining does not rebuild them.
    live_keys: Mutex<FxHashMap<u32, FactKey>>,
    resizes: Resizes,
    stop: AtomicBool,
}

/// From problem to plan. One per runtime; shared by reference by all threads.
pub struct Planner {
    inner: Arc<Inner>,
    drainer: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Planner({})", field::machine(&self.inner.cold.devices))
    }
}

impl Planner {
    /// A planner over these devices, frozen from now on. `terms` are those of a call that says nothing else.
    pub fn new(
        devices: Vec<Arc<dyn Device>>,
        wisdom: Arc<Wisdom>,
        settings: Settings,
        terms: Terms,
    ) -> Planner {
        let cold = Cold::new(devices, wisdom, settings.switch_margin);
        let inner = Inner {
            cold,
            settings,
            table: Table::new(),
            terms: Mutex::new(vec![terms]),
            deciding: Mutex::new(()),
            decisions: Mutex::default(),
            feedback: Feedback::new(),
            live_keys: Mutex::default(),
            resizes: Resizes::default(),
            stop: AtomicBool::new(false),
        };
        Planner { inner: Arc::new(inner), drainer: Mutex::new(None) }
    }

    /// The devices planned for.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.inner.cold.devices
    }

    /// What is remembered.
    pub fn wisdom(&self) -> &Arc<Wisdom> {
        &self.inner.cold.wisdom
    }

    pub(crate) fn cold(&self) -> &Cold {
        &self.inner.cold
    }

    /// How this planner behaves.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// The identity of these devices in wisdom's verdicts.
    pub fn machine(&self) -> String {
        field::machine(&self.inner.cold.devices)
    }

    /// The short name of terms, for use in calls; an error after a thousand different ones.
    pub fn terms(&self, terms: &Terms) -> Result<TermsId, PlanError> {
        let Ok(mut known) = self.inner.terms.lock() else {
            return Err(PlanError::TooManyTerms { limit: MAX_TERMS });
        };
        if let Some(index) = known.iter().position(|other| other == terms) {
            return Ok(TermsId(index as u32));
        }
        if known.len() >= MAX_TERMS {
            return Err(PlanError::TooManyTerms { limit: MAX_TERMS });
        }
        known.push(*terms);
        Ok(TermsId(known.len() as u32 - 1))
    }

    /// The plan in force for a problem, if there is one. No lock, no allocation, no system call.
    #[inline]
    pub fn known<K: Lookup>(&self, problem: &K, terms: TermsId) -> Option<(&Problem, &Plan)> {
        self.inner.table.get(problem, terms)
    }

    /// The plan in force, also if it came after the table of known plans was full.
    fn in_force(&self, problem: &Problem, terms: TermsId) -> Option<Plan> {
        let known = self.known(problem, terms).map(|(_, plan)| *plan);
        known.or_else(|| self.inner.table.get_overflow(problem, terms))
    }

    /// The plan for a problem, made now if need be. Never waits for another thread's measuring.
    pub fn plan(&self, problem: &Problem, terms: TermsId) -> Result<Plan, PlanError> {
        if let Some(plan) = self.in_force(problem, terms) {
            return Ok(plan);
        }
        let settings = &self.inner.settings;
        match self.inner.deciding.try_lock() {
            Ok(_guard) => {
                // Another thread may have published while we came here.
                if let Some(plan) = self.in_force(problem, terms) {
                    return Ok(plan);
                }
                let mut quiet = |_: &Progress| ();
                let ask = self.ask(problem, terms, settings.patience, &mut quiet);
                let decision = self.inner.cold.decide(ask)?;
                self.publish(problem, terms, decision)
            }
            Err(_) => {
                let mut quiet = |_: &Progress| ();
                let patience = settings.patience.min(Patience::Estimate);
                let decision = self.inner.cold.decide(self.ask(problem, terms, patience, &mut quiet))?;
                decision.plan().ok_or_else(|| no_plan(problem))
            }
        }
    }

    /// Measures a problem on request and puts the winner in force. A race that was completed earlier is not repeated.
    /// Waits for a decision another thread is making; not to be called from inside `progress`.
    pub fn tune(
        &self,
        problem: &Problem,
        terms: TermsId,
        request: &TuneRequest,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Arc<Decision>, PlanError> {
        let _guard = self.inner.deciding.lock();
        let ask = self.ask(problem, terms, request.patience, progress);
        let wanted = match request.patience {
            Patience::Exhaustive => Wanted::default(),
            _ => Wanted {
                strategy: request.strategy.or(self.inner.settings.strategy),
                evals: request.evals,
                good_enough: request.good_enough,
            },
        };
        let ask = Ask {
            wanted,
            budget: request.budget,
            session: request.session,
            rules: request.rules.clone(),
            accept_partial: false,
            ..ask
        };
        let decision = self.inner.cold.decide(ask)?;
        self.publish(problem, terms, decision)?;
        self.decision(problem, terms).ok_or_else(|| no_plan(problem))
    }

    /// Every rival with its time or its reason, nothing measured. The plan in force, if any, is the chosen one.
    pub fn explain(&self, problem: &Problem, terms: TermsId) -> Result<Decision, PlanError> {
        let mut quiet = |_: &Progress| ();
        let mut decision =
            self.inner.cold.explain(&self.ask(problem, terms, self.inner.settings.patience, &mut quiet))?;
        if let Some(made) = self.decision(problem, terms) {
            decision.reason = made.reason;
            decision.patience = made.patience;
            decision.complete = made.complete;
            decision.spent = made.spent;
            decision.runs = made.runs;
            decision.expected_loss = made.expected_loss;
            decision.notes.extend(made.notes.iter().cloned());
        }
        Ok(decision)
    }

    /// The record behind the plan in force, if this process made it and still has it.
    pub fn decision(&self, problem: &Problem, terms: TermsId) -> Option<Arc<Decision>> {
        self.inner.decisions.lock().ok()?.0.get(&(*problem, terms)).cloned()
    }

    /// A launch of the plan failed: it is quarantined, and the next best plan is put in force and returned.
    pub fn failed(
        &self,
        problem: &Problem,
        terms: TermsId,
        plan: &Plan,
        error: &LaunchError,
    ) -> Result<Plan, PlanError> {
        let failure = Failure::new(FailureKind::Launch, error.to_string());
        let cold = &self.inner.cold;
        let given = self.given_terms(terms);
        let rivals = field::enumerate(&cold.devices, problem, &given);
        let is_failed = |rival: &&crate::plan::Rival| {
            rival.device == plan.device && rival.kernel == plan.kernel && rival.point == plan.point
        };
        if let Some(rival) = rivals.iter().find(is_failed) {
            cold.record_failure(problem, rival, &failure);
        }
        let mut quiet = |_: &Progress| ();
        let ask = self.ask(problem, terms, Patience::Estimate, &mut quiet);
        let decision = cold.decide(Ask { in_force: None, ..ask })?;
        let again = decision.plan().is_some_and(|next| {
            next.device == plan.device && next.kernel == plan.kernel && next.point == plan.point
        });
        // The reference is never quarantined; when it fails too, that is the answer.
        if again {
            return Err(PlanError::NoRival {
                problem: problem.to_string(),
                terms: given.to_string(),
                reasons: format!("the reference failed too: {error}"),
            });
        }
        let decision = Decision { reason: crate::plan::Reason::NextBest, ..decision };
        self.publish(problem, terms, decision)
    }

    /// Whether the caller should time this call of the plan and report it.
    #[inline]
    pub fn should_time(&self, plan: &Plan) -> bool {
        feedback::should_time(plan)
    }

    /// Reports how long a live call took. Under 100 ns; no lock, no allocation, no disk.
    #[inline]
    pub fn report(&self, plan: &Plan, elapsed: Nanos) {
        self.inner.feedback.report(plan, elapsed.0);
    }

    /// Runs `launch`, timing and reporting it if it is this call's turn. A launch that fails is not a time.
    #[inline]
    pub fn run<R, E>(&self, plan: &Plan, launch: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        if !feedback::should_time(plan) {
            return launch();
        }
        let stopwatch = Stopwatch::start();
        let result = launch();
        if result.is_ok() {
            self.report(plan, stopwatch.elapsed());
        }
        result
    }

    /// Live reports dropped because the ring was full.
    pub fn reports_dropped(&self) -> u64 {
        self.inner.feedback.dropped()
    }

    /// Takes in what live calls reported and writes wisdom. The background thread does this by itself.
    pub fn drain(&self) {
        self.inner.drain();
    }

    /// Takes in facts from elsewhere. With `commit` they count from the next call on.
    pub fn import(&self, text: &str, commit: bool) -> Result<ImportReport, WisdomError> {
        let report = self.inner.cold.wisdom.import(text, commit)?;
        if commit {
            self.forget_plans();
        }
        Ok(report)
    }

    /// Forgets facts; what rested on them is planned anew at the next call.
    pub fn forget(&self, filter: &Filter) -> usize {
        let count = self.inner.cold.wisdom.forget(filter);
        self.forget_plans();
        count
    }

    fn forget_plans(&self) {
        self.inner.cold.experience.clear();
        self.inner.table.clear();
        self.inner.resizes.clear();
        if let Ok(mut decisions) = self.inner.decisions.lock() {
            decisions.0.clear();
            decisions.1.clear();
        }
    }

    fn given_terms(&self, terms: TermsId) -> Terms {
        let known = self.inner.terms.lock().ok();
        known.and_then(|known| known.get(terms.0 as usize).copied()).unwrap_or_default()
    }

    fn ask<'a>(
        &self,
        problem: &Problem,
        terms: TermsId,
        patience: Patience,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Ask<'a> {
        let settings = &self.inner.settings;
        Ask {
            problem: *problem,
            terms: self.given_terms(terms),
            patience,
            budget: settings.budget,
            session: Nanos(0),
            accept_partial: true,
            wanted: Wanted {
                strategy: settings.strategy.filter(|_| patience == Patience::Measure),
                ..Wanted::default()
            },
            in_force: self.in_force(problem, terms),
            rules: settings.rules.clone(),
            progress,
        }
    }

    fn publish(&self, problem: &Problem, terms: TermsId, decision: Decision) -> Result<Plan, PlanError> {
        let inner = &self.inner;
        let decision = Arc::new(decision);
        let plan = decision.plan().ok_or_else(|| no_plan(problem))?;
        let wanted = inner.settings.live_resize && inner.settings.patience > Patience::Off;
        let resized = wanted && is_resizable(&decision) && !inner.table.is_crowded();
        let live = if resized { Live::new(&inner.cold.devices, terms, &decision) } else { None };
        let plan = inner.table.publish(problem, terms, live.as_ref().map_or(plan, Live::plan));
        inner.keep(problem, terms, &plan, decision);
        if let Some(live) = live {
            inner.resizes.begin(live.numbered(plan));
            inner.feedback.await_reports(inner.feedback.awaited(), plan.id);
        }
        self.start_drainer();
        Ok(plan)
    }

    /// Starts the background thread with the first plan, so that a planner that is never asked costs nothing.
    fn start_drainer(&self) {
        let Ok(mut drainer) = self.drainer.lock() else { return };
        if drainer.is_some() {
            return;
        }
        let weak = Arc::downgrade(&self.inner);
        let body = move || {
            let mut written = Stopwatch::start();
            loop {
                std::thread::park_timeout(DRAIN_INTERVAL.saturating_sub(written.elapsed().duration()));
                match weak.upgrade() {
                    Some(inner) if !inner.stop.load(Ordering::Acquire) => {
                        inner.take_in();
                        // Calls that were waited for wake this thread more often than wisdom needs to be written.
                        if written.elapsed().duration() >= DRAIN_INTERVAL {
                            inner.cold.wisdom.flush();
                            written = Stopwatch::start();
                        }
                    }
                    _ => return,
                }
            }
        };
        // Without a thread, dropping the planner drains what fits the ring.
        *drainer = std::thread::Builder::new().name("trimtab-notes".to_string()).spawn(body).ok();
        if let Some(drainer) = &*drainer {
            self.inner.feedback.drained_by(drainer.thread());
        }
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        self.inner.stop.store(true, Ordering::Release);
        let handle = self.drainer.lock().ok().and_then(|mut drainer| drainer.take());
        if let Some(handle) = handle {
            handle.thread().unpark();
            let _ = handle.join();
        }
        self.inner.drain();
    }
}

impl Inner {
    fn drain(&self) {
        self.take_in();
        self.cold.wisdom.flush();
    }

    /// Takes in what live calls reported.
    fn take_in(&self) {
        let mut sums: FxHashMap<u32, Stats> = FxHashMap::default();
        let mut reports = Vec::new();
        while let Some(report) = self.feedback.take() {
            let one = Stats::single(report.elapsed_ns as f64);
            sums.entry(report.plan_id).and_modify(|sum| *sum = sum.merge(&one)).or_insert(one);
            reports.push(report);
        }
        if let Ok(keys) = self.live_keys.lock() {
            for (id, stats) in sums {
                if let Some(key) = keys.get(&id) {
                    self.cold.wisdom.record(key.clone(), Outcome::Timed(stats));
                }
            }
        }
        if self.settings.live_resize && !self.stop.load(Ordering::Acquire) {
            self.resize(&reports);
        }
    }

    /// Gives live calls to the plans that learn from them, and puts in force what they ask for.
    fn resize(&self, reports: &[Report]) {
        let is_in_force = |live: &Live| {
            let (problem, terms) = live.key();
            self.table.get(problem, terms).is_some_and(|(_, plan)| plan.id == live.plan().id)
        };
        let put = |live: &Live, plan: Plan, decision: Decision| {
            // A decision that is being made counts more; the change is made when it is over, if it still matters.
            let Ok(_guard) = self.deciding.try_lock() else { return Put::Later };
            let (problem, terms) = live.key();
            let Some(plan) = self.table.replace(problem, terms, live.plan().id, plan) else {
                return Put::Gone;
            };
            self.keep(problem, terms, &plan, Arc::new(decision));
            Put::Done(plan)
        };
        let awaited = self.feedback.awaited();
        let next = self.resizes.step(reports, &self.cold, &is_in_force, &put, awaited);
        self.feedback.await_reports(awaited, next);
    }

    /// Keeps the decision behind a plan that was put in force, and under which key its live times are remembered.
    fn keep(&self, problem: &Problem, terms: TermsId, plan: &Plan, decision: Arc<Decision>) {
        if let (Ok(mut keys), Some(winner), true) = (self.live_keys.lock(), decision.winner(), plan.id != 0) {
            let device = &self.cold.devices[winner.device as usize];
            keys.insert(plan.id, fact_key(device.as_ref(), problem, winner, LIVE));
        }
        if let Ok(mut decisions) = self.decisions.lock() {
            let (map, order) = &mut *decisions;
            if map.insert((*problem, terms), decision).is_none() {
                order.push_back((*problem, terms));
            }
            while order.len() > MAX_DECISIONS {
                if let Some(oldest) = order.pop_front() {
                    map.remove(&oldest);
                }
            }
        }
    }
}

fn no_plan(problem: &Problem) -> PlanError {
    PlanError::NoRival {
        problem: problem.to_string(),
        terms: String::new(),
        reasons: "no plan was made".to_string(),
    }
}
