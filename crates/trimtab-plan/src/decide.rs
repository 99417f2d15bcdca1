//! Deciding: one pipeline of stages over one record. Each stage is a fallback for what those before could not settle.

use crate::calibration::Calibration;
use crate::devices::{Devices, Scope};
use crate::event::Event;
use crate::experience::{Effort, Experience, insert_within};
use crate::field;
use crate::goal::SearchGoal;
use crate::guard::{Guarded, with_intent};
use crate::offload;
use crate::plan::{Plan, Reason, Rival, Standing};
use crate::record::Decision;
use crate::remembered::timed_out_before;
use crate::said::KernelRules;
use crate::thresholds::Offload;
use crate::why::Why;
use rustc_hash::FxHashSet;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, RwLock};
use trimtab_core::{
    Basis, Bench, Bytes, Condition, Device, Estimate, Failure, FailureKind, KernelId, Nanos, Patience, Point,
    Problem, Terms, VariantClass, WrongTerms,
};
use trimtab_tune::{Budget, Progress, Rules};
use trimtab_wisdom::{FactKey, Outcome, Verdict, Wisdom};

/// Longest the check of a rival on a small stand-in may take.
const VERIFY_TIMEOUT: Nanos = Nanos::from_millis(50);

/// Problems whose operands take less are checked as they are before a plan for them is put in force while calls are made.
const WHOLE: Bytes = Bytes(64 << 10);
/// Longest the check of a result at its real size may take to prepare and to run: so many times what it is expected to, but not more
/// than the second and not less than the first.
const SLOWER_THAN_EXPECTED: u64 = 50;
const SHORTEST_CHECK: Nanos = Nanos::from_millis(500);
const LONGEST_CHECK: Nanos = Nanos::from_millis(10_000);
/// Settings of a kernel that may fail their checks before the others are left out of a decision.
const MAX_CHECKS: usize = 4;

/// How much faster than what was measured one must be expected to be that was not, in doublings: fits are off by more than their
/// spread now and then.
const DOUBT: f64 = 0.3;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum PlanError {
    /// Every kernel declined, was excluded or failed; `why` tells limits that leave nobody from nobody who could.
    #[error("no kernel can do {problem} under the terms `{terms}`: {reasons}")]
    NoRival { problem: String, terms: String, why: Why, reasons: String },
    /// More different terms than a planner keeps apart.
    #[error("more than {limit} different terms were asked for; keep and share the handles of those in use")]
    TooManyTerms { limit: usize },
    /// More devices than a planner takes beside its own.
    #[error("more than {limit} devices have joined; let those leave that are not used any more")]
    TooManyDevices { limit: usize },
    /// Terms that do not say what is wanted.
    #[error(transparent)]
    Terms(#[from] WrongTerms),
    /// The planner has no devices, or the one asked for left.
    #[error("there is no device to plan for; do not exclude every device")]
    NoDevice,
}

/// What a decision is made for.
pub(crate) struct Ask<'a> {
    pub problem: Problem,
    pub terms: Terms,
    pub scope: Scope,
    pub patience: Patience,
    pub budget: Nanos,
    /// The budget of the tuning session this is part of; zero within a call.
    pub session: Nanos,
    /// Whether a race the budget ended earlier is good enough.
    pub accept_partial: bool,
    /// What is asked of a search.
    pub goal: SearchGoal,
    /// The plan in force, if any.
    pub in_force: Option<Plan>,
    /// In the background, where what an earlier decision left open is settled: how many decisions are being made that go first.
    pub behind: Option<Arc<AtomicU32>>,
    /// Whether the background makes good what a call does not wait for.
    pub defers: bool,
    /// Whether nothing may run: the record says what a call would begin with.
    pub dry: bool,
    pub rules: Rules,
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// Such kernels, points and families kept in mind, about 12 MB; with more it starts over, and they are checked again.
const MAX_VERIFIED: usize = 1 << 16;

/// A kernel at a point that agreed with the reference on problems of a family.
type Verified = (u16, KernelId, Point, String);

/// What decisions are made with; everything here outlives a single decision.
pub(crate) struct Decider {
    pub devices: Devices,
    pub wisdom: Arc<Wisdom>,
    pub experience: Experience,
    pub switch_margin: f64,
    /// What the user says about devices.
    pub offload: Offload,
    /// What the user says about kernels.
    pub kernels: KernelRules,
    /// What whole calls take on each device, where that was calibrated.
    pub calibration: RwLock<Arc<Calibration>>,
    verified: Mutex<FxHashSet<Verified>>,
}

/// One decision on its way through the stages.
pub(crate) struct Deciding<'a> {
    pub by: &'a Decider,
    pub ask: Ask<'a>,
    pub record: Decision,
    pub budget: Budget,
    /// The devices in the order they are looked at: the processor, whose operands need no handing over, first.
    pub order: Vec<(u16, Arc<dyn Device>)>,
    /// What is remembered of an earlier race.
    pub verdict: Option<Verdict>,
    /// What stays unless something is clearly better: in force, or remembered.
    pub incumbent: Option<usize>,
}

