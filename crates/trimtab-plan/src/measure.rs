//! Measuring for a decision: which rivals race in which round, and what is written down afterwards.

use crate::decide::{Ask, Decider, PlanError, fact_key, is_measured, measured_best, no_rival, total};
use crate::experience::Effort;
use crate::guard::Guarded;
use crate::offload::is_open;
use crate::plan::{Decision, Reason, Rival, Standing};
use crate::search::Limits;
use trimtab_core::{
    Basis, Condition, DeviceFacts, Estimate, FailureKind, KernelId, Nanos, Objective, Patience,
};
use trimtab_tune::{Budget, Candidate, RaceReport, Rules, StopReason, race};
use trimtab_wisdom::{Outcome, Stats};

/// Points of one kernel raced in the first round, where kernels are compared.
const FIRST_ROUND_POINTS: usize = 3;
/// Kernels within this factor of the first round's best race with all their points in the second.
const SECOND_ROUND_FACTOR: f64 = 1.6;
/// Most points of one kernel in the second round.
const SECOND_ROUND_POINTS: usize = 48;
/// The share of a device's time kept for the run-off when points are searched: one in so many.
const RUN_OFF_SHARE: u64 = 4;
/// Rivals within this factor of the best run off, …
const RUN_OFF_FACTOR: f64 = 1.08;
/// … at most so many of them, …
const RUN_OFF_RIVALS: usize = 6;
/// … each with so many samples. Few samples of two threads on a shared machine misjudged a third of the close calls.
const RUN_OFF_SAMPLES: u32 = 12;
/// A batch of the run-off takes at least this long.
const RUN_OFF_BATCH: Nanos = Nanos::from_millis(1);
/// On a GPU a batch takes at least this long when tuning, and five times as long in the run-off: on a software GPU a launch of
/// 30 µs varies by a third from one to the next, and of 24 picks by batches of 0.2 ms two were over 10 % off.
const NOISY_BATCH: Nanos = Nanos::from_millis(2);
const NOISY_RUN_OFF: u64 = 5;
/// On a GPU fewer are dropped early and more run off, with more samples, for the same reason.
const NOISY_LADDER: [f64; 6] = [8.0, 4.0, 2.5, 1.8, 1.5, 1.35];
const NOISY_RUN_OFF_FACTOR: f64 = 1.15;
const NOISY_RUN_OFF_RIVALS: usize = 10;
const NOISY_RUN_OFF_SAMPLES: u32 = 24;
/// Runs of the best rival a foreground budget must allow for a race to be worth starting.
const MIN_RUNS: u64 = 8;
/// Longest a candidate may run in a race, whatever the budget.
const TIMEOUT_MAX: Nanos = Nanos::from_millis(5_000);
/// How many times slower than others a kernel's default point may look and still be tried.
const DEFAULT_LENIENCE: u64 = 5;
/// Samples of every rival still racing that make a race complete although the budget ended it.
const ENOUGH_SAMPLES: usize = 3;

/// Where a race is run.
struct Place {
    at: u16,
    noisy: bool,
    /// Devices still to be measured, this one included.
    turns: u32,
}

