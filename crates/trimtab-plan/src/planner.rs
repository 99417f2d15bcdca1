//! The planner: known path without a lock, cold path behind one, feedback drained in the background.

use crate::calibration::Calibration;
use crate::decide::{Ask, Decider, PlanError};
use crate::devices::{Devices, MAX_JOINED};
use crate::drain::LiveKey;
use crate::drift::Drifts;
use crate::feedback::{self, Feedback};
use crate::force::no_plan;
use crate::goal::SearchGoal;
use crate::live::Explores;
use crate::objective::is_implausible;
use crate::plan::{Plan, Rival};
use crate::recall::forget;
use crate::record::Decision;
use crate::regret::{self, Accuracy, LiveCounts, LiveStats};
use crate::resize::Resizes;
use crate::settings::{Settings, TuneRequest};
use crate::settle::{Settling, is_current};
use crate::table::{Table, TermsId};
use crate::witness::Witness;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use trimtab_core::{
    Basis, Device, Estimate, Failure, FailureKind, KernelId, LaunchError, Lookup, Nanos, Operation, Patience,
    Problem, Terms,
};
use trimtab_model::learn::Ledger;
use trimtab_tune::{Progress, Stopwatch};
use trimtab_wisdom::{Filter, ImportReport, Wisdom, WisdomError};

/// Decisions kept for `explain`; the oldest go first, and can be made again from wisdom.
pub(crate) const MAX_DECISIONS: usize = 256;
/// Different terms one planner knows, those about one device included; more are refused: a program asks under a few, kept in
/// handles.
const MAX_TERMS: usize = 2 * MAX_JOINED;
/// How often the background thread drains feedback and writes wisdom.
const DRAIN_INTERVAL: Duration = Duration::from_millis(500);
/// Decisions by problem, and the problems in the order they came.
pub(crate) type Decisions = (FxHashMap<(Problem, TermsId), Arc<Decision>>, VecDeque<(Problem, TermsId)>);

pub(crate) struct Inner {
    pub decider: Decider,
    pub settings: Settings,
    pub table: Table,
    /// What handles stand for: terms, and the device they are about if they are about one.
    pub terms: Mutex<Vec<(Terms, Option<u16>)>>,
    /// Held while a decision with measuring is made; whoever finds it taken gets an estimate instead of waiting.
    pub deciding: Mutex<()>,
    pub decisions: Mutex<Decisions>,
    pub feedback: Feedback,
    /// What live times of plans are remembered under; made into keys of wisdom when there is one to remember.
    pub live_keys: Mutex<FxHashMap<u32, LiveKey>>,
    pub resizes: Resizes,
    pub explores: Explores,
    pub live_counts: LiveCounts,
    pub drifts: Drifts,
    pub settling: Settling,
    pub witness: OnceLock<Arc<dyn Witness>>,
    pub stop: AtomicBool,
}

/// From problem to plan. One per runtime; shared by reference by all threads.
pub struct Planner {
    inner: Arc<Inner>,
    drainer: Mutex<Option<JoinHandle<()>>>,
    /// The process its background threads are in.
    process: u32,
}