impl Decider {
    pub(crate) fn new(
        devices: Devices,
        wisdom: Arc<Wisdom>,
        switch_margin: f64,
        offload: Offload,
    ) -> Decider {
        let (experience, kernels) = (Experience::default(), KernelRules::OPEN);
        let (calibration, verified) = (RwLock::default(), Mutex::default());
        Decider { devices, wisdom, experience, switch_margin, offload, kernels, calibration, verified }
    }

    /// Decides: enumerate, rules, recall, estimate, predict, measure, settle.
    pub(crate) fn decide<'a>(&'a self, ask: Ask<'a>) -> Result<Decision, PlanError> {
        let mut deciding = Deciding::enumerate(self, ask)?;
        deciding.rules();
        if !deciding.recall() {
            deciding.estimate();
            let learned = deciding.ask.behind.is_none();
            if !(deciding.recall_each() || learned && deciding.predict() || deciding.measure()) {
                deciding.settle()?;
            }
            deciding.catch_up();
        }
        Ok(deciding.close())
    }

    /// The record as its rivals stand now. Nothing is run, and what was decided stays.
    pub(crate) fn survey<'a>(&'a self, record: &Decision, ask: Ask<'a>) -> Decision {
        let mut deciding = Deciding::new(self, ask, record.clone());
        deciding.look_again();
        deciding.record.apply(Event::Surveyed);
        deciding.record
    }

    /// The record after a launch of its plan failed: the next best is chosen.
    pub(crate) fn next_best<'a>(
        &'a self,
        record: &Decision,
        ask: Ask<'a>,
        plan: &Plan,
        failure: &Failure,
    ) -> Result<Decision, PlanError> {
        let mut deciding = Deciding::new(self, ask, record.clone());
        if let Some(rival) = deciding.record.rivals.iter().position(|rival| plan.runs(rival)) {
            deciding.record.fail(rival, failure);
        }
        deciding.look_again();
        deciding.settle_best(Reason::NextBest)?;
        let (rival, reason) = (deciding.record.chosen, Reason::NextBest);
        deciding.record.apply_once(Event::Settled { rival, reason });
        Ok(deciding.close())
    }

    /// Forgets a device that left.
    pub(crate) fn leave(&self, device: u16) {
        self.experience.leave(device);
        if let Ok(mut verified) = self.verified.lock() {
            verified.retain(|key| key.0 != device);
        }
    }

    /// What a decision may cost. On recordings only reported time counts, so that it is the same on every machine.
    fn budget(&self, ask: &Ask<'_>) -> Budget {
        let devices = self.devices.within(&ask.scope);
        let recorded = devices.iter().all(|(_, device)| device.facts().habits.recorded);
        let budget = if recorded { Budget::recorded(ask.budget) } else { Budget::time(ask.budget) };
        let budget = budget
            .evaluations(ask.goal.evals.unwrap_or(u32::MAX))
            .good_enough(ask.goal.good_enough.unwrap_or(0.0));
        match &ask.behind {
            Some(others) => budget.yielding_to(others),
            None => budget,
        }
    }

    /// Checks a rival on a small stand-in; one that fails is remembered as failed.
    pub(crate) fn verify(&self, problem: &Problem, rival: &Rival) -> Result<(), Failure> {
        let key = (rival.device, rival.kernel, rival.point, field::family_of(problem));
        if self.verified.lock().is_ok_and(|verified| verified.contains(&key)) {
            return Ok(());
        }
        let Some(device) = self.devices.get(rival.device) else {
            return Err(Failure::new(FailureKind::Untried, "the device left"));
        };
        let check = || {
            with_intent(&self.wisdom, device.as_ref(), rival, || {
                device.verify(rival.kernel, problem, &rival.point, VERIFY_TIMEOUT)
            })
        };
        // The reference ends every search for somebody who answers.
        let outcome = match rival.class {
            VariantClass::Reference => check(),
            class => {
                let of = (rival.device, rival.kernel);
                self.experience.hanging.run(of, class == VariantClass::Custom, check)
            }
        };
        match &outcome {
            Ok(()) => {
                self.built(rival.device, rival.kernel, &rival.point);
                if let Ok(mut verified) = self.verified.lock() {
                    insert_within(&mut verified, key, MAX_VERIFIED);
                }
            }
            Err(failure) => self.record_failure(problem, rival, failure),
        }
        outcome
    }

    /// The same for what is put in force while calls are made: a small problem is checked as it is. What that took, if it was.
    pub(crate) fn verify_whole(&self, problem: &Problem, rival: &Rival) -> Result<Option<Nanos>, Failure> {
        self.verify(problem, rival)?;
        if problem.operand_bytes() >= WHOLE || matches!(problem, Problem::Custom(_)) {
            return Ok(None);
        }
        match self.run_once(problem, rival) {
            Ok(took) => Ok(Some(took)),
            Err(failure) if failure.kind != FailureKind::Untried => {
                self.record_failure(problem, rival, &failure);
                Err(failure)
            }
            Err(_) => Ok(None),
        }
    }

    /// Runs a rival once at its real size, on operands of its own whose result is known. What that took.
    pub(crate) fn run_once(&self, problem: &Problem, rival: &Rival) -> Result<Nanos, Failure> {
        let untried = |why: String| Failure::new(FailureKind::Untried, why);
        let device = self.devices.get(rival.device).ok_or_else(|| untried(String::new()))?;
        let bench = device.bench(problem, LONGEST_CHECK).map_err(|decline| untried(decline.to_string()))?;
        let guarded = Guarded::new(bench, *problem, &self.wisdom, device.as_ref());
        let mut bench = guarded.beside(&self.experience.hanging, rival.device);
        // Whoever waits for the end of the process waits for this too.
        let expected = rival.estimate().map_or(0, |estimate| estimate.time.0);
        let timeout = expected.saturating_mul(SLOWER_THAN_EXPECTED).clamp(SHORTEST_CHECK.0, LONGEST_CHECK.0);
        let sample = bench.run(rival.kernel, &rival.point, 1, Nanos(timeout))?;
        self.built(rival.device, rival.kernel, &rival.point);
        Ok(sample.elapsed)
    }

    /// Remembers a failure. A time-out bars in this process; in others only once two have seen it, because a machine that stood
    /// still looks the same.
    pub(crate) fn record_failure(&self, problem: &Problem, rival: &Rival, failure: &Failure) {
        let Some(device) = self.devices.get(rival.device) else { return };
        let mut condition = Condition::Quiet;
        match failure.kind {
            FailureKind::Wrong | FailureKind::Crashed => {
                let what = crate::remembered::mischief(failure.kind, &problem.to_string(), &failure.message);
                self.experience.note_lie(rival, what);
            }
            FailureKind::TimedOut => {
                self.experience.note_hang(rival.device, rival.kernel);
                self.experience.note_failure(problem, rival, failure);
                let facts = self.wisdom.facts(&device.facts().fingerprint.0, &problem.to_string());
                if !timed_out_before(&facts, rival, self.wisdom.origin()) {
                    condition = Condition::Suspect;
                }
            }
            FailureKind::Untried => return,
            _ => self.experience.note_failure(problem, rival, failure),
        }
        let outcome = Outcome::Failed { kind: failure.kind, message: failure.message.clone() };
        self.wisdom.record(fact_key(device.as_ref(), problem, rival, condition), outcome);
    }
}