impl Decider {
    pub(crate) fn measure(
        &self,
        decision: &mut Decision,
        ask: Ask<'_>,
        incumbent: Option<usize>,
        budget: &Budget,
    ) -> Result<(), PlanError> {
        let mut ask = ask;
        decision.ended_by.strategy = ask.goal.strategy;
        // One device at a time: each measures on operands of its own.
        let mut winners: Vec<usize> = Vec::new();
        let effort = if ask.accept_partial { Effort::Model } else { Effort::Tune };
        let order = self.device_order(&ask.scope);
        for (turn, &at) in order.iter().enumerate() {
            let Some(device) = self.devices.get(at) else { continue };
            if turn > 0 {
                self.estimate_device(decision, at, effort);
            }
            let open = |rival: &Rival| rival.device == at && is_open(rival);
            if !decision.rivals.iter().any(open) {
                continue;
            }
            let DeviceFacts { id, habits, .. } = device.facts();
            let bench = match device.bench(&ask.problem, budget.left()) {
                Ok(bench) => bench,
                Err(decline) => {
                    decision.notes.push(format!("nothing was measured on {id}: {decline}"));
                    decision.complete = false;
                    continue;
                }
            };
            // A foreground race must get somewhere: with less than this it would only delay the call.
            if let Some(run) = self.too_long(decision, at, &ask, budget) {
                let advice = "tune the problem ahead of time to measure it";
                let note = format!("nothing was measured on {id}: one run takes about {run}; {advice}");
                decision.notes.push(note);
                decision.complete = false;
                continue;
            }
            let given = ask.rules.clone();
            if habits.noisy && !ask.accept_partial {
                ask.rules.batch_time_min = given.batch_time_min.max(NOISY_BATCH);
                ask.rules.ladder = NOISY_LADDER;
            }
            if habits.recorded {
                // The clock of this machine has no part in it.
                ask.rules.precision = ask.rules.precision.or(Some(Nanos(0)));
            }
            self.aim(decision, at, id, &ask, budget);
            let mut bench = Guarded::new(bench, ask.problem, &self.wisdom, device.as_ref());
            let turns = (order.len() - turn) as u32;
            let place = Place { at, noisy: habits.noisy, turns };
            winners.extend(self.rounds(decision, &mut bench, place, incumbent, &mut ask, budget));
            ask.rules = given;
        }
        // A rival whose estimate kept a limit may have broken it in the race.
        winners.retain(|&winner| decision.rivals[winner].estimate().is_some());
        if winners.is_empty() {
            decision.complete = false;
            return self.settle(decision, incumbent, Reason::Estimated);
        }
        // With weights on memory or energy the fastest need not be the best.
        let time_only = ask.terms.objective == Objective::default();
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
        if decision.scope.is_alone() || !self.prefer_unmeasured(decision) {
            self.remember(decision, &ask);
        }
        Ok(())
    }

    /// The rounds on one device: kernels against each other, then their points, then those too close to call.
    fn rounds(
        &self,
        decision: &mut Decision,
        bench: &mut Guarded<'_>,
        on: Place,
        incumbent: Option<usize>,
        ask: &mut Ask<'_>,
        budget: &Budget,
    ) -> Option<usize> {
        let Place { at: device, noisy, turns } = on;
        let exhaustive = ask.patience == Patience::Exhaustive;
        let searched = match exhaustive {
            true => Vec::new(),
            false => self.searched(decision, device, &ask.goal, SECOND_ROUND_POINTS),
        };
        let left = budget.left().0;
        let shared = left / u64::from(turns);
        let run_off = if ask.accept_partial { 0 } else { shared / RUN_OFF_SHARE };
        let limits = Limits {
            reserve: Nanos(left - shared + run_off),
            evaluations: budget.evaluations_left().div_ceil(turns),
        };
        let before = budget.evaluated();
        if let Some(list) = self.shortlist(decision, device, ask) {
            let leader = self.race(decision, bench, &list, incumbent, ask, budget);
            if leader.is_some() {
                decision.complete = false;
                decision.notes.push(format!(
                    "only the {} rivals were raced that other problems of this family speak for; tune the problem to race all",
                    list.len()
                ));
                return leader;
            }
        }
        let first = self.first_round(decision, device, ask.patience, incumbent, &searched);
        let mut leader = self.race(decision, bench, &first, incumbent, ask, budget);
        if self.is_good_enough(decision, leader, ask, budget) {
            return leader;
        }
        if let (Some(first_leader), false) = (leader, exhaustive) {
            let second = self.second_round(decision, device, &first, first_leader, &searched);
            if searched.is_empty() || second.len() > 1 {
                leader = self.race(decision, bench, &second, leader, ask, budget).or(leader);
            }
        }
        if !searched.is_empty() {
            let evaluations = limits.evaluations.saturating_sub(budget.evaluated() - before);
            let limits = Limits { evaluations, ..limits };
            leader = self.search(decision, bench, device, &searched, leader, ask, budget, limits);
            // As in a race, what is in force stays unless something is clearly faster.
            let tied = |&incumbent: &usize| {
                let slowest = leader.map_or(f64::INFINITY, |leader| pace(decision, leader))
                    + (1.0 + ask.rules.indifference).log2();
                bench.has_run(&decision.rivals[incumbent]) && pace(decision, incumbent) <= slowest
            };
            leader = incumbent.filter(tied).or(leader);
        }
        // Someone who asked for tuning waits for it: those too close to call run off side by side.
        if ask.accept_partial || self.is_good_enough(decision, leader, ask, budget) {
            return leader;
        }
        let last = self.run_off(decision, device, noisy);
        if last.len() < 2 {
            return leader;
        }
        let rules = ask.rules.clone();
        let least = if noisy { NOISY_RUN_OFF_SAMPLES } else { RUN_OFF_SAMPLES };
        let samples = least.max(rules.min_samples);
        ask.rules = Rules {
            min_samples: samples,
            max_samples: samples.max(rules.max_samples),
            batch_time_min: match noisy {
                true => Nanos(rules.batch_time_min.0.saturating_mul(NOISY_RUN_OFF)),
                false => rules.batch_time_min.max(RUN_OFF_BATCH),
            },
            ..rules
        };
        self.race(decision, bench, &last, leader, ask, budget).or(leader)
    }

