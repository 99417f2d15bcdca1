//! What is in force: putting a plan there, and putting out one that failed.

use crate::decide::PlanError;
use crate::plan::Plan;
use crate::planner::Inner;
use crate::record::Decision;
use crate::resize::{Live, is_resizable};
use crate::table::TermsId;
use crate::why::Why;
use std::sync::Arc;
use trimtab_core::{Failure, Patience, Problem};
use trimtab_tune::Progress;

impl Inner {
    /// The plan in force, also if it came after the table of known plans was full.
    pub(crate) fn in_force(&self, problem: &Problem, terms: TermsId) -> Option<Plan> {
        let known = self.table.get(problem, terms).map(|(_, plan)| *plan);
        known.or_else(|| self.table.get_overflow(problem, terms))
    }

    /// Puts the plan of a decision in force.
    pub(crate) fn publish(
        self: &Arc<Inner>,
        problem: &Problem,
        terms: TermsId,
        decision: &Arc<Decision>,
    ) -> Result<Plan, PlanError> {
        let plan = decision.plan().ok_or_else(|| no_plan(problem))?;
        let wanted = self.settings.live_resize && self.settings.patience > Patience::Off;
        let resized = wanted && is_resizable(decision) && !self.table.is_crowded();
        let live = if resized { Live::new(&self.decider.devices, terms, decision) } else { None };
        let plan = live.as_ref().map_or(plan, Live::plan);
        let plan = match (plan.device as usize) < self.decider.devices.own().len() {
            true => self.table.publish(problem, terms, plan),
            false => self.table.publish_joined(problem, terms, plan),
        };
        self.decider.built(plan.device, plan.kernel, &plan.point);
        self.keep(problem, terms, &plan, Arc::clone(decision));
        self.open(terms, decision, plan);
        if let Some(live) = live {
            self.resizes.begin(live.numbered(plan));
            self.feedback.await_reports(self.feedback.awaited(), plan.id);
        }
        self.settle_later(problem, terms, decision);
        Ok(plan)
    }

    /// A plan failed: it is quarantined, and the next best is put in force.
    pub(crate) fn put_out(
        self: &Arc<Inner>,
        problem: &Problem,
        terms: TermsId,
        plan: &Plan,
        failure: &Failure,
    ) -> Result<Plan, PlanError> {
        self.live_counts.count(|counts| counts.failed += 1);
        let record = self.record(problem, terms)?;
        if let Some(rival) = record.rivals.iter().find(|rival| plan.runs(rival)) {
            self.decider.record_failure(problem, rival, failure);
            let device = self.decider.devices.get(rival.device);
            let is_host = device.is_some_and(|device| device.facts().habits.host_memory);
            self.decider.experience.bans.failed(rival, is_host, &failure.to_string());
        }
        // Not the one in force, but one that was tried: that in force answers.
        if let Some(now) = self.in_force(problem, terms)
            && (now.device, now.kernel, now.point) != (plan.device, plan.kernel, plan.point)
        {
            self.explores.failed(plan.id);
            return Ok(now);
        }
        let next = self.next_best(problem, terms, plan, failure, &record);
        if next.is_err() {
            // Nobody takes its place, but it does not stay either.
            self.table.clear(|other| other.id == plan.id);
        }
        next
    }

    fn next_best(
        self: &Arc<Inner>,
        problem: &Problem,
        terms: TermsId,
        plan: &Plan,
        failure: &Failure,
        record: &Decision,
    ) -> Result<Plan, PlanError> {
        let mut quiet = |_: &Progress| ();
        let ask = self.ask(problem, terms, Patience::Estimate, &mut quiet);
        let decision = self.decider.next_best(record, ask, plan, failure)?;
        // The reference is never quarantined; when it fails too, that is the answer.
        if decision.winner().is_some_and(|next| plan.runs(next)) {
            return Err(PlanError::NoRival {
                problem: problem.to_string(),
                terms: decision.terms.to_string(),
                why: Why::Unsupported,
                reasons: format!("the reference failed too: {}", failure.message),
            });
        }
        self.publish(problem, terms, &Arc::new(decision))
    }
}

pub(crate) fn no_plan(problem: &Problem) -> PlanError {
    PlanError::NoRival {
        problem: problem.to_string(),
        terms: String::new(),
        why: Why::Unsupported,
        reasons: "no plan was made".to_string(),
    }
}