impl<'a> Deciding<'a> {
    fn new(by: &'a Decider, ask: Ask<'a>, record: Decision) -> Deciding<'a> {
        let mut order = by.devices.within(&ask.scope);
        order.sort_by_key(|(_, device)| !device.facts().habits.host_memory);
        let budget = by.budget(&ask);
        Deciding { by, ask, record, budget, order, verdict: None, incumbent: None }
    }

    /// Lists every (device, kernel, point).
    fn enumerate(by: &'a Decider, mut ask: Ask<'a>) -> Result<Deciding<'a>, PlanError> {
        let devices = by.devices.within(&ask.scope);
        if devices.is_empty() {
            return Err(PlanError::NoDevice);
        }
        // A caller in a hurry does not wait for a race.
        let hurried = ask.terms.constraints.latency_max.is_some_and(|latency| latency < ask.budget);
        if hurried && ask.accept_partial {
            ask.patience = ask.patience.min(Patience::Estimate);
        }
        let rivals = field::enumerate(&devices, &ask.problem, &ask.terms);
        let mut record = Decision::new(ask.problem, ask.terms, ask.scope.clone(), rivals, ask.patience);
        record.apply(Event::Enumerated { rivals: record.rivals.len() });
        Ok(Deciding::new(by, ask, record))
    }

    /// How far estimating may go.
    pub(crate) fn effort(&self) -> Effort {
        match (self.ask.patience, self.ask.accept_partial) {
            (Patience::Off, _) => Effort::Facts,
            (_, true) => Effort::Model,
            (_, false) => Effort::Tune,
        }
    }

    /// Whether rivals may be raced.
    pub(crate) fn measures(&self) -> bool {
        self.ask.patience >= Patience::Measure && !self.ask.dry
    }

    /// Gives rivals their estimates. Where they are measured, a device is estimated when its turn comes: perhaps it cannot win any
    /// more.
    fn estimate(&mut self) {
        let devices = if self.measures() { 1 } else { self.order.len() };
        (0..devices).for_each(|turn| self.estimate_device(turn, self.effort()));
        if !self.ask.dry {
            for (what, failure) in self.by.experience.bans.take_back(&self.record.rivals) {
                self.record.apply(Event::Retried { what, failure });
            }
        }
        if self.ask.patience > Patience::Off {
            // Rates and transfers are measured once per process at most: the machine's cost, not this problem's.
            self.budget = self.by.budget(&self.ask);
        }
    }

    /// Estimates everyone again who is not out for good.
    fn look_again(&mut self) {
        let constraints = self.record.terms.constraints;
        for rival in &mut self.record.rivals {
            let lasts = match rival.standing {
                Standing::Declined(_) | Standing::Overruled(_) => true,
                Standing::Excluded(_) => constraints.excludes(&rival.work, None).is_some(),
                _ => false,
            };
            if !lasts {
                rival.standing = Standing::Unconsidered;
            }
        }
        let seen = self.record.events.len();
        (0..self.order.len()).for_each(|turn| self.estimate_device(turn, Effort::Model));
        self.verdict = self.by.verdict(&self.record);
        self.take_up_learned();
        // The stage is one event.
        self.record.events.truncate(seen);
    }

    /// Takes what nothing was measured for: the best that is remembered in mode `off`, else the best estimate.
    fn settle(&mut self) -> Result<(), PlanError> {
        if self.ask.dry {
            self.record.apply(Event::Foreseen);
            let known = |rival: &Rival| {
                if rival.estimate().is_some() { Reason::Estimated } else { Reason::DefaultOrder }
            };
            if let Some(rival) = self.incumbent.filter(|&rival| self.record.rivals[rival].is_open()) {
                let reason = known(&self.record.rivals[rival]);
                self.record.apply(Event::Settled { rival, reason });
                return Ok(());
            }
        }
        match self.ask.patience {
            Patience::Off => {
                self.incumbent = None;
                self.settle_best(Reason::Remembered)
            }
            _ => self.settle_best(Reason::Estimated),
        }
    }

    /// Takes the best score; whoever was never measured on this device is checked against the reference first.
    pub(crate) fn settle_best(&mut self, mut reason: Reason) -> Result<(), PlanError> {
        let optimism = |(at, device): &(u16, Arc<dyn Device>)| {
            let its = &self.record.rivals[offload::of_device(&self.record.rivals, *at)];
            (*at, self.by.experience.optimism(device.as_ref(), &self.ask.problem, its))
        };
        let optimism: Vec<(u16, f64)> = self.order.iter().map(optimism).collect();
        let mut failed: Vec<(u16, KernelId)> = Vec::new();
        loop {
            self.compare_evenly(|_| true);
            let rivals = &self.record.rivals;
            // Nobody has an estimate: the first nobody knows anything against, if its check passes.
            let Some(best) = best_of(rivals, &optimism, &Rival::rank_now) else {
                return self.settle_default();
            };
            let choice = self.incumbent.filter(|&incumbent| self.keeps(incumbent, best)).unwrap_or(best);
            let awaited = best_of(rivals, &optimism, &Rival::rank)
                .filter(|&one| one != choice && rivals[one].build.0 > 0);
            // Of a user's kernel nobody knows whether its version tells that it was changed.
            let trusted = rivals[choice].is_measured() && rivals[choice].class != VariantClass::Custom;
            if trusted || self.verify(choice) {
                if self.incumbent == Some(choice) && choice != best {
                    reason = Reason::KeptIncumbent;
                }
                self.record.apply(Event::Settled { rival: choice, reason });
                awaited.into_iter().for_each(|awaited| self.await_build(awaited));
                return Ok(());
            }
            reason = Reason::NextBest;
            let Rival { device, kernel, .. } = self.record.rivals[choice];
            failed.push((device, kernel));
            if failed.iter().filter(|other| **other == (device, kernel)).count() >= MAX_CHECKS {
                self.give_up(device, kernel);
            }
        }
    }

    /// Leaves a kernel out of this decision whose settings fail one after the other: each check takes its time.
    fn give_up(&mut self, device: u16, kernel: KernelId) {
        let its = |rival: &&mut Rival| {
            (rival.device, rival.kernel) == (device, kernel) && rival.is_open() && !rival.is_reference()
        };
        for rival in self.record.rivals.iter_mut().filter(its).filter(|rival| !rival.is_measured()) {
            let why = format!("{MAX_CHECKS} of its kernel's settings failed their checks; not tried now");
            rival.standing = Standing::Quarantined(why);
        }
    }

    /// The first in order of preference that nothing is known against.
    fn settle_default(&mut self) -> Result<(), PlanError> {
        let limit = self.record.terms.constraints.latency_max.filter(|_| self.ask.patience > Patience::Off);
        for index in 0..self.record.rivals.len() {
            let rival = &mut self.record.rivals[index];
            // Whoever could be estimated breaks the limit; a time nobody knows, such as that of a kernel that hung on
            // another problem, does not keep it.
            if let (Some(limit), Standing::Unconsidered) = (limit, &rival.standing) {
                rival.standing = Standing::Excluded(format!("its time is not known, limit {limit}"));
            }
            if rival.standing == Standing::Unconsidered && self.verify(index) {
                let estimate =
                    Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
                self.record.rivals[index].standing = Standing::Estimated { estimate, score: 0.0 };
                self.record.apply(Event::Settled { rival: index, reason: Reason::DefaultOrder });
                return Ok(());
            }
        }
        if self.settle_late() {
            return Ok(());
        }
        if self.relent() {
            self.look_again();
            return self.settle_best(Reason::NextBest);
        }
        Err(no_rival(&self.record))
    }

    /// Where everyone took too long for a race: the first of them, references last. Too slow to race is not too slow to answer.
    fn settle_late(&mut self) -> bool {
        let rivals = self.record.rivals.iter().enumerate();
        let late = rivals.filter(|(_, rival)| {
            let is_out = matches!(rival.standing, Standing::Quarantined(_));
            is_out && self.by.experience.was_late(&self.record.problem, rival) && self.is_there(rival)
        });
        let mut late: Vec<usize> = late.map(|(index, _)| index).collect();
        late.sort_by_key(|&index| self.record.rivals[index].is_reference());
        let Some(index) = late.into_iter().find(|&index| self.verify(index)) else { return false };
        let estimate = Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
        self.record.rivals[index].standing = Standing::Estimated { estimate, score: 0.0 };
        self.record.apply(Event::Settled { rival: index, reason: Reason::NextBest });
        true
    }

    /// Whether the plan in force stays although another has a better score: switching must be worth it.
    fn keeps(&self, incumbent: usize, best: usize) -> bool {
        let score = |rival: usize| {
            let rival = &self.record.rivals[rival];
            rival.score().map(|_| rival.rank_now())
        };
        match (score(incumbent), score(best)) {
            (Some(old), Some(new)) => old - new <= (1.0 + self.by.switch_margin).log2(),
            _ => false,
        }
    }

    /// Checks a rival against the reference; one that fails is put out.
    pub(crate) fn verify(&mut self, rival: usize) -> bool {
        if self.ask.dry {
            return true;
        }
        match self.by.verify(&self.record.problem, &self.record.rivals[rival]) {
            Ok(()) => true,
            Err(failure) => {
                self.record.fail(rival, &failure);
                false
            }
        }
    }

    /// Has models learn what was measured, where that is much.
    fn catch_up(&self) {
        if self.ask.patience > Patience::Off && !self.ask.dry {
            let device = self.record.winner().map_or(0, |winner| winner.device);
            self.by.experience.training.catch_up(device, &self.record.problem);
        }
    }

    /// Writes down what it took and what the choice is expected to lose.
    fn close(mut self) -> Decision {
        let expected_loss = self.expected_loss();
        self.doubts();
        let (spent, evaluations) = (self.budget.spent(), self.budget.evaluated());
        self.record.apply(Event::Closed { spent_ns: spent.0, evaluations, expected_loss });
        self.record
    }
}