    /// Tells the budget how fast this device could do the problem, where someone asked for a share of that.
    fn aim(&self, decision: &mut Decision, device: u16, id: &str, ask: &Ask<'_>, budget: &Budget) {
        if ask.goal.good_enough.is_none() {
            return;
        }
        let open = decision.rivals.iter().filter(|rival| rival.device == device && is_open(rival));
        let times = open.filter_map(|rival| self.experience.at_roofline(&self.devices, &ask.problem, rival));
        let least = times.min().map(|time| time.0 as f64);
        budget.aim(least);
        if least.is_none() {
            decision
                .notes
                .push(format!("what is good enough is not known on {id}: no kernel tells its work"));
        }
    }

    /// Whether the leader is as fast as was asked for; if so, the decision says so.
    fn is_good_enough(
        &self,
        decision: &mut Decision,
        leader: Option<usize>,
        ask: &Ask<'_>,
        budget: &Budget,
    ) -> bool {
        let estimate = leader.and_then(|leader| decision.rivals[leader].estimate());
        let Some(ns) = estimate.map(|estimate| estimate.time.0 as f64) else { return false };
        let Some(share) = budget.share_of_roofline(ns).filter(|_| budget.is_good_enough(ns)) else {
            return false;
        };
        decision.ended_by.good_enough = ask.goal.good_enough;
        decision.notes.push(format!("good enough: {:.0} % of the roofline", share * 100.0));
        true
    }

    /// The expected time of the best rival if a few runs of it alone would use up a foreground budget.
    fn too_long(&self, decision: &Decision, device: u16, ask: &Ask<'_>, budget: &Budget) -> Option<Nanos> {
        let times = decision.rivals.iter().filter(|rival| rival.device == device);
        let best = times.filter_map(|rival| Some(rival.estimate()?.time)).min()?;
        (ask.accept_partial && best.0.saturating_mul(MIN_RUNS) > budget.left().0).then_some(best)
    }

    /// The rivals with which kernels are compared: the best estimates and the default of each.
    fn first_round(
        &self,
        decision: &Decision,
        device: u16,
        patience: Patience,
        incumbent: Option<usize>,
        searched: &[KernelId],
    ) -> Vec<usize> {
        let open = |index: &usize| {
            let rival = &decision.rivals[*index];
            let open = rival.estimate().is_some() || rival.standing == Standing::Unconsidered;
            rival.device == device && open
        };
        let mut all: Vec<usize> = (0..decision.rivals.len()).filter(open).collect();
        if patience == Patience::Exhaustive {
            return all;
        }
        // The first of each kernel in the order of its author.
        let mut defaults: Vec<usize> = Vec::new();
        for &index in &all {
            let kernel = decision.rivals[index].kernel;
            if !defaults.iter().any(|&other| decision.rivals[other].kernel == kernel) {
                defaults.push(index);
            }
        }
        // Stable: of equal estimates the one the kernel's author put first.
        all.sort_by(|&a, &b| total(&decision.rivals[a]).total_cmp(&total(&decision.rivals[b])));
        let mut chosen: Vec<usize> = Vec::new();
        for &index in &all {
            let rival = &decision.rivals[index];
            let same = chosen.iter().filter(|&&other| decision.rivals[other].kernel == rival.kernel).count();
            // The points of a kernel that is searched are the strategy's business.
            let most = if searched.contains(&rival.kernel) { 1 } else { FIRST_ROUND_POINTS };
            if same < most || incumbent == Some(index) {
                chosen.push(index);
            }
        }
        defaults.retain(|index| !chosen.contains(index));
        chosen.extend(defaults);
        chosen.sort_unstable();
        chosen
    }

