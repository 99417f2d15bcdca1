//! Measuring for a decision: which rivals race in which round, and what is written down afterwards.

use crate::cold::{Ask, Cold, PlanError, fact_key, is_measured, measured_best, no_rival, total};
use crate::experience::{COMPILED, Effort};
use crate::guard::Guarded;
use crate::offload::is_open;
use crate::plan::{Decision, Reason, Rival, Standing};
use trimtab_core::{Basis, DeviceKind, Estimate, FailureKind, KernelId, Nanos, Objective, Patience};
use trimtab_tune::{Budget, Candidate, RaceReport, Rules, StopReason, race};
use trimtab_wisdom::{Outcome, Stats};

/// Points of one kernel raced in the first round, where kernels are compared.
const FIRST_ROUND_POINTS: usize = 3;
/// Kernels within this factor of the first round's best race with all their points in the second.
const SECOND_ROUND_FACTOR: f64 = 1.6;
/// Most points of one kernel in the second round.
const SECOND_ROUND_POINTS: usize = 48;
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
const GPU_BATCH: Nanos = Nanos::from_millis(2);
const GPU_RUN_OFF: u64 = 5;
/// On a GPU fewer are dropped early and more run off, with more samples, for the same reason.
const GPU_LADDER: [f64; 6] = [8.0, 4.0, 2.5, 1.8, 1.5, 1.35];
const GPU_RUN_OFF_FACTOR: f64 = 1.15;
const GPU_RUN_OFF_RIVALS: usize = 10;
const GPU_RUN_OFF_SAMPLES: u32 = 24;
/// Runs of the best rival a foreground budget must allow for a race to be worth starting.
const MIN_RUNS: u64 = 8;
/// Longest a candidate may run in a race, whatever the budget.
const TIMEOUT_MAX: Nanos = Nanos::from_millis(5_000);
/// How many times slower than others a kernel's default point may look and still be tried.
const DEFAULT_LENIENCE: u64 = 5;
/// Samples of every rival still racing that make a race complete although the budget ended it.
const ENOUGH_SAMPLES: usize = 3;

impl Cold {
    pub(crate) fn measure(
        &self,
        decision: &mut Decision,
        ask: Ask<'_>,
        incumbent: Option<usize>,
        budget: &Budget,
    ) -> Result<(), PlanError> {
        let mut ask = ask;
        // One device at a time: each measures on operands of its own.
        let mut winners: Vec<usize> = Vec::new();
        let effort = if ask.accept_partial { Effort::Model } else { Effort::Tune };
        for (turn, device) in self.device_order().into_iter().enumerate() {
            if turn > 0 {
                self.estimate_device(decision, device, effort);
            }
            let open = |rival: &Rival| rival.device as usize == device && is_open(rival);
            if !decision.rivals.iter().any(open) {
                continue;
            }
            let id = &self.devices[device].facts().id;
            let bench = match self.devices[device].bench(&ask.problem, budget.left()) {
                Ok(bench) => bench,
                Err(decline) => {
                    decision.notes.push(format!("nothing was measured on {id}: {decline}"));
                    decision.complete = false;
                    continue;
                }
            };
            // A foreground race must get somewhere: with less than this it would only delay the call.
            if let Some(run) = self.too_long(decision, device, &ask, budget) {
                let advice = "tune the problem ahead of time to measure it";
                let note = format!("nothing was measured on {id}: one run takes about {run}; {advice}");
                decision.notes.push(note);
                decision.complete = false;
                continue;
            }
            let gpu = self.devices[device].facts().kind == DeviceKind::Gpu;
            let given = ask.rules.clone();
            if gpu && !ask.accept_partial {
                ask.rules.batch_time_min = given.batch_time_min.max(GPU_BATCH);
                ask.rules.ladder = GPU_LADDER;
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
            // Someone who asked for tuning waits for it: those too close to call run off side by side.
            let last = if ask.accept_partial { vec![] } else { self.run_off(decision, device, gpu) };
            let leader = if last.len() > 1 {
                let rules = ask.rules.clone();
                let least = if gpu { GPU_RUN_OFF_SAMPLES } else { RUN_OFF_SAMPLES };
                let samples = least.max(rules.min_samples);
                ask.rules = Rules {
                    min_samples: samples,
                    max_samples: samples.max(rules.max_samples),
                    batch_time_min: match gpu {
                        true => Nanos(rules.batch_time_min.0.saturating_mul(GPU_RUN_OFF)),
                        false => rules.batch_time_min.max(RUN_OFF_BATCH),
                    },
                    ..rules
                };
                self.race(decision, &mut bench, &last, Some(leader), &mut ask, budget).unwrap_or(leader)
            } else {
                leader
            };
            winners.push(leader);
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
        if self.devices.len() == 1 || !self.prefer_unmeasured(decision) {
            self.remember(decision, &ask);
        }
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
        let limit = pace(decision, leader) + SECOND_ROUND_FACTOR.log2();
        let close: Vec<KernelId> = first
            .iter()
            .filter(|&&index| is_measured(&decision.rivals[index]) && pace(decision, index) <= limit)
            .map(|&index| decision.rivals[index].kernel)
            .collect();
        let mut second = vec![leader];
        for (index, rival) in decision.rivals.iter().enumerate() {
            let same = second.iter().filter(|&&other| decision.rivals[other].kernel == rival.kernel).count();
            let fresh = !first.contains(&index) || pace(decision, index) <= limit && is_measured(rival);
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

    /// The few whose measured times are too close to call.
    fn run_off(&self, decision: &Decision, device: usize, gpu: bool) -> Vec<usize> {
        let (factor, rivals) = match gpu {
            true => (GPU_RUN_OFF_FACTOR, GPU_RUN_OFF_RIVALS),
            false => (RUN_OFF_FACTOR, RUN_OFF_RIVALS),
        };
        let mut close: Vec<usize> = (0..decision.rivals.len())
            .filter(|&index| {
                decision.rivals[index].device as usize == device && is_measured(&decision.rivals[index])
            })
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
            if let Some(built) = raced.compiled_in.and_then(|time| Stats::of(&[time.0 as f64])) {
                let key = fact_key(device.as_ref(), &problem, rival, COMPILED);
                self.wisdom.record(key, Outcome::Timed(built));
            }
        }
    }
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
