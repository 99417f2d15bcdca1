//! The cold path: from the field of rivals to a decision. Remembered, else raced, else estimated, else the default.

use crate::experience::{Effort, Experience};
use crate::field::{self, Field};
use crate::guard::{Guarded, with_intent};
use crate::plan::{Decision, Plan, Reason, Rival, Standing};
use rustc_hash::FxHashSet;
use std::sync::{Arc, Mutex};
use trimtab_core::{
    Basis, Device, Estimate, Failure, FailureKind, KernelId, Nanos, Patience, Point, Problem, Terms,
    VariantClass,
};
use trimtab_tune::{Budget, Candidate, Progress, RaceReport, Rules, StopReason, Stopwatch, race};
use trimtab_wisdom::{FactKey, Outcome, Stats, Verdict, Wisdom};

/// Points of one kernel raced in the first round, where kernels are compared.
const FIRST_ROUND_POINTS: usize = 3;
/// Kernels within this factor of the first round's best race with all their points in the second.
const SECOND_ROUND_FACTOR: f64 = 1.6;
/// Most points of one kernel in the second round.
const SECOND_ROUND_POINTS: usize = 48;
/// Runs of the best rival a foreground budget must allow for a race to be worth starting.
const MIN_RUNS: u64 = 8;
/// Longest a candidate may run in a race, whatever the budget.
const TIMEOUT_MAX: Nanos = Nanos::from_millis(5_000);
/// Longest the check of a rival on a small stand-in may take.
const VERIFY_TIMEOUT: Nanos = Nanos::from_millis(50);
/// How many times slower than others a kernel's default point may look and still be tried.
const DEFAULT_LENIENCE: u64 = 5;
/// Samples of every rival still racing that make a race complete although the budget ended it.
const ENOUGH_SAMPLES: usize = 3;
/// The patience recorded with a verdict when the budget ended the race.
pub(crate) const PARTIAL: &str = "partial";

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
        /// Why each is out.
        reasons: String,
    },
    /// The planner has no devices.
    #[error("there is no device to plan for; do not exclude every device")]
    NoDevice,
}

/// What a decision is made for.
pub(crate) struct Ask<'a> {
    pub problem: Problem,
    pub terms: Terms,
    pub patience: Patience,
    pub budget: Nanos,
    /// Whether a race the budget ended earlier is good enough.
    pub accept_partial: bool,
    /// The plan in force, if any.
    pub in_force: Option<Plan>,
    pub rules: Rules,
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// A kernel at a point that agreed with the reference on problems of a sort.
type Verified = (u16, KernelId, Point, String);

/// What decisions are made with; everything here outlives a single decision.
pub(crate) struct Cold {
    pub devices: Vec<Arc<dyn Device>>,
    pub wisdom: Arc<Wisdom>,
    pub experience: Experience,
    pub switch_margin: f64,
    verified: Mutex<FxHashSet<Verified>>,
}

impl Cold {
    pub(crate) fn new(devices: Vec<Arc<dyn Device>>, wisdom: Arc<Wisdom>, switch_margin: f64) -> Cold {
        let experience = Experience::default();
        Cold { devices, wisdom, experience, switch_margin, verified: Mutex::default() }
    }