    /// The points of the kernels that came close and are not searched, and the leader.
    fn second_round(
        &self,
        decision: &Decision,
        device: u16,
        first: &[usize],
        leader: usize,
        searched: &[KernelId],
    ) -> Vec<usize> {
        let limit = pace(decision, leader) + SECOND_ROUND_FACTOR.log2();
        let close: Vec<KernelId> = first
            .iter()
            .filter(|&&index| is_measured(&decision.rivals[index]) && pace(decision, index) <= limit)
            .map(|&index| decision.rivals[index].kernel)
            .filter(|kernel| !searched.contains(kernel))
            .collect();
        let mut second = vec![leader];
        for (index, rival) in decision.rivals.iter().enumerate() {
            let same = second.iter().filter(|&&other| decision.rivals[other].kernel == rival.kernel).count();
            let fresh = !first.contains(&index) || pace(decision, index) <= limit && is_measured(rival);
            if rival.device == device
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

    /// The few whose measured times are too close to call.
    fn run_off(&self, decision: &Decision, device: u16, noisy: bool) -> Vec<usize> {
        let (factor, rivals) = match noisy {
            true => (NOISY_RUN_OFF_FACTOR, NOISY_RUN_OFF_RIVALS),
            false => (RUN_OFF_FACTOR, RUN_OFF_RIVALS),
        };
        let mut close: Vec<usize> = (0..decision.rivals.len())
            .filter(|&index| decision.rivals[index].device == device && is_measured(&decision.rivals[index]))
            .collect();
        close.sort_by(|&a, &b| pace(decision, a).total_cmp(&pace(decision, b)));
        let limit = close.first().map_or(0.0, |&best| pace(decision, best) + factor.log2());
        close.retain(|&index| pace(decision, index) <= limit);
        close.truncate(rivals);
        close.sort_unstable();
        close
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
        let indices = &*self.affordable(decision, bench, indices, incumbent, ask, budget);
        let fresh: Vec<usize> =
            indices.iter().copied().filter(|&index| !bench.has_run(&decision.rivals[index])).collect();
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
        let rules = Rules { timeout: timeout(ask), ..ask.rules.clone() };
        let incumbent = incumbent.and_then(|wanted| indices.iter().position(|&index| index == wanted));
        // Points are counted here, each once however often it races.
        let part = budget.part(Nanos::MAX);
        let report = race(bench, &candidates, incumbent, &rules, &part, ask.progress);
        budget.join(&part);
        let started = fresh.into_iter().filter(|&index| bench.has_run(&decision.rivals[index]));
        started.for_each(|_| budget.charge_evaluation());
        decision.evaluations = budget.evaluated();
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

    /// These rivals, without those the number of points asked for does not allow to start: the best estimates stay.
    fn affordable(
        &self,
        decision: &mut Decision,
        bench: &Guarded<'_>,
        indices: &[usize],
        incumbent: Option<usize>,
        ask: &Ask<'_>,
        budget: &Budget,
    ) -> Vec<usize> {
        let (known, mut fresh): (Vec<usize>, Vec<usize>) =
            indices.iter().partition(|&&index| bench.has_run(&decision.rivals[index]));
        let most = budget.evaluations_left() as usize;
        if fresh.len() <= most {
            return indices.to_vec();
        }
        let rank = |index: usize| (incumbent != Some(index), total(&decision.rivals[index]));
        fresh.sort_by(|&a, &b| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        fresh.truncate(most);
        decision.ended_by.evals = ask.goal.evals;
        let mut affordable = [known, fresh].concat();
        affordable.sort_unstable();
        affordable
    }

    /// Writes a race into the decision, into experience and into wisdom.
    pub(crate) fn note(&self, decision: &mut Decision, indices: &[usize], report: &RaceReport) {
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
            let now_ms = self.wisdom.now_ms();
            self.experience.note_time(&self.devices, &problem, rival, &stats, now_ms);
            let Some(device) = self.devices.get(rival.device) else { continue };
            let cores = device.facts().cores.unwrap_or(device.facts().threads);
            let condition = device.state().condition(cores);
            self.wisdom.record(fact_key(device.as_ref(), &problem, rival, condition), Outcome::Timed(stats));
            if let Some(built) = raced.compiled_in.and_then(|time| Stats::of(&[time.0 as f64])) {
                let key = fact_key(device.as_ref(), &problem, rival, Condition::Compile);
                self.wisdom.record(key, Outcome::Timed(built));
            }
        }
    }
}

/// The longest one run of a race may take.
pub(crate) fn timeout(ask: &Ask<'_>) -> Nanos {
    ask.rules.timeout.min(Nanos((ask.budget.0 / 4).clamp(1, TIMEOUT_MAX.0)))
}

/// How rivals of one device compare: handing over is the same for all of them and would hide their differences.
fn pace(decision: &Decision, index: usize) -> f64 {
    let rival = &decision.rivals[index];
    match rival.estimate() {
        Some(estimate) if decision.terms.objective == Objective::default() => (estimate.time.0 as f64).log2(),
        _ => total(rival),
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
