//! The cold path: from the field of rivals to a decision. Remembered, else raced, else estimated, else the default.

use crate::calibration::Calibration;
use crate::devices::{Devices, Scope};
use crate::experience::{Effort, Experience};
use crate::field;
use crate::goal::{PARTIAL, SearchGoal, found_by, how_found, remembered_as, satisfies};
use crate::guard::with_intent;
use crate::learned::Foreseen;
use crate::plan::{Decision, Plan, Reason, Rival, Standing};
use crate::thresholds::Offload;
use crate::why::Why;
use rustc_hash::FxHashSet;
use std::sync::{Arc, Mutex, RwLock};
use trimtab_core::{
    Basis, Condition, Device, Estimate, Failure, FailureKind, KernelId, Nanos, Patience, Point, Problem,
    Terms, VariantClass,
};
use trimtab_tune::{Budget, Progress, Rules, Stopwatch};
use trimtab_wisdom::{FactKey, Outcome, Verdict, Wisdom};

/// Longest the check of a rival on a small stand-in may take.
const VERIFY_TIMEOUT: Nanos = Nanos::from_millis(50);

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Every kernel declined, was excluded or failed.
    #[error("no kernel can do {problem} under the terms `{terms}`: {reasons}")]
    NoRival {
        /// What was asked.
        problem: String,
        /// Under which terms.
        terms: String,
        /// Whether limits leave nobody of those that could do it, or nobody could.
        why: Why,
        /// Why each is out.
        reasons: String,
    },
    /// More different terms than a planner keeps apart.
    #[error("more than {limit} different terms were asked for; keep and share the handles of those in use")]
    TooManyTerms {
        /// How many it keeps.
        limit: usize,
    },
    /// More devices than a planner takes beside its own.
    #[error("more than {limit} devices have joined; let those leave that are not used any more")]
    TooManyDevices {
        /// How many it takes.
        limit: usize,
    },
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
    pub rules: Rules,
    pub progress: &'a mut dyn FnMut(&Progress),
}

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
    /// What whole calls take on each device, where that was calibrated.
    pub calibration: RwLock<Arc<Calibration>>,
    verified: Mutex<FxHashSet<Verified>>,
}

impl Decider {
    pub(crate) fn new(
        devices: Devices,
        wisdom: Arc<Wisdom>,
        switch_margin: f64,
        offload: Offload,
    ) -> Decider {
        let experience = Experience::default();
        let (calibration, verified) = (RwLock::default(), Mutex::default());
        Decider { devices, wisdom, experience, switch_margin, offload, calibration, verified }
    }

