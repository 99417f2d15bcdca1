//! What happens in the background: live calls are taken in, wisdom is written, and plans change where calls showed better.

use crate::decide::{Ask, PlanError, fact_key};
use crate::devices::Devices;
use crate::event::Event;
use crate::feedback::Report;
use crate::goal::SearchGoal;
use crate::live::{Host, Pair, is_open};
use crate::plan::{Plan, Rival};
use crate::planner::{Inner, MAX_DECISIONS};
use crate::record::Decision;
use crate::resize::{Live, Put};
use crate::table::TermsId;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Condition, KernelVersion, Nanos, Patience, Problem, Terms};
use trimtab_tune::Progress;
use trimtab_wisdom::{FactKey, Outcome, Stats};

/// What live times of a plan are remembered under. There is one for every plan in force, so what others hold already is not held again: a key
/// of wisdom has five texts of its own, of which this has one.
pub(crate) struct LiveKey {
    problem: Problem,
    device: u16,
    name: Arc<str>,
    version: KernelVersion,
    point: Box<str>,
}

impl LiveKey {
    fn of(problem: &Problem, rival: &Rival) -> LiveKey {
        let Rival { device, name, version, point_name, .. } = rival;
        let (name, version, point) = (Arc::clone(name), version.clone(), point_name.as_str().into());
        LiveKey { problem: *problem, device: *device, name, version, point }
    }

    /// As wisdom has it; `None` if the device left.
    fn with(&self, condition: Condition, devices: &Devices) -> Option<FactKey> {
        Some(FactKey {
            device: devices.get(self.device)?.facts().fingerprint.0.clone(),
            kernel: self.name.to_string(),
            version: self.version.to_string(),
            problem: self.problem.to_string(),
            point: self.point.to_string(),
            condition,
        })
    }
}

impl Inner {
    pub(crate) fn drain(&self) {
        self.take_in();
        self.decider.wisdom.flush();
    }

    /// Takes in what live calls reported.
    pub(crate) fn take_in(&self) {
        let mut sums: FxHashMap<u32, Stats> = FxHashMap::default();
        let mut reports = Vec::new();
        while let Some(report) = self.feedback.take() {
            let one = Stats::single(report.elapsed_ns as f64);
            sums.entry(report.plan_id).and_modify(|sum| *sum = sum.merge(&one)).or_insert(one);
            reports.push(report);
        }
        if !reports.is_empty() {
            self.settling.called();
        }
        if let Ok(keys) = self.live_keys.lock() {
            for (id, stats) in sums {
                self.live_counts.ran(id, &stats);
                if let Some(witness) = self.witness.get() {
                    witness.ran(id, stats.n, Nanos(stats.sum_ns.round() as u64));
                }
                // The same wisdom gives the same plans in mode `off`: its own calls do not add to it.
                let key = keys.get(&id).filter(|_| self.settings.patience > Patience::Off);
                if let Some(key) = key.and_then(|key| key.with(Condition::Live, &self.decider.devices)) {
                    self.decider.wisdom.record(key, Outcome::Timed(stats));
                }
            }
        }
        if self.settings.live_resize && !self.stop.load(Ordering::Acquire) {
            self.resize(&reports);
        }
        if self.settings.patience < Patience::Measure || self.stop.load(Ordering::Acquire) {
            return;
        }
        let mut calls: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
        for report in &reports {
            calls.entry(report.plan_id).or_default().push(report.elapsed_ns);
        }
        if self.explores() {
            let next = self.explores.step(&calls, &self.decider, &self.table, self);
            self.feedback.await_reports(0, next);
        }
        if self.settings.watch {
            self.watch(&calls);
        }
    }

    pub(crate) fn explores(&self) -> bool {
        self.settings.explore && self.settings.patience >= Patience::Measure
    }

    /// Whether the chosen device lets live calls try others.
    pub(crate) fn may_explore(&self, decision: &Decision) -> bool {
        let device = decision.winner().and_then(|winner| self.decider.devices.get(winner.device));
        device.is_some_and(|device| device.facts().habits.explored_live)
    }

    /// Explores a decision whose plan was put in force, if it leaves something to be found out.
    pub(crate) fn open(&self, terms: TermsId, decision: &Arc<Decision>, plan: Plan) {
        if self.explores() && is_open(decision) && self.may_explore(decision) {
            self.explores.begin(terms, decision, plan);
        }
    }

    /// The terms behind a handle, and the device it is about if it is about one.
    pub(crate) fn given(&self, terms: TermsId) -> (Terms, Option<u16>) {
        let known = self.terms.lock().ok();
        known.and_then(|known| known.get(terms.0 as usize).copied()).unwrap_or_default()
    }

