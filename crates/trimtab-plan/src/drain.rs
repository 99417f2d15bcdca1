//! What happens in the background: live calls are taken in, wisdom is written, and plans change where calls showed better.

use crate::decide::{Ask, fact_key};
use crate::feedback::Report;
use crate::field;
use crate::goal::SearchGoal;
use crate::live::{Host, Pair, is_open, needs_estimates};
use crate::plan::{Decision, Plan, Rival};
use crate::planner::{Inner, MAX_DECISIONS};
use crate::resize::{Live, Put};
use crate::table::TermsId;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Condition, Nanos, Patience, Problem, Terms};
use trimtab_tune::Progress;
use trimtab_wisdom::{FactKey, Outcome, Stats};

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
        if let Ok(keys) = self.live_keys.lock() {
            for (id, stats) in sums {
                self.live_counts.ran(id, &stats);
                if let Some(witness) = self.witness.get() {
                    witness.ran(id, stats.n, Nanos(stats.sum_ns.round() as u64));
                }
                // The same wisdom gives the same plans in mode `off`: its own calls do not add to it.
                if let Some(key) = keys.get(&id).filter(|_| self.settings.patience > Patience::Off) {
                    self.decider.wisdom.record(key.clone(), Outcome::Timed(stats));
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
            rules: settings.rules.clone(),
            progress,
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

    /// Writes a choice that is not settled for good into wisdom; where asked, only if something is remembered there already.
    pub(crate) fn remember(&self, terms: TermsId, decision: &Decision, only_again: bool) {
        let mut quiet = |_: &Progress| ();
        let ask = self.ask(&decision.problem, terms, self.settings.patience, &mut quiet);
        let Some(winner) = decision.winner() else { return };
        if only_again && !self.decider.has_verdict(&ask) {
            return;
        }
        // The set of rivals is known by its order, and a decision that was explained has another.
        let devices = self.decider.devices.within(&ask.scope);
        let rivals = field::enumerate(&devices, &ask.problem, &ask.terms);
        let same = |rival: &Rival| {
            (rival.device, rival.kernel, rival.point) == (winner.device, winner.kernel, winner.point)
        };
        let Some(chosen) = rivals.iter().position(same) else { return };
        let decision = Decision { rivals, chosen, complete: false, ..decision.clone() };
        self.decider.remember(&decision, &ask);
    }

    /// Keeps the decision behind a plan that was put in force, and under which key its live times are remembered.
    pub(crate) fn keep(&self, problem: &Problem, terms: TermsId, plan: &Plan, decision: Arc<Decision>) {
        if let (Ok(mut keys), Some(winner), true) = (self.live_keys.lock(), decision.winner(), plan.id != 0) {
            let Some(device) = self.decider.devices.get(winner.device) else { return };
            keys.insert(plan.id, fact_key(device.as_ref(), problem, winner, Condition::Live));
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
    fn estimated(&self, decision: &Arc<Decision>, terms: TermsId) -> Option<Arc<Decision>> {
        if !needs_estimates(decision) {
            return Some(Arc::clone(decision));
        }
        let mut quiet = |_: &Progress| ();
        let explained =
            self.decider.explain(&self.ask(&decision.problem, terms, decision.patience, &mut quiet)).ok()?;
        let (reason, complete) = (decision.reason, decision.complete);
        let notes = decision.notes.clone();
        Some(Arc::new(Decision { reason, complete, notes, ..explained }))
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
        decision: Decision,
    ) -> Option<Plan> {
        // A decision that is being made counts more.
        let _guard = self.deciding.try_lock().ok()?;
        let before = self.table.in_force(older).map(|(_, _, plan)| (plan.device, plan.kernel, plan.point));
        let plan = self.table.replace(problem, terms, older, plan)?;
        if before == Some((plan.device, plan.kernel, plan.point)) {
            self.keep(problem, terms, &plan, Arc::new(decision));
            return Some(plan);
        }
        // Where a race that was cut short is remembered, so is what calls found; an estimate is made anew from their times.
        self.remember(terms, &decision, true);
        self.changed(&plan, &decision);
        self.keep(problem, terms, &plan, Arc::new(decision));
        self.live_counts.count(|counts| counts.changed += 1);
        Some(plan)
    }

    fn trying(&self, problem: &Problem, plan: &Plan, rival: &Rival) {
        if let (Ok(mut keys), Some(device)) = (self.live_keys.lock(), self.decider.devices.get(rival.device))
        {
            keys.insert(plan.id, fact_key(device.as_ref(), problem, rival, Condition::Live));
        }
    }

    fn explored(&self, pair: Pair) {
        let Ok(keys) = self.live_keys.lock() else { return };
        for ((id, ns), condition) in [(pair.chosen, Condition::Chosen), (pair.tried, Condition::Explored)] {
            if let Some(key) = keys.get(&id).filter(|_| ns > 0.0) {
                let key = FactKey { condition, ..key.clone() };
                self.decider.wisdom.record(key, Outcome::Timed(Stats::single(ns)));
            }
        }
    }
}