    pub(crate) fn decide(&self, mut ask: Ask<'_>) -> Result<Decision, PlanError> {
        let devices = self.devices.within(&ask.scope);
        if devices.is_empty() {
            return Err(PlanError::NoDevice);
        }
        // A caller in a hurry does not wait for a race.
        let hurried = ask.terms.constraints.latency_max.is_some_and(|latency| latency < ask.budget);
        if hurried && ask.accept_partial {
            ask.patience = ask.patience.min(Patience::Estimate);
        }
        let mut budget = self.budget(&ask);
        let rivals = field::enumerate(&devices, &ask.problem, &ask.terms);
        let mut decision = Decision::new(ask.problem, ask.terms, ask.scope.clone(), rivals, ask.patience);
        self.overrule(&mut decision);
        let signature = self.signature(&decision);
        let verdict = self.verdict(&ask);
        let remembered = verdict.as_ref().and_then(|verdict| self.find(&decision.rivals, verdict));
        // A verdict counts as long as the set of rivals is the same; in mode `off` as long as its winner exists.
        if let (Some(verdict), Some(index)) = (&verdict, remembered) {
            let enough = satisfies(verdict, ask.patience, ask.session, ask.accept_partial, &ask.goal);
            let same = verdict.candidates == signature && enough;
            if same || ask.patience <= Patience::Estimate {
                self.measured_only(&mut decision, &ask, index);
                if decision.rivals[index].estimate().is_some() {
                    decision.chosen = index;
                    decision.reason = Reason::Remembered;
                    decision.complete = !verdict.patience.starts_with(PARTIAL);
                    decision.notes.extend(how_found(verdict));
                    decision.ended_by = found_by(verdict).unwrap_or_default();
                    self.expect_loss(&mut decision, ask.rules.indifference);
                    decision.spent = budget.spent();
                    return Ok(decision);
                }
            }
        }
        let with_model = ask.patience > Patience::Off;
        let effort = match (with_model, ask.accept_partial) {
            (false, _) => Effort::Facts,
            (true, true) => Effort::Model,
            (true, false) => Effort::Tune,
        };
        // Where others are measured first, a device is estimated when its turn comes: perhaps it cannot win any more.
        match ask.patience {
            Patience::Off | Patience::Estimate => self.estimate(&mut decision, effort),
            Patience::Measure | Patience::Exhaustive => {
                let first = self.device_order(&ask.scope).first().copied().unwrap_or(0);
                self.estimate_device(&mut decision, first, effort);
            }
        }
        if with_model {
            // Rates and transfers are measured once per process at most: the machine's cost, not this problem's.
            budget = self.budget(&ask);
        }
        let incumbent =
            remembered.or_else(|| ask.in_force.and_then(|plan| find_plan(&decision.rivals, &plan)));
        let indifference = ask.rules.indifference;
        let outcome = match ask.patience {
            // A verdict that does not count any more was challenged by something new: that is measured.
            Patience::Estimate | Patience::Measure
                if verdict.is_none() && self.settle_learned(&mut decision, &ask) =>
            {
                Ok(())
            }
            Patience::Off => self.settle_off(&mut decision),
            Patience::Estimate => self.settle(&mut decision, incumbent, Reason::Estimated),
            Patience::Measure | Patience::Exhaustive => self.measure(&mut decision, ask, incumbent, &budget),
        };
        decision.spent = budget.spent();
        decision.evaluations = budget.evaluated();
        if with_model {
            let device = decision.winner().map_or(0, |winner| winner.device);
            self.experience.training.catch_up(device, &decision.problem);
        }
        outcome.map(|()| {
            self.expect_loss(&mut decision, indifference);
            decision
        })
    }

    /// What a decision may cost. On recordings only reported time counts, so that it is the same on every machine.
    fn budget(&self, ask: &Ask<'_>) -> Budget {
        let devices = self.devices.within(&ask.scope);
        let recorded = devices.iter().all(|(_, device)| device.facts().habits.recorded);
        let budget = if recorded { Budget::recorded(ask.budget) } else { Budget::time(ask.budget) };
        budget
            .evaluations(ask.goal.evals.unwrap_or(u32::MAX))
            .good_enough(ask.goal.good_enough.unwrap_or(0.0))
    }

    /// The full record of what is known about a problem; nothing is run. The plan in force stays the chosen one, else
    /// what is remembered, else the best estimate.
    pub(crate) fn explain(&self, ask: &Ask<'_>) -> Result<Decision, PlanError> {
        let stopwatch = Stopwatch::start();
        let (mut decision, verdict, learned) = self.look(ask)?;
        let chosen = decision.chosen;
        if let Some(verdict) = &verdict
            && (decision.reason != Reason::Remembered || verdict.candidates != self.signature(&decision))
        {
            let note = "the set of rivals has changed since this was decided; the next call measures again";
            decision.notes.push(note.to_string());
        }
        // A plan in force brings the notes of its own decision.
        decision.notes.extend(verdict.as_ref().filter(|_| ask.in_force.is_none()).and_then(how_found));
        decision.complete = verdict.is_some_and(|verdict| !verdict.patience.starts_with(PARTIAL));
        let same = |learned: &Foreseen| learned.choice == chosen;
        decision.expected_loss = learned.filter(same).map(|learned| learned.loss);
        self.expect_loss(&mut decision, ask.rules.indifference);
        self.explain_learned(&mut decision);
        decision.spent = stopwatch.elapsed();
        sort(&mut decision);
        Ok(decision)
    }

    /// What a call is expected to take. Nothing is run.
    pub(crate) fn expected(&self, ask: &Ask<'_>) -> Result<Estimate, PlanError> {
        let unknown = Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
        let (decision, ..) = self.look(ask)?;
        Ok(decision.winner().and_then(Rival::estimate).unwrap_or(unknown))
    }