impl std::fmt::Debug for Planner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Planner({})", self.machine())
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
        let usable = vec![true; devices.len()];
        Planner::with_usable(devices, usable, wisdom, settings, terms)
    }

    /// The same, with devices that are planned for only where they are asked for alone: those not usable, by position.
    pub fn with_usable(
        devices: Vec<Arc<dyn Device>>,
        usable: Vec<bool>,
        wisdom: Arc<Wisdom>,
        settings: Settings,
        terms: Terms,
    ) -> Planner {
        let devices = Devices::new(devices, usable);
        let mut decider = Decider::new(devices, wisdom, settings.switch_margin, settings.offload.clone());
        decider.experience.training.model = settings.model.clone();
        decider.kernels = settings.kernels.clone();
        let inner = Inner {
            decider,
            settings,
            table: Table::new(),
            terms: Mutex::new(vec![(terms, None)]),
            deciding: Mutex::new(()),
            decisions: Mutex::default(),
            feedback: Feedback::new(),
            live_keys: Mutex::default(),
            resizes: Resizes::default(),
            explores: Explores::default(),
            live_counts: LiveCounts::default(),
            drifts: Drifts::default(),
            settling: Settling::default(),
            witness: OnceLock::new(),
            stop: AtomicBool::new(false),
        };
        Planner { inner: Arc::new(inner), drainer: Mutex::new(None), process: std::process::id() }
    }

    /// Tells somebody what happens in the background; the first who asks is told.
    pub fn tell(&self, witness: Arc<dyn Witness>) {
        let _ = self.inner.witness.set(witness);
    }

    /// The devices it was made with; those that joined are not among them.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        self.inner.decider.devices.own()
    }

    /// Takes in a device that is planned for only where it is asked for alone, by the position that is returned.
    pub fn join(&self, device: Arc<dyn Device>) -> Result<u16, PlanError> {
        self.inner.decider.devices.join(device)
    }

    /// Lets a device that joined go, with its plans and handles: its position is another's next.
    pub fn leave(&self, device: u16) {
        let Some(gone) = self.inner.decider.devices.leave(device) else { return };
        self.inner.table.clear(|plan| plan.device == device);
        self.inner.decider.leave(device);
        if let Ok(mut decisions) = self.inner.decisions.lock() {
            let (map, order) = &mut *decisions;
            map.retain(|_, decision| !decision.scope.devices.contains(&device));
            order.retain(|key| map.contains_key(key));
        }
        drop(gone);
    }

    /// What is remembered.
    pub fn wisdom(&self) -> &Arc<Wisdom> {
        &self.inner.decider.wisdom
    }

    pub(crate) fn decider(&self) -> &Decider {
        &self.inner.decider
    }

    pub(crate) fn given(&self, terms: TermsId) -> (Terms, Option<u16>) {
        self.inner.given(terms)
    }

    /// How this planner behaves.
    pub fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// The identity of these devices in wisdom's verdicts.
    pub fn machine(&self) -> String {
        let devices = &self.inner.decider.devices;
        devices.machine(&devices.scope(None))
    }

    /// The short name of terms on all usable devices, for use in calls; an error after two thousand different ones.
    pub fn terms(&self, terms: &Terms) -> Result<TermsId, PlanError> {
        self.handle(*terms, None)
    }

    /// The same for calls that run on one device, with operands and result in place there.
    pub fn terms_on(&self, terms: &Terms, device: u16) -> Result<TermsId, PlanError> {
        let devices = &self.inner.decider.devices;
        devices.get(device).ok_or(PlanError::NoDevice)?;
        self.handle(*terms, Some(device).filter(|_| !devices.is_all(device)))
    }

    fn handle(&self, terms: Terms, on: Option<u16>) -> Result<TermsId, PlanError> {
        terms.check()?;
        let too_many = PlanError::TooManyTerms { limit: MAX_TERMS };
        let Ok(mut known) = self.inner.terms.lock() else { return Err(too_many) };
        if let Some(index) = known.iter().position(|other| *other == (terms, on)) {
            return Ok(TermsId(index as u32));
        }
        if known.len() >= MAX_TERMS {
            return Err(too_many);
        }
        known.push((terms, on));
        Ok(TermsId(known.len() as u32 - 1))
    }

    /// The plan in force for a problem, if there is one. No lock, no allocation, no system call.
    #[inline]
    pub fn known<K: Lookup>(&self, problem: &K, terms: TermsId) -> Option<(&Problem, &Plan)> {
        self.inner.table.get(problem, terms)
    }

    /// Grows whenever what is in force changes: something was decided, learned, or forgotten. No lock.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.inner.table.generation()
    }

    /// The plan for a call that is made now, if there is one: that in force, or for one call another that is to be tried. Its
    /// report says how that went, so it is to be run with [`run`](Planner::run) and not to be kept. No lock, no allocation, no
    /// system call.
    #[inline(always)]
    pub fn for_call<K: Lookup>(&self, problem: &K, terms: TermsId) -> Option<(&Problem, &Plan)> {
        self.inner.table.take(problem, terms)
    }

    /// The plan in force of a problem that came when the table of known plans was full; nothing for one that
    /// [`for_call`](Planner::for_call) finds. Such plans have no number: their calls are neither timed nor explored.
    pub fn beyond(&self, problem: &Problem, terms: TermsId) -> Option<Plan> {
        self.inner.table.get_overflow(problem, terms)
    }

    /// What all timed calls took, and how much of it went into trying others than the plan in force.
    pub fn ledger(&self) -> Ledger {
        self.inner.explores.ledger()
    }

    /// The ledger of each problem that is explored now.
    pub fn ledgers(&self) -> Vec<(Problem, Ledger)> {
        self.inner.explores.ledgers()
    }

    /// The plan for a problem, made now if need be. Never waits for another thread's measuring.
    pub fn plan(&self, problem: &Problem, terms: TermsId) -> Result<Plan, PlanError> {
        self.decide(problem, terms).map(|(plan, _)| plan)
    }

    /// The same, with the decision if it was made now.
    pub fn decide(
        &self,
        problem: &Problem,
        terms: TermsId,
    ) -> Result<(Plan, Option<Arc<Decision>>), PlanError> {
        if let Some(plan) = self.inner.in_force(problem, terms) {
            return Ok((plan, None));
        }
        let settings = &self.inner.settings;
        let mut quiet = |_: &Progress| ();
        let _first = self.inner.settling.go_first();
        match self.inner.deciding.try_lock() {
            Ok(_guard) => {
                // Another thread may have published while we came here.
                if let Some(plan) = self.inner.in_force(problem, terms) {
                    return Ok((plan, None));
                }
                let ask = self.inner.ask(problem, terms, settings.patience, &mut quiet);
                let decision = Arc::new(self.inner.decide(ask)?);
                Ok((self.publish(problem, terms, &decision)?, Some(decision)))
            }
            Err(_) => {
                let patience = settings.patience.min(Patience::Estimate);
                let decision = self.inner.decide(self.inner.ask(problem, terms, patience, &mut quiet))?;
                let plan = decision.plan().ok_or_else(|| no_plan(problem))?;
                Ok((plan, Some(Arc::new(decision))))
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
        let _first = self.inner.settling.go_first();
        let _guard = self.inner.deciding.lock();
        let ask = self.inner.ask(problem, terms, request.patience, progress);
        let goal = match request.patience {
            Patience::Exhaustive => SearchGoal::default(),
            _ => SearchGoal {
                strategy: request.strategy.or(self.inner.settings.strategy),
                evals: request.evals,
                good_enough: request.good_enough,
            },
        };
        let ask = Ask {
            goal,
            budget: request.budget,
            session: request.session,
            rules: request.rules.clone(),
            accept_partial: false,
            ..ask
        };
        let decision = Arc::new(self.inner.decide(ask)?);
        self.publish(problem, terms, &decision)?;
        Ok(decision)
    }

    /// The record of the plan in force: the very one it was decided by. Without a plan, that of the same stages with nothing run: what
    /// a call would begin with.
    pub fn explain(&self, problem: &Problem, terms: TermsId) -> Result<Arc<Decision>, PlanError> {
        self.inner.record(problem, terms)
    }

    /// A record as its rivals stand now, those included it never looked at. Measures nothing, and what was decided stays.
    pub fn survey(&self, decision: &Decision) -> Decision {
        self.inner.survey(decision)
    }

    /// What a learned choice rests on and the sizes at which it would change, in words; nothing for others.
    pub fn grounds(&self, decision: &Decision) -> Vec<String> {
        self.inner.decider.grounds(decision)
    }

    /// What a call is expected to take by what is known now, the transfer apart; an infinite spread where nothing is. Measures
    /// nothing, and writes nothing down.
    pub fn estimate(&self, problem: &Problem, terms: TermsId) -> Result<Estimate, PlanError> {
        let unknown = Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
        let foreseen = self.inner.foresee(problem, terms)?;
        Ok(foreseen.winner().and_then(Rival::estimate).unwrap_or(unknown))
    }

    /// How near predictions from other problems are: every measurement of kernels of the operations asked for against what fits to
    /// the others expect. Measures nothing.
    pub fn foretold(&self, is_asked: &dyn Fn(Operation) -> bool) -> Option<Accuracy> {
        let Decider { devices, wisdom, experience, .. } = &self.inner.decider;
        let pairs = devices.own().iter().enumerate().flat_map(|(index, device)| {
            experience.load(devices, index as u16, wisdom);
            experience.foretold(device.as_ref(), index as u16, is_asked)
        });
        regret::compare(pairs)
    }

    /// The record behind the plan in force, if this process made it and still has it.
    pub fn decision(&self, problem: &Problem, terms: TermsId) -> Option<Arc<Decision>> {
        self.inner.kept(problem, terms)
    }

    /// The record behind a plan that has a number.
    pub(crate) fn record_of(&self, plan: &Plan) -> Option<Arc<Decision>> {
        let (problem, terms) = self.inner.table.asked(plan.id)?;
        self.inner.kept(&problem, terms)
    }

    /// A launch of the plan failed: it is quarantined, and the next best plan is put in force and returned.
    pub fn failed(
        &self,
        problem: &Problem,
        terms: TermsId,
        plan: &Plan,
        error: &LaunchError,
    ) -> Result<Plan, PlanError> {
        let failure = match error {
            LaunchError::Failed(failure) => failure.clone(),
            _ => Failure::new(FailureKind::Launch, error.to_string()),
        };
        let next = self.inner.put_out(problem, terms, plan, &failure);
        self.start_drainer();
        next
    }

    /// A result of the plan was found wrong after it was delivered: it is quarantined, and if it is in force the next best takes its
    /// place. The record of what is in force then.
    pub fn accuse(&self, plan: &Plan, failure: &Failure) -> Option<Arc<Decision>> {
        let (problem, terms) = self.inner.table.asked(plan.id)?;
        self.inner.put_out(&problem, terms, plan, failure).ok()?;
        self.inner.record(&problem, terms).ok()
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

    /// What live calls of this process showed.
    pub fn stats(&self) -> LiveStats {
        let stats = self.inner.live_counts.stats();
        let (settled, unsettled) = (self.inner.settling.settled(), self.inner.settling.waiting() as u64);
        LiveStats { settled, unsettled, dropped: self.reports_dropped(), ledger: self.ledger(), ..stats }
    }

    /// Takes in what live calls reported and writes wisdom. The background thread does this by itself.
    pub fn drain(&self) {
        self.inner.drain();
    }

    /// Takes in facts from elsewhere. With `commit` they count from the next call on.
    pub fn import(&self, text: &str, commit: bool) -> Result<ImportReport, WisdomError> {
        let report = self.inner.decider.wisdom.import(text, commit)?;
        if commit {
            self.replan();
        }
        Ok(report)
    }

    /// Whether one of these devices cannot be as fast as a time that is said of one of its kernels; such a time decides nothing.
    pub fn is_implausible(&self, device: &str, problem: &str, kernel: &str, point: &str, ns: f64) -> bool {
        let its = |other: &&Arc<dyn Device>| other.facts().fingerprint.0 == device;
        let (Some(device), Ok(problem)) = (self.devices().iter().find(its), Problem::parse(problem)) else {
            return false;
        };
        let number = device.kernels().iter().position(|info| info.name == kernel);
        let work = number.and_then(|number| {
            let id = KernelId(number as u32);
            let point = device.space(id, &problem).read(point)?;
            device.declines(id, &problem).is_none().then(|| device.work(id, &problem, &point))
        });
        work.is_some_and(|work| is_implausible(&work, &problem, ns, &device.rates()))
    }

    /// Puts a calibration in force: from the next call on it is what decisions between devices rest on where nobody measured.
    pub fn calibrate(&self, calibration: Calibration) {
        if let Ok(mut kept) = self.inner.decider.calibration.write() {
            *kept = Arc::new(calibration);
        }
        self.replan();
    }

    /// The calibration in force.
    pub fn calibration(&self) -> Arc<Calibration> {
        self.inner.decider.calibration.read().map(|kept| Arc::clone(&kept)).unwrap_or_default()
    }

    /// The best plan on one device, and what a whole call of it is expected to take by what decisions use now. Nothing is run.
    pub fn best_on(&self, problem: &Problem, terms: TermsId, device: usize) -> Option<(Plan, Nanos)> {
        let (terms, on) = self.inner.given(terms);
        let decider = &self.inner.decider;
        decider.best_on(problem, &terms, &decider.devices.scope(on), device as u16)
    }

    /// Forgets facts; what rested on them is planned anew at the next call. The winner of a race that one of them was part of is
    /// challenged: it stays remembered, and is raced again where measuring is allowed.
    pub fn forget(&self, filter: &Filter) -> usize {
        let count = forget(&self.inner.decider.wisdom, filter);
        self.replan();
        count
    }

    /// Forgets every plan, not what was learned: the next call of each problem plans anew from wisdom.
    pub fn replan(&self) {
        self.inner.decider.experience.clear();
        self.inner.table.clear(|_| true);
        self.inner.resizes.clear();
        self.inner.explores.clear();
        self.inner.drifts.clear();
        self.inner.settling.clear();
        if let Ok(mut decisions) = self.inner.decisions.lock() {
            decisions.0.clear();
            decisions.1.clear();
        }
    }

    fn publish(
        &self,
        problem: &Problem,
        terms: TermsId,
        decision: &Arc<Decision>,
    ) -> Result<Plan, PlanError> {
        let plan = self.inner.publish(problem, terms, decision)?;
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
                        if let Some(witness) = inner.witness.get() {
                            witness.idle();
                        }
                        // Calls that were waited for wake this thread more often than wisdom needs to be written.
                        if written.elapsed().duration() >= DRAIN_INTERVAL {
                            inner.decider.wisdom.flush();
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
        let drainer = self.drainer.lock().ok().and_then(|mut drainer| drainer.take());
        let threads = drainer.into_iter().chain(self.inner.settling.end());
        if self.process != std::process::id() {
            // A forked child: nobody is there to be waited for, and what they were at is the parent's.
            return threads.for_each(std::mem::forget);
        }
        for handle in threads {
            handle.thread().unpark();
            // What a device holds may be the last handle of this planner, and a background thread may be who drops it.
            if !is_current(handle.thread()) {
                let _ = handle.join();
            }
        }
        self.inner.drain();
    }
}