    pub(crate) fn decide(&self, ask: Ask<'_>) -> Result<Decision, PlanError> {
        if self.devices.is_empty() {
            return Err(PlanError::NoDevice);
        }
        let mut budget = Budget::time(ask.budget);
        let Field { rivals, signature } = field::enumerate(&self.devices, &ask.problem, &ask.terms);
        let mut decision = Decision::new(ask.problem, ask.terms, rivals, ask.patience);
        let verdict = self.verdict(&ask);
        let remembered = verdict.as_ref().and_then(|verdict| find(&decision.rivals, verdict));
        // A verdict counts as long as the set of rivals is the same; in mode `off` as long as its winner exists.
        if let (Some(verdict), Some(index)) = (&verdict, remembered) {
            let same = verdict.candidates == signature && satisfies(verdict, &ask);
            if same || ask.patience <= Patience::Estimate {
                self.measured_only(&mut decision, &ask, index);
                if decision.rivals[index].estimate().is_some() {
                    decision.chosen = index;
                    decision.reason = Reason::Remembered;
                    decision.complete = verdict.patience != PARTIAL;
                    decision.spent = budget.spent();
                    return Ok(decision);
                }
            }
        }
        let with_model = ask.patience > Patience::Off;
        if with_model {
            // Measured once per process at most, 5 to 15 ms: the machine's cost, not this problem's.
            for device in &self.devices {
                device.rates();
            }
            budget = Budget::time(ask.budget);
        }
        self.experience.estimate(
            &self.devices,
            &self.wisdom,
            &ask.problem,
            &ask.terms,
            &mut decision.rivals,
            match (with_model, ask.accept_partial) {
                (false, _) => Effort::Facts,
                (true, true) => Effort::Model,
                (true, false) => Effort::Tune,
            },
        );
        let incumbent =
            remembered.or_else(|| ask.in_force.and_then(|plan| find_plan(&decision.rivals, &plan)));
        let outcome = match ask.patience {
            Patience::Off => self.settle_off(&mut decision),
            Patience::Estimate => self.settle(&mut decision, incumbent, Reason::Estimated),
            Patience::Measure | Patience::Exhaustive => {
                self.measure(&mut decision, ask, incumbent, signature, &budget)
            }
        };
        decision.spent = budget.spent();
        outcome.map(|()| decision)
    }

    /// The full record of what is known about a problem; nothing is run. The plan in force stays the chosen one, else
    /// what is remembered, else the best estimate.
    pub(crate) fn explain(&self, ask: &Ask<'_>) -> Result<Decision, PlanError> {
        if self.devices.is_empty() {
            return Err(PlanError::NoDevice);
        }
        let stopwatch = Stopwatch::start();
        let Field { rivals, signature } = field::enumerate(&self.devices, &ask.problem, &ask.terms);
        let mut decision = Decision::new(ask.problem, ask.terms, rivals, ask.patience);
        let problem = &ask.problem;
        self.experience.estimate(
            &self.devices,
            &self.wisdom,
            problem,
            &ask.terms,
            &mut decision.rivals,
            Effort::Model,
        );
        let verdict = self.verdict(ask);
        let remembered = verdict.as_ref().and_then(|verdict| find(&decision.rivals, verdict));
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
        let Some(chosen) = in_force.or(remembered).or_else(|| first(&decision)) else {
            return Err(no_rival(&decision));
        };
        decision.chosen = chosen;
        decision.reason = match ask.patience {
            _ if remembered == Some(chosen) => Reason::Remembered,
            Patience::Off if !is_measured(&decision.rivals[chosen]) => Reason::DefaultOrder,
            _ if decision.rivals[chosen].estimate().is_none() => Reason::DefaultOrder,
            _ => Reason::Estimated,
        };
        if let Some(verdict) = &verdict
            && (remembered.is_none() || verdict.candidates != signature)
        {
            let note = "the set of rivals has changed since this was decided; the next call measures again";
            decision.notes.push(note.to_string());
        }
        decision.complete = verdict.is_some_and(|verdict| verdict.patience != PARTIAL);
        decision.spent = stopwatch.elapsed();
        sort(&mut decision);
        Ok(decision)
    }

    fn verdict(&self, ask: &Ask<'_>) -> Option<Verdict> {
        let machine = field::machine(&self.devices);
        self.wisdom.verdict(&machine, &ask.problem.to_string(), &ask.terms.to_string())
    }