    /// What there is to choose from, and what a call would choose.
    fn look(&self, ask: &Ask<'_>) -> Result<(Decision, Option<Verdict>, Option<Foreseen>), PlanError> {
        let devices = self.devices.within(&ask.scope);
        if devices.is_empty() {
            return Err(PlanError::NoDevice);
        }
        let rivals = field::enumerate(&devices, &ask.problem, &ask.terms);
        let mut decision = Decision::new(ask.problem, ask.terms, ask.scope.clone(), rivals, ask.patience);
        self.overrule(&mut decision);
        self.estimate(&mut decision, Effort::Model);
        let verdict = self.verdict(ask);
        let remembered = verdict.as_ref().and_then(|verdict| self.find(&decision.rivals, verdict));
        let in_force = ask.in_force.and_then(|plan| find_plan(&decision.rivals, &plan));
        // Of kernels that say nothing about their work (or have none to do) the first nobody knows anything against.
        let open = |rival: &Rival| rival.estimate().is_some() || rival.standing == Standing::Unconsidered;
        let first = |decision: &Decision| {
            match ask.patience {
                Patience::Off => measured_best(&decision.rivals),
                _ => best(&decision.rivals),
            }
            .or_else(|| decision.rivals.iter().position(open))
        };
        let learned = if verdict.is_none() { self.foresee(&mut decision, ask) } else { None };
        let learned_choice = learned.as_ref().filter(|learned| learned.enough).map(|learned| learned.choice);
        let Some(chosen) = in_force.or(remembered).or(learned_choice).or_else(|| first(&decision)) else {
            return Err(no_rival(&decision));
        };
        decision.chosen = chosen;
        decision.reason = match ask.patience {
            _ if remembered == Some(chosen) => Reason::Remembered,
            Patience::Off if !is_measured(&decision.rivals[chosen]) => Reason::DefaultOrder,
            _ if decision.rivals[chosen].estimate().is_none() => Reason::DefaultOrder,
            _ if learned_choice == Some(chosen) => Reason::Learned,
            _ => Reason::Estimated,
        };
        Ok((decision, verdict, learned))
    }

    /// Forgets a device that left.
    pub(crate) fn leave(&self, device: u16) {
        self.experience.leave(device);
        if let Ok(mut verified) = self.verified.lock() {
            verified.retain(|key| key.0 != device);
        }
    }

    /// The rival a verdict names.
    fn find(&self, rivals: &[Rival], verdict: &Verdict) -> Option<usize> {
        let on = |rival: &Rival| {
            let device = self.devices.get(rival.device);
            verdict.on.is_empty() || device.is_some_and(|device| device.facts().fingerprint.0 == verdict.on)
        };
        rivals.iter().position(|rival| {
            *rival.name == *verdict.kernel
                && *rival.version.0 == *verdict.version
                && *rival.point_name == *verdict.point
                && on(rival)
                && !is_barred(rival)
        })
    }

    fn signature(&self, decision: &Decision) -> u64 {
        let Decision { scope, problem, rivals, .. } = decision;
        self.experience.signature(&self.devices, scope, &self.wisdom, problem, rivals)
    }

    /// Whether something is remembered of the race for this.
    pub(crate) fn has_verdict(&self, ask: &Ask<'_>) -> bool {
        self.verdict(ask).is_some()
    }

    fn verdict(&self, ask: &Ask<'_>) -> Option<Verdict> {
        let machine = self.devices.machine(&ask.scope);
        self.wisdom.verdict(&machine, &ask.problem.to_string(), &ask.terms.to_string())
    }

    /// Looks up what is measured of one rival; the others stay unconsidered. Cheap: no model, no rates.
    fn measured_only(&self, decision: &mut Decision, ask: &Ask<'_>, index: usize) {
        let one = &mut decision.rivals[index..=index];
        if ask.terms.constraints.latency_max.is_some() {
            one[0].transfer = self.transfer(&ask.scope, one[0].device, &ask.problem);
        }
        self.experience.estimate(&self.devices, &self.wisdom, &ask.problem, &ask.terms, one, Effort::Facts);
    }

    /// Mode `off`: the best of what was measured here, else the first in order of preference.
    fn settle_off(&self, decision: &mut Decision) -> Result<(), PlanError> {
        if decision.rivals.iter().any(|rival| rival.estimate().is_some()) {
            return self.settle(decision, None, Reason::Remembered);
        }
        self.settle_default(decision)
    }