    pub(crate) fn ask<'a>(
        &self,
        problem: &Problem,
        terms: TermsId,
        patience: Patience,
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Ask<'a> {
        let settings = &self.settings;
        let in_force = self.table.get(problem, terms).map(|(_, plan)| *plan);
        let (given, on) = self.given(terms);
        Ask {
            problem: *problem,
            terms: given,
            scope: self.decider.devices.scope(on),
            patience,
            budget: settings.budget,
            session: Nanos(0),
            accept_partial: true,
            goal: SearchGoal {
                strategy: settings.strategy.filter(|_| patience == Patience::Measure),
                ..SearchGoal::default()
            },
            in_force: in_force.or_else(|| self.table.get_overflow(problem, terms)),
            behind: None,
            defers: settings.settle && patience > Patience::Off,
            dry: false,
            rules: settings.rules.clone(),
            progress,
        }
    }

    /// Makes a decision; the record says too whether live calls will find out more.
    pub(crate) fn decide<'a>(&'a self, ask: Ask<'a>) -> Result<Decision, PlanError> {
        let mut decision = self.decider.decide(ask)?;
        let device = decision.winner().and_then(|winner| self.decider.devices.get(winner.device));
        let builds = device.is_some_and(|device| device.facts().habits.first_launch_compiles);
        if builds && self.explores() && is_open(&decision) && !self.may_explore(&decision) {
            decision.apply(Event::NotExplored);
        }
        Ok(decision)
    }

    /// The record behind the plan in force, if it is kept.
    pub(crate) fn kept(&self, problem: &Problem, terms: TermsId) -> Option<Arc<Decision>> {
        self.decisions.lock().ok()?.0.get(&(*problem, terms)).cloned()
    }

    /// The record of the plan in force; without one, what a call would begin with.
    pub(crate) fn record(&self, problem: &Problem, terms: TermsId) -> Result<Arc<Decision>, PlanError> {
        match self.kept(problem, terms) {
            Some(kept) => Ok(kept),
            None => self.foresee(problem, terms).map(Arc::new),
        }
    }

    /// What a call would begin with. Nothing is run.
    pub(crate) fn foresee(&self, problem: &Problem, terms: TermsId) -> Result<Decision, PlanError> {
        let mut quiet = |_: &Progress| ();
        let ask = self.ask(problem, terms, self.settings.patience, &mut quiet);
        self.decide(Ask { dry: true, ..ask })
    }

    /// A record as its rivals stand now.
    pub(crate) fn survey(&self, decision: &Decision) -> Decision {
        let mut quiet = |_: &Progress| ();
        let Decision { problem, terms, scope, patience, .. } = decision;
        let ask = self.ask(problem, TermsId::default(), *patience, &mut quiet);
        let (terms, scope) = (*terms, scope.clone());
        self.decider.survey(decision, Ask { terms, scope, in_force: None, dry: true, ..ask })
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
            let decision = Arc::new(decision);
            self.open(terms, &decision, plan);
            self.changed(&plan, &decision);
            self.keep(problem, terms, &plan, decision);
            Put::Done(plan)
        };
        let awaited = self.feedback.awaited();
        let next = self.resizes.step(reports, &self.decider, &is_in_force, &put, awaited);
        self.feedback.await_reports(awaited, next);
    }

    /// Tells that another plan is in force.
    pub(crate) fn changed(&self, plan: &Plan, decision: &Decision) {
        if let Some(witness) = self.witness.get() {
            witness.changed(plan, decision);
        }
    }

    /// Keeps the decision behind a plan that was put in force, and under which key its live times are remembered.
    pub(crate) fn keep(&self, problem: &Problem, terms: TermsId, plan: &Plan, decision: Arc<Decision>) {
        if let (Ok(mut keys), Some(winner), true) = (self.live_keys.lock(), decision.winner(), plan.id != 0) {
            let Some(device) = self.decider.devices.get(winner.device) else { return };
            keys.insert(plan.id, LiveKey::of(problem, winner));
            if let Some(estimate) = winner.estimate() {
                self.live_counts.expects(plan.id, estimate);
            }
            if self.settings.watch && self.settings.patience >= Patience::Measure {
                let key = fact_key(device.as_ref(), problem, winner, Condition::Live);
                let facts = self.decider.wisdom.facts(&key.device, &key.problem);
                let live = facts.iter().find(|fact| fact.key == key).and_then(|fact| fact.outcome.stats());
                live.into_iter().for_each(|live| self.drifts.knows(plan.id, live));
            }
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

impl Host for Inner {
    fn estimated(&self, decision: &Arc<Decision>) -> Arc<Decision> {
        match decision.is_narrow() {
            true => Arc::new(self.survey(decision)),
            false => Arc::clone(decision),
        }
    }

    fn is_busy(&self, plan: &Plan) -> bool {
        self.resizes.works_on(plan.id)
    }

    fn replace(
        &self,
        problem: &Problem,
        terms: TermsId,
        older: u32,
        plan: Plan,
        decision: Option<&Arc<Decision>>,
    ) -> Option<Plan> {
        // A decision that is being made counts more.
        let _guard = self.deciding.try_lock().ok()?;
        let plan = self.table.replace(problem, terms, older, plan)?;
        let Some(decision) = decision else {
            self.keep(problem, terms, &plan, self.record(problem, terms).ok()?);
            return Some(plan);
        };
        // Where a race that was cut short is remembered, so is what calls found; an estimate is made anew from their times.
        if self.decider.verdict(decision).is_some() {
            self.decider.remember(decision, Nanos(0));
        }
        self.changed(&plan, decision);
        self.keep(problem, terms, &plan, Arc::clone(decision));
        self.live_counts.count(|counts| counts.changed += 1);
        Some(plan)
    }

    fn trying(&self, problem: &Problem, plan: &Plan, rival: &Rival) {
        if let Ok(mut keys) = self.live_keys.lock() {
            keys.insert(plan.id, LiveKey::of(problem, rival));
        }
    }

    fn explored(&self, pair: Pair) {
        let Ok(keys) = self.live_keys.lock() else { return };
        for ((id, ns), condition) in [(pair.chosen, Condition::Chosen), (pair.tried, Condition::Explored)] {
            let key = keys.get(&id).filter(|_| ns > 0.0);
            if let Some(key) = key.and_then(|key| key.with(condition, &self.decider.devices)) {
                self.decider.wisdom.record(key, Outcome::Timed(Stats::single(ns)));
            }
        }
    }
}