    /// Looks up what is measured of one rival; the others stay unconsidered. Cheap: no model, no rates.
    fn measured_only(&self, decision: &mut Decision, ask: &Ask<'_>, index: usize) {
        let one = &mut decision.rivals[index..=index];
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
    fn settle(
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
    fn verify(&self, decision: &mut Decision, index: usize) -> bool {
        let problem = decision.problem;
        let rival = &mut decision.rivals[index];
        let key = (rival.device, rival.kernel, rival.point, field::sort_of(&problem));
        if self.verified.lock().is_ok_and(|verified| verified.contains(&key)) {
            return true;
        }
        let device = &self.devices[rival.device as usize];
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

    fn measure(
        &self,
        decision: &mut Decision,
        ask: Ask<'_>,
        incumbent: Option<usize>,
        signature: u64,
        budget: &Budget,
    ) -> Result<(), PlanError> {
        let mut ask = ask;
        // One device at a time: each measures on operands of its own.
        let mut winners: Vec<usize> = Vec::new();
        for device in 0..self.devices.len() {
            let bench = match self.devices[device].bench(&ask.problem, budget.left()) {
                Ok(bench) => bench,
                Err(decline) => {
                    decision.notes.push(format!("nothing was measured: {decline}"));
                    decision.complete = false;
                    continue;
                }
            };
            // A foreground race must get somewhere: with less than this it would only delay the call.
            if let Some(run) = self.too_long(decision, device, &ask, budget) {
                let advice = "tune the problem ahead of time to measure it";
                decision.notes.push(format!("nothing was measured: one run takes about {run}; {advice}"));
                decision.complete = false;
                continue;
            }
            let mut bench = Guarded::new(bench, ask.problem, &self.wisdom, self.devices[device].as_ref());
            let first = self.first_round(decision, device, ask.patience, incumbent);
            let Some(leader) = self.race(decision, &mut bench, &first, incumbent, &mut ask, budget) else {
                continue;
            };
            let leader = if ask.patience == Patience::Exhaustive {
                leader
            } else {
                let second = self.second_round(decision, device, &first, leader);
                self.race(decision, &mut bench, &second, Some(leader), &mut ask, budget).unwrap_or(leader)
            };
            winners.push(leader);
        }
        // A rival whose estimate kept a limit may have broken it in the race.
        winners.retain(|&winner| decision.rivals[winner].estimate().is_some());
        if winners.is_empty() {
            decision.complete = false;
            return self.settle(decision, incumbent, Reason::Estimated);
        }
        // With weights on memory or energy the fastest need not be the best.
        let time_only = ask.terms.objective == trimtab_core::Objective::default();
        let choice = if time_only {
            winners
                .into_iter()
                .min_by(|&a, &b| total(&decision.rivals[a]).total_cmp(&total(&decision.rivals[b])))
        } else {
            measured_best(&decision.rivals)
        };
        let Some(choice) = choice else { return Err(no_rival(decision)) };
        decision.chosen = choice;
        let best = measured_best(&decision.rivals);
        decision.reason = if incumbent == Some(choice) && best != Some(choice) {
            Reason::KeptIncumbent
        } else {
            Reason::Raced
        };
        self.remember(decision, &ask, signature);
        Ok(())
    }

    /// The expected time of the best rival if a few runs of it alone would use up a foreground budget.
    fn too_long(&self, decision: &Decision, device: usize, ask: &Ask<'_>, budget: &Budget) -> Option<Nanos> {
        let times = decision.rivals.iter().filter(|rival| rival.device as usize == device);
        let best = times.filter_map(|rival| Some(rival.estimate()?.time)).min()?;
        (ask.accept_partial && best.0.saturating_mul(MIN_RUNS) > budget.left().0).then_some(best)
    }

    /// The rivals with which kernels are compared: the best estimates and the default of each.
    fn first_round(
        &self,
        decision: &Decision,
        device: usize,
        patience: Patience,
        incumbent: Option<usize>,
    ) -> Vec<usize> {
        let open = |index: &usize| {
            let rival = &decision.rivals[*index];
            let open = rival.estimate().is_some() || rival.standing == Standing::Unconsidered;
            rival.device as usize == device && open
        };
        let mut all: Vec<usize> = (0..decision.rivals.len()).filter(open).collect();
        if patience == Patience::Exhaustive {
            return all;
        }
        // Stable: of equal estimates the one the kernel's author put first.
        all.sort_by(|&a, &b| total(&decision.rivals[a]).total_cmp(&total(&decision.rivals[b])));
        let mut chosen: Vec<usize> = Vec::new();
        for &index in &all {
            let rival = &decision.rivals[index];
            let same = chosen.iter().filter(|&&other| decision.rivals[other].kernel == rival.kernel).count();
            if same < FIRST_ROUND_POINTS || incumbent == Some(index) {
                chosen.push(index);
            }
        }
        for &index in &all {
            let kernel = decision.rivals[index].kernel;
            let first = all.iter().copied().filter(|&other| decision.rivals[other].kernel == kernel).min();
            if first == Some(index) && !chosen.contains(&index) {
                chosen.push(index);
            }
        }
        chosen.sort_unstable();
        chosen
    }

    /// The points of the kernels that came close, and the leader.
    fn second_round(&self, decision: &Decision, device: usize, first: &[usize], leader: usize) -> Vec<usize> {
        let limit = total(&decision.rivals[leader]) + SECOND_ROUND_FACTOR.log2();
        let close: Vec<KernelId> = first
            .iter()
            .filter(|&&index| is_measured(&decision.rivals[index]) && total(&decision.rivals[index]) <= limit)
            .map(|&index| decision.rivals[index].kernel)
            .collect();
        let mut second = vec![leader];
        for (index, rival) in decision.rivals.iter().enumerate() {
            let same = second.iter().filter(|&&other| decision.rivals[other].kernel == rival.kernel).count();
            let fresh = !first.contains(&index) || total(rival) <= limit && is_measured(rival);
            if rival.device as usize == device
                && rival.estimate().is_some()
                && close.contains(&rival.kernel)
                && fresh
                && index != leader
                && same < SECOND_ROUND_POINTS
            {
                second.push(index);
            }
        }
        second.sort_unstable();
        second
    }

    /// Races these rivals, writes down what happened, and names the winner.
    fn race(
        &self,
        decision: &mut Decision,
        bench: &mut Guarded<'_>,
        indices: &[usize],
        incumbent: Option<usize>,
        ask: &mut Ask<'_>,
        budget: &Budget,
    ) -> Option<usize> {
        let candidates: Vec<Candidate> = indices
            .iter()
            .map(|&index| {
                let rival = &decision.rivals[index];
                // Only a measured time or the roofline may keep a rival from being tried: a fit over a few far-away
                // problems can be wrong by a factor, and would never be corrected.
                let expected = match rival.estimate() {
                    Some(Estimate { time, basis: Basis::Measured(_), .. }) => Some(time),
                    _ => self.experience.least(&self.devices, &decision.problem, rival),
                };
                // A kernel's default is what others are compared with: only a hopeless one is not tried.
                let is_default =
                    index.checked_sub(1).is_none_or(|at| decision.rivals[at].kernel != rival.kernel);
                let expected =
                    expected.map(|time| if is_default { Nanos(time.0 / DEFAULT_LENIENCE) } else { time });
                Candidate { kernel: rival.kernel, point: rival.point, expected }
            })
            .collect();
        let timeout = Nanos((ask.budget.0 / 4).clamp(1, TIMEOUT_MAX.0));
        let rules = Rules { timeout: ask.rules.timeout.min(timeout), ..ask.rules.clone() };
        let incumbent = incumbent.and_then(|wanted| indices.iter().position(|&index| index == wanted));
        let report = race(bench, &candidates, incumbent, &rules, budget, ask.progress);
        decision.runs += report.runs;
        if matches!(report.stopped, StopReason::BudgetSpent) && !enough(&report, &candidates) {
            decision.complete = false;
            let note = format!("the budget of {} ended the race", ask.budget);
            if !decision.notes.contains(&note) {
                decision.notes.push(note);
            }
        }
        self.note(decision, indices, &report);
        report.winner.map(|winner| indices[winner])
    }

    /// Writes a race into the decision, into experience and into wisdom.
    fn note(&self, decision: &mut Decision, indices: &[usize], report: &RaceReport) {
        let problem = decision.problem;
        for raced in &report.rivals {
            let rival = &mut decision.rivals[indices[raced.candidate]];
            if let Some(failure) = &raced.failure {
                // Whoever could not be tried is worth what was known of it.
                if failure.kind == FailureKind::Untried {
                    decision.complete = false;
                    continue;
                }
                self.record_failure(&problem, rival, failure);
                rival.standing = Standing::Quarantined(failure.to_string());
                continue;
            }
            let Some(mut stats) = Stats::of(&raced.samples) else { continue };
            stats.energy_uj = raced.energy_uj;
            rival.energy_uj = raced.energy_uj;
            let estimate = crate::experience::estimate_of(&stats);
            rival.standing = self.experience.standing(rival, &decision.terms, estimate);
            self.experience.note_time(&self.devices, &problem, rival, stats.min_ns);
            let device = &self.devices[rival.device as usize];
            let cores = device.facts().cores.unwrap_or(device.facts().threads);
            let condition = device.state().condition(cores);
            self.wisdom.record(fact_key(device.as_ref(), &problem, rival, condition), Outcome::Timed(stats));
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
        let device = &self.devices[rival.device as usize];
        let outcome = Outcome::Failed { kind: failure.kind, message: failure.message.clone() };
        self.wisdom.record(fact_key(device.as_ref(), problem, rival, "quiet"), outcome);
    }

    fn remember(&self, decision: &Decision, ask: &Ask<'_>, signature: u64) {
        let Some(winner) = decision.winner() else { return };
        let patience = if decision.complete { ask.patience.name() } else { PARTIAL };
        self.wisdom.decide(Verdict {
            device: field::machine(&self.devices),
            problem: ask.problem.to_string(),
            terms: ask.terms.to_string(),
            kernel: winner.name.to_string(),
            version: winner.version.to_string(),
            point: winner.point_name.clone(),
            patience: patience.to_string(),
            candidates: signature,
            origin: String::new(),
            last_seen_ms: 0,
        });
    }
}

/// Whether a race that the budget ended has still seen enough: everyone who could win was sampled a few times.
fn enough(report: &RaceReport, candidates: &[Candidate]) -> bool {
    let best = report.rivals.iter().filter_map(|raced| raced.min()).fold(f64::INFINITY, f64::min);
    report.rivals.iter().all(|raced| {
        let hopeless = candidates[raced.candidate].expected.is_some_and(|time| time.0 as f64 > 4.0 * best);
        let dropped = raced.dropped_after.is_some_and(|after| after > 0);
        raced.failure.is_some() || hopeless || dropped || raced.samples.len() >= ENOUGH_SAMPLES
    })
}

pub(crate) fn fact_key(device: &dyn Device, problem: &Problem, rival: &Rival, condition: &str) -> FactKey {
    FactKey {
        device: device.facts().fingerprint.0.clone(),
        kernel: rival.name.to_string(),
        version: rival.version.to_string(),
        problem: problem.to_string(),
        point: rival.point_name.clone(),
        condition: condition.to_string(),
    }
}

fn satisfies(verdict: &Verdict, ask: &Ask<'_>) -> bool {
    match verdict.patience.parse::<Patience>() {
        Ok(patience) => patience >= ask.patience,
        Err(_) => verdict.patience == PARTIAL && ask.accept_partial,
    }
}

fn find(rivals: &[Rival], verdict: &Verdict) -> Option<usize> {
    rivals.iter().position(|rival| {
        *rival.name == *verdict.kernel
            && *rival.version.0 == *verdict.version
            && *rival.point_name == *verdict.point
            && !matches!(rival.standing, Standing::Declined(_) | Standing::Excluded(_))
    })
}

fn find_plan(rivals: &[Rival], plan: &Plan) -> Option<usize> {
    rivals.iter().position(|rival| {
        rival.device == plan.device
            && rival.kernel == plan.kernel
            && rival.point == plan.point
            && !matches!(rival.standing, Standing::Declined(_))
    })
}

/// The score for comparisons: rivals out of the running come last.
fn total(rival: &Rival) -> f64 {
    rival.score().unwrap_or(f64::INFINITY)
}

fn is_measured(rival: &Rival) -> bool {
    matches!(rival.estimate(), Some(Estimate { basis: Basis::Measured(_), .. }))
}

/// The best score; of equal ones the first in order of preference, references last.
fn best(rivals: &[Rival]) -> Option<usize> {
    let rank = |rival: &Rival| (total(rival), rival.class == VariantClass::Reference);
    (0..rivals.len())
        .filter(|&index| rivals[index].estimate().is_some())
        .min_by(|&a, &b| rank(&rivals[a]).partial_cmp(&rank(&rivals[b])).unwrap_or(std::cmp::Ordering::Equal))
}

fn measured_best(rivals: &[Rival]) -> Option<usize> {
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

fn no_rival(decision: &Decision) -> PlanError {
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
    PlanError::NoRival {
        problem: decision.problem.to_string(),
        terms: decision.terms.to_string(),
        reasons: reasons.join("; "),
    }
}