    /// The first in order of preference that nothing is known against.
    fn settle_default(&self, decision: &mut Decision) -> Result<(), PlanError> {
        let limit = decision.terms.constraints.latency_max.filter(|_| decision.patience > Patience::Off);
        for index in 0..decision.rivals.len() {
            // Whoever could be estimated breaks the limit; a time nobody knows, such as that of a kernel that hung on
            // another problem, does not keep it.
            if let (Some(limit), Standing::Unconsidered) = (limit, &decision.rivals[index].standing) {
                decision.rivals[index].standing =
                    Standing::Excluded(format!("its time is not known, limit {limit}"));
            }
            let open = decision.rivals[index].standing == Standing::Unconsidered;
            if open && self.verify(decision, index) {
                let estimate =
                    Estimate { time: Nanos(0), spread_log2: f64::INFINITY, basis: Basis::Analytic };
                decision.rivals[index].standing = Standing::Estimated { estimate, score: 0.0 };
                decision.chosen = index;
                decision.reason = Reason::DefaultOrder;
                return Ok(());
            }
        }
        Err(no_rival(decision))
    }

    /// Takes the best score; whoever was never measured on this device is checked against the reference first.
    pub(crate) fn settle(
        &self,
        decision: &mut Decision,
        incumbent: Option<usize>,
        reason: Reason,
    ) -> Result<(), PlanError> {
        decision.reason = reason;
        loop {
            // Nobody has an estimate: the first nobody knows anything against, if its check passes.
            let Some(best) = best(&decision.rivals) else { return self.settle_default(decision) };
            let choice = match incumbent {
                Some(incumbent) if self.keeps(&decision.rivals, incumbent, best) => incumbent,
                _ => best,
            };
            let measured = matches!(
                decision.rivals[choice].estimate(),
                Some(Estimate { basis: Basis::Measured(_), .. })
            );
            if measured || self.verify(decision, choice) {
                if incumbent == Some(choice) && choice != best {
                    decision.reason = Reason::KeptIncumbent;
                }
                decision.chosen = choice;
                return Ok(());
            }
            decision.reason = Reason::NextBest;
        }
    }

    /// Whether the plan in force stays although another has a better score: switching must be worth it.
    fn keeps(&self, rivals: &[Rival], incumbent: usize, best: usize) -> bool {
        match (rivals.get(incumbent).and_then(Rival::score), rivals[best].score()) {
            (Some(old), Some(new)) => old - new <= (1.0 + self.switch_margin).log2(),
            _ => false,
        }
    }

    /// Checks a rival on a small stand-in; one that fails is put out and remembered as failed.
    pub(crate) fn verify(&self, decision: &mut Decision, index: usize) -> bool {
        let problem = decision.problem;
        let rival = &mut decision.rivals[index];
        let key = (rival.device, rival.kernel, rival.point, field::family_of(&problem));
        if self.verified.lock().is_ok_and(|verified| verified.contains(&key)) {
            return true;
        }
        let Some(device) = self.devices.get(rival.device) else { return false };
        let outcome = with_intent(&self.wisdom, device.as_ref(), rival, || {
            device.verify(rival.kernel, &problem, &rival.point, VERIFY_TIMEOUT)
        });
        match outcome {
            Ok(()) => {
                if let Ok(mut verified) = self.verified.lock() {
                    verified.insert(key);
                }
                true
            }
            Err(failure) => {
                self.record_failure(&problem, rival, &failure);
                rival.standing = Standing::Quarantined(failure.to_string());
                false
            }
        }
    }

    pub(crate) fn record_failure(&self, problem: &Problem, rival: &Rival, failure: &Failure) {
        match failure.kind {
            FailureKind::Wrong => {
                self.experience.note_lie(rival, format!("wrong result on {problem}: {}", failure.message));
            }
            FailureKind::TimedOut => self.experience.note_hang(rival.device, rival.kernel),
            FailureKind::Untried => return,
            _ => self.experience.note_failure(problem, rival, failure.to_string()),
        }
        let Some(device) = self.devices.get(rival.device) else { return };
        let outcome = Outcome::Failed { kind: failure.kind, message: failure.message.clone() };
        self.wisdom.record(fact_key(device.as_ref(), problem, rival, Condition::Quiet), outcome);
    }