pub(crate) fn fact_key(
    device: &dyn Device,
    problem: &Problem,
    rival: &Rival,
    condition: Condition,
) -> FactKey {
    FactKey {
        device: device.facts().fingerprint.0.clone(),
        kernel: rival.name.to_string(),
        version: rival.version.to_string(),
        problem: problem.to_string(),
        point: rival.point_name.clone(),
        condition,
    }
}

pub(crate) fn find_plan(rivals: &[Rival], plan: &Plan) -> Option<usize> {
    rivals.iter().position(|rival| {
        plan.runs(rival) && !matches!(rival.standing, Standing::Declined(_) | Standing::Overruled(_))
    })
}

/// The best score, on equal terms: what was measured on this very problem is believed before what was not, and what follows from a
/// device's rates alone is taken to be as `optimism` of that device says. A reference that was not measured is taken where nobody
/// else can run. Of equal ones the first in order of preference, references last.
fn best_of(rivals: &[Rival], optimism: &[(u16, f64)], score: &dyn Fn(&Rival) -> f64) -> Option<usize> {
    let any_measured = rivals.iter().any(Rival::is_measured);
    let rank = |rival: &Rival| {
        let is_reference = rival.is_reference();
        let Some(Estimate { basis, spread_log2, .. }) = rival.estimate() else {
            return (true, f64::INFINITY, true);
        };
        let doubt = match any_measured && !rival.is_measured() {
            true => (2.0 * spread_log2).max(DOUBT),
            false => 0.0,
        };
        let flattered = optimism.iter().find(|(at, _)| *at == rival.device && basis == Basis::Analytic);
        let score = score(rival) + doubt + flattered.map_or(0.0, |(_, by)| *by);
        (is_reference && !rival.is_measured(), score, is_reference)
    };
    (0..rivals.len())
        .filter(|&index| rivals[index].estimate().is_some())
        .min_by(|&a, &b| rank(&rivals[a]).partial_cmp(&rank(&rivals[b])).unwrap_or(std::cmp::Ordering::Equal))
}

pub(crate) fn measured_best(rivals: &[Rival]) -> Option<usize> {
    (0..rivals.len())
        .filter(|&index| rivals[index].is_measured())
        .min_by(|&a, &b| rivals[a].rank().total_cmp(&rivals[b].rank()))
}

fn no_rival(record: &Decision) -> PlanError {
    let mut reasons: Vec<String> = Vec::new();
    for rival in &record.rivals {
        let reason = format!("{}: {}", rival.name, rival.out_because().unwrap_or_default());
        if !reasons.contains(&reason) && reasons.len() < 12 {
            reasons.push(reason);
        }
    }
    if reasons.is_empty() {
        reasons.push("no device has a kernel for this operation".to_string());
    }
    // Whoever could do it and did not fail is out by a limit, if anyone is.
    let ruled = record.overruled.filter(|why| *why == Why::Kernels);
    let limited = record.rivals.iter().any(|rival| matches!(rival.standing, Standing::Excluded(_)));
    PlanError::NoRival {
        problem: record.problem.to_string(),
        terms: record.terms.to_string(),
        why: if limited { Why::Constraint } else { ruled.unwrap_or(Why::Unsupported) },
        reasons: reasons.join("; "),
    }
}