    pub(crate) fn remember(&self, decision: &Decision, ask: &Ask<'_>) {
        let Some(winner) = decision.winner() else { return };
        let ended_by = Some(decision.ended_by).filter(|ended_by| *ended_by != SearchGoal::default());
        let patience = remembered_as(decision.complete, ask.patience, ask.session, ended_by);
        self.wisdom.decide(Verdict {
            device: self.devices.machine(&decision.scope),
            problem: ask.problem.to_string(),
            terms: ask.terms.to_string(),
            kernel: winner.name.to_string(),
            version: winner.version.to_string(),
            point: winner.point_name.clone(),
            patience,
            // After the race: whoever failed in it is out, and challenges the verdict when that is forgotten.
            candidates: self.signature(decision),
            on: self
                .devices
                .get(winner.device)
                .filter(|_| !decision.scope.is_alone())
                .map_or_else(String::new, |device| device.facts().fingerprint.0.clone()),
            origin: String::new(),
            last_seen_ms: 0,
        });
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

fn find_plan(rivals: &[Rival], plan: &Plan) -> Option<usize> {
    rivals.iter().position(|rival| {
        rival.device == plan.device
            && rival.kernel == plan.kernel
            && rival.point == plan.point
            && !matches!(rival.standing, Standing::Declined(_) | Standing::Overruled(_))
    })
}

/// Whether a rival is out whatever its time.
pub(crate) fn is_barred(rival: &Rival) -> bool {
    matches!(rival.standing, Standing::Declined(_) | Standing::Excluded(_) | Standing::Overruled(_))
}

/// The score for comparisons: rivals out of the running come last.
pub(crate) fn total(rival: &Rival) -> f64 {
    rival.score().unwrap_or(f64::INFINITY)
}

pub(crate) fn is_measured(rival: &Rival) -> bool {
    matches!(rival.estimate(), Some(Estimate { basis: Basis::Measured(_), .. }))
}

/// The best score; of equal ones the first in order of preference, references last.
fn best(rivals: &[Rival]) -> Option<usize> {
    let rank = |rival: &Rival| (total(rival), rival.class == VariantClass::Reference);
    (0..rivals.len())
        .filter(|&index| rivals[index].estimate().is_some())
        .min_by(|&a, &b| rank(&rivals[a]).partial_cmp(&rank(&rivals[b])).unwrap_or(std::cmp::Ordering::Equal))
}

pub(crate) fn measured_best(rivals: &[Rival]) -> Option<usize> {
    (0..rivals.len())
        .filter(|&index| is_measured(&rivals[index]))
        .min_by(|&a, &b| total(&rivals[a]).total_cmp(&total(&rivals[b])))
}

/// Best first, then those out of the running; the chosen one keeps being chosen.
pub(crate) fn sort(decision: &mut Decision) {
    let mut order: Vec<usize> = (0..decision.rivals.len()).collect();
    order.sort_by(|&a, &b| total(&decision.rivals[a]).total_cmp(&total(&decision.rivals[b])));
    decision.chosen = order.iter().position(|&index| index == decision.chosen).unwrap_or(0);
    let mut rivals: Vec<Option<Rival>> = std::mem::take(&mut decision.rivals).into_iter().map(Some).collect();
    decision.rivals = order.into_iter().filter_map(|index| rivals[index].take()).collect();
}

pub(crate) fn no_rival(decision: &Decision) -> PlanError {
    let mut reasons: Vec<String> = Vec::new();
    for rival in &decision.rivals {
        let reason = format!("{}: {}", rival.name, rival.out_because().unwrap_or_default());
        if !reasons.contains(&reason) && reasons.len() < 12 {
            reasons.push(reason);
        }
    }
    if reasons.is_empty() {
        reasons.push("no device has a kernel for this operation".to_string());
    }
    // Whoever could do it and did not fail is out by a limit, if anyone is.
    let limited = decision.rivals.iter().any(|rival| matches!(rival.standing, Standing::Excluded(_)));
    PlanError::NoRival {
        problem: decision.problem.to_string(),
        terms: decision.terms.to_string(),
        why: if limited { Why::Constraint } else { Why::Unsupported },
        reasons: reasons.join("; "),
    }
}
