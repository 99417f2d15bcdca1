//! The stage that measures: which rivals race in which round, and what is written down afterwards.

use crate::decide::{Ask, Decider, Deciding, fact_key, measured_best};
use crate::event::{Event, Unmeasured};
use crate::guard::Guarded;
use crate::plan::{Reason, Rival, Standing};
use crate::record::Decision;
use crate::remembered::suspects;
use crate::rounds::{NOISY_BATCH, NOISY_LADDER};
use std::sync::Arc;
use trimtab_core::{Basis, Condition, Device, Estimate, FailureKind, Nanos, Objective};
use trimtab_tune::{Candidate, RaceReport, Rules, StopReason, race};
use trimtab_wisdom::{Outcome, Stats};

/// Runs of the best rival a foreground budget must allow for a race to be worth starting.
const MIN_RUNS: u64 = 8;
/// Most suspects that get another chance in one decision.
const MAX_SUSPECTS: usize = 4;
/// Longest a candidate may run in a race, whatever the budget.
const TIMEOUT_MAX: Nanos = Nanos::from_millis(5_000);
/// How many times slower than others a kernel's default point may look and still be tried.
const DEFAULT_LENIENCE: u64 = 5;
/// One sample in so many that others disturbed makes a race one on a busy machine.
const SPOILED: usize = 4;
/// Samples of every rival still racing that make a race complete although the budget ended it, …
const ENOUGH_SAMPLES: usize = 3;
/// … and on a GPU in the background, where the next race has twice the time.
const NOISY_ENOUGH: usize = 8;

impl Deciding<'_> {
    /// Races rivals where that is allowed; whether that decided. One device at a time: each measures on operands of its own.
    pub(crate) fn measure(&mut self) -> bool {
        if !self.measures() {
            return false;
        }
        self.record.apply(Event::Measuring { strategy: self.ask.goal.strategy });
        let (mut winners, mut raced): (Vec<usize>, Vec<usize>) = Default::default();
        for turn in 0..self.order.len() {
            if turn > 0 {
                self.estimate_device(turn, self.effort());
            }
            let (at, device) = (self.order[turn].0, Arc::clone(&self.order[turn].1));
            if self.record.rivals.iter().any(|rival| rival.device == at && rival.is_open()) {
                if let Some((winner, _)) = self.recalled_on(at).filter(|_| !self.ask.scope.is_alone()) {
                    winners.push(winner);
                    continue;
                }
                let given = self.ask.rules.clone();
                let winner = self.measure_on(turn, at, device.as_ref());
                self.ask.rules = given;
                if let Some(winner) = winner {
                    winners.push(winner);
                    raced.push(winner);
                }
            }
        }
        // A rival whose estimate kept a limit may have broken it in the race.
        winners.retain(|&winner| self.record.rivals[winner].estimate().is_some());
        self.compare_evenly(Rival::is_measured);
        let (fastest, awaited) = self.best_now(winners.into_iter()).unzip();
        let rivals = &self.record.rivals;
        // With weights on memory or energy the fastest need not be the best.
        let best = measured_best(rivals);
        let time_only = self.ask.terms.objective == Objective::default();
        let Some(rival) = fastest.and_then(|fastest| if time_only { Some(fastest) } else { best }) else {
            self.record.apply(Event::Untried { why: String::new() });
            return false;
        };
        let kept = self.incumbent == Some(rival) && best != Some(rival);
        let once = raced.contains(&rival)
            && self.record.ended_by.good_enough.is_none()
            && self.record.rivals.iter().filter_map(samples).max().is_some_and(|most| most < 2);
        let reason = match kept {
            true => Reason::KeptIncumbent,
            false if once => Reason::Led,
            false => Reason::Raced,
        };
        if once {
            self.record.apply(Event::FewRuns);
        }
        self.record.apply(Event::Settled { rival, reason });
        awaited.flatten().into_iter().for_each(|awaited| self.await_build(awaited));
        if self.runs_off_again() && !self.record.complete {
            return true;
        }
        if !self.ask.scope.is_alone() {
            for &winner in raced.iter().filter(|_| time_only) {
                self.by.remember_on(&self.record, winner, self.ask.session);
            }
        }
        if self.ask.scope.is_alone() || !self.prefer_unmeasured() {
            self.by.remember(&self.record, self.ask.session);
        }
        true
    }

    /// Whether what was measured may be wrong by a factor: others used the machine, and there is time to try everyone again.
    pub(crate) fn doubts_times(&self) -> bool {
        let was_busy = self.verdict.as_ref().is_some_and(|verdict| verdict.extent.busy);
        !self.ask.accept_partial && (self.record.busy || self.ask.behind.is_some() && was_busy)
    }

    /// Whether the background looks again at what a whole race found.
    pub(crate) fn runs_off_again(&self) -> bool {
        let was_completed = self.verdict.as_ref().is_some_and(|verdict| !verdict.extent.partial);
        self.ask.behind.is_some() && was_completed
    }

    /// Races the rivals of one device and names the winner, if it can be measured now.
    fn measure_on(&mut self, turn: usize, at: u16, device: &dyn Device) -> Option<usize> {
        let (id, habits) = (&device.facts().id, device.facts().habits);
        let not = |why| Event::NotMeasured { device: id.clone(), why };
        let bench = match device.bench(&self.ask.problem, self.budget.left()) {
            Ok(bench) => bench,
            Err(decline) => {
                self.record.apply(not(Unmeasured::Declined(decline.to_string())));
                return None;
            }
        };
        // A foreground race must get somewhere: with less than this it would only delay the call.
        if let Some(run) = self.too_long(at) {
            self.record.apply(not(Unmeasured::TooLong(run.0)));
            return None;
        }
        let rules = &mut self.ask.rules;
        if habits.noisy && !self.ask.accept_partial {
            rules.batch_time_min = rules.batch_time_min.max(NOISY_BATCH);
            rules.ladder = NOISY_LADDER;
        }
        if habits.recorded {
            // The clock of this machine has no part in it.
            rules.precision = rules.precision.or(Some(Nanos(0)));
        }
        self.aim(at, id);
        let hanging = &self.by.experience.hanging;
        let mut bench = Guarded::new(bench, self.ask.problem, &self.by.wisdom, device).beside(hanging, at);
        let why = |rival: &Rival| Some(format!("{}: {}", rival.name, hanging.why(at, rival.kernel)?));
        if let Some(why) = self.record.rivals.iter().filter(|rival| rival.device == at).find_map(why) {
            self.record.apply(Event::Untried { why });
        }
        let suspects = suspects(&self.by.wisdom, device, &self.record.rivals, at);
        suspects.iter().for_each(|&index| device.distrust(self.record.rivals[index].kernel));
        let standings: Vec<Standing> = suspects.iter().map(|&index| self.set_aside(index)).collect();
        let leader = self.rounds(&mut bench, turn, at, habits.noisy);
        if suspects.is_empty() {
            return leader;
        }
        for (&index, standing) in suspects.iter().zip(standings) {
            self.record.rivals[index].standing = standing;
        }
        let last: Vec<usize> = suspects.into_iter().take(MAX_SUSPECTS).chain(leader).collect();
        self.race(&mut bench, &last, leader).or(leader)
    }

    /// Takes a suspect out for now and says where it stood.
    fn set_aside(&mut self, index: usize) -> Standing {
        let reason = "a process ended while it ran; it is tried again after all others".to_string();
        std::mem::replace(&mut self.record.rivals[index].standing, Standing::Quarantined(reason))
    }

    /// Tells the budget how fast this device could do the problem, where someone asked for a share of that.
    fn aim(&mut self, device: u16, id: &str) {
        if self.ask.goal.good_enough.is_none() {
            return;
        }
        let Decider { devices, experience, .. } = self.by;
        let open = self.record.rivals.iter().filter(|rival| rival.device == device && rival.is_open());
        let times = open.filter_map(|rival| experience.at_roofline(devices, &self.ask.problem, rival));
        let least = times.min().map(|time| time.0 as f64);
        self.budget.aim(least);
        if least.is_none() {
            self.record.apply(Event::NoRoofline { device: id.to_string() });
        }
    }

    /// Whether the leader is as fast as was asked for; if so, the record says so.
    pub(crate) fn is_good_enough(&mut self, leader: Option<usize>) -> bool {
        let estimate = leader.and_then(|leader| self.record.rivals[leader].estimate());
        let Some(ns) = estimate.map(|estimate| estimate.time.0 as f64) else { return false };
        let share = self.budget.share_of_roofline(ns).filter(|_| self.budget.is_good_enough(ns));
        let Some((share, asked)) = share.zip(self.ask.goal.good_enough) else { return false };
        self.record.apply(Event::GoodEnough { share, asked });
        true
    }

    /// The expected time of the best rival if a few runs of it alone would use up a foreground budget.
    fn too_long(&self, device: u16) -> Option<Nanos> {
        let times = self.record.rivals.iter().filter(|rival| rival.device == device);
        let best = times.filter_map(|rival| Some(rival.estimate()?.time)).min()?;
        let long = best.0.saturating_mul(MIN_RUNS) > self.budget.left().0;
        (self.ask.accept_partial && long).then_some(best)
    }

    /// Races these rivals, writes down what happened, and names the winner.
    pub(crate) fn race(
        &mut self,
        bench: &mut Guarded<'_>,
        indices: &[usize],
        incumbent: Option<usize>,
    ) -> Option<usize> {
        let indices = &*self.affordable(bench, indices, incumbent);
        let rivals = &self.record.rivals;
        let fresh: Vec<usize> =
            indices.iter().copied().filter(|&index| !bench.has_run(&rivals[index])).collect();
        let doubts = self.doubts_times();
        // Beside others the shortest time is the truest, of whichever race it is.
        let before: Vec<(usize, Nanos, Standing)> = (indices.iter().copied())
            .filter(|index| doubts && self.record.busy && !fresh.contains(index))
            .filter_map(|index| Some((index, rivals[index].estimate()?.time, rivals[index].standing.clone())))
            .collect();
        let candidates: Vec<Candidate> = indices
            .iter()
            .map(|&index| {
                let rival = &rivals[index];
                // Only a measured time or the roofline may keep a rival from being tried: a fit over a few far-away
                // problems can be wrong by a factor, and would never be corrected.
                let expected = match rival.estimate() {
                    Some(Estimate { time, basis: Basis::Measured(_), .. }) if !doubts => Some(time),
                    _ => self.by.experience.least(&self.by.devices, &self.ask.problem, rival),
                };
                // A kernel's default is what others are compared with: only a hopeless one is not tried.
                let is_default = index.checked_sub(1).is_none_or(|at| rivals[at].kernel != rival.kernel);
                let expected =
                    expected.map(|time| if is_default { Nanos(time.0 / DEFAULT_LENIENCE) } else { time });
                Candidate { kernel: rival.kernel, point: rival.point, expected }
            })
            .collect();
        let rules = Rules { timeout: timeout(&self.ask), ..self.ask.rules.clone() };
        let incumbent = incumbent.and_then(|wanted| indices.iter().position(|&index| index == wanted));
        // Points are counted here, each once however often it races.
        let part = self.budget.part(Nanos::MAX);
        let report = race(bench, &candidates, incumbent, &rules, &part, self.ask.progress);
        self.budget.join(&part);
        let started = fresh.into_iter().filter(|&index| bench.has_run(&self.record.rivals[index]));
        started.for_each(|_| self.budget.charge_evaluation());
        let winner = report.winner.map(|winner| indices[winner]);
        let device = indices.first().map_or_else(String::new, |&index| rivals[index].device_id.to_string());
        self.record.apply(Event::Raced { device, rivals: indices.len(), runs: report.runs, winner });
        let noisy = indices.first().and_then(|&index| self.by.devices.get(self.record.rivals[index].device));
        let noisy = noisy.is_some_and(|device| device.facts().habits.noisy) && self.ask.behind.is_some();
        let samples = if noisy { NOISY_ENOUGH } else { ENOUGH_SAMPLES };
        if matches!(report.stopped, StopReason::BudgetSpent) && !enough(&report, &candidates, samples) {
            self.record.apply_once(Event::BudgetEnded { budget_ns: self.ask.budget.0 });
        }
        self.by.note(&mut self.record, indices, &report);
        for (index, time, standing) in before {
            let rival = &mut self.record.rivals[index];
            if rival.estimate().is_some_and(|estimate| estimate.time > time) {
                rival.standing = standing;
            }
        }
        winner
    }

    /// These rivals, without those the number of points asked for does not allow to start: the best estimates stay.
    fn affordable(&mut self, bench: &Guarded<'_>, indices: &[usize], incumbent: Option<usize>) -> Vec<usize> {
        let rivals = &self.record.rivals;
        let (known, mut fresh): (Vec<usize>, Vec<usize>) =
            indices.iter().partition(|&&index| bench.has_run(&rivals[index]));
        let most = self.budget.evaluations_left() as usize;
        if fresh.len() <= most {
            return indices.to_vec();
        }
        let rank = |index: usize| (incumbent != Some(index), rivals[index].rank());
        fresh.sort_by(|&a, &b| {
            let (a, b) = (rank(a), rank(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        fresh.truncate(most);
        self.ask.goal.evals.into_iter().for_each(|evals| self.record.apply_once(Event::EvalsEnded { evals }));
        let mut affordable = [known, fresh].concat();
        affordable.sort_unstable();
        affordable
    }

    /// How rivals of one device compare: handing over is the same for all of them and would hide their differences.
    pub(crate) fn pace(&self, index: usize) -> f64 {
        let rival = &self.record.rivals[index];
        match rival.estimate() {
            Some(estimate) if self.record.terms.objective == Objective::default() => {
                (estimate.time.0 as f64).log2()
            }
            _ => rival.rank(),
        }
    }
}

impl Decider {
    /// Writes a race into the record's rivals, into experience and into wisdom.
    pub(crate) fn note(&self, record: &mut Decision, indices: &[usize], report: &RaceReport) {
        let problem = record.problem;
        let mut condition = None;
        for raced in &report.rivals {
            let index = indices[raced.candidate];
            let rival = &mut record.rivals[index];
            if let Some(failure) = &raced.failure {
                // Whoever could not be tried is worth what was known of it.
                if failure.kind == FailureKind::Untried {
                    let why = format!("{}: {}", rival.name, failure.message);
                    record.apply_once(Event::Untried { why });
                    continue;
                }
                self.record_failure(&problem, rival, failure);
                record.fail(index, failure);
                continue;
            }
            let Some(mut stats) = Stats::of(&raced.samples) else { continue };
            let Some(device) = self.devices.get(rival.device) else { continue };
            self.built(rival.device, rival.kernel, &rival.point);
            rival.build = Nanos(0);
            stats.energy_uj = raced.energy_uj;
            rival.energy_uj = raced.energy_uj;
            let estimate = crate::remembered::estimate_of(&stats);
            rival.standing = self.experience.standing(rival, &record.terms, estimate);
            let now_ms = self.wisdom.now_ms();
            self.experience.note_time(&self.devices, &problem, rival, &stats, now_ms);
            // Of its own samples some may be clean although others use the machine: the shortest counts.
            let spoiled = raced.interfered as usize >= raced.samples.len();
            let known = condition.get_or_insert_with(|| self.condition(device.as_ref()));
            let condition = if spoiled { Condition::Busy } else { known.clone() };
            self.wisdom.record(fact_key(device.as_ref(), &problem, rival, condition), Outcome::Timed(stats));
            if let Some(built) = raced.compiled_in.and_then(|time| Stats::of(&[time.0 as f64])) {
                self.experience.builds.took(rival, built.min_ns);
                let key = fact_key(device.as_ref(), &problem, rival, Condition::Compile);
                self.wisdom.record(key, Outcome::Timed(built));
            }
        }
        let all: usize = report.rivals.iter().map(|raced| raced.samples.len()).sum();
        let spoiled: usize = report.rivals.iter().map(|raced| raced.interfered as usize).sum();
        let busy = condition == Some(Condition::Busy) || all > 0 && SPOILED * spoiled >= all;
        if let (true, Some(rival)) = (busy, indices.first().and_then(|&index| record.rivals.get(index))) {
            let device = rival.device_id.to_string();
            record.apply_once(Event::Busy { device });
        }
    }

    /// The condition under which a device is measured now: its own, and that of the processor that hands it its work.
    pub(crate) fn condition(&self, device: &dyn Device) -> Condition {
        let of = |device: &dyn Device| {
            let facts = device.facts();
            device.state().condition(facts.cores.unwrap_or(facts.threads))
        };
        let host = self.devices.own().iter().find(|other| other.facts().habits.host_memory);
        match (of(device), host.filter(|_| !device.facts().habits.host_memory)) {
            (Condition::Quiet, Some(host)) if !device.facts().habits.recorded => of(host.as_ref()),
            (condition, _) => condition,
        }
    }
}

/// How often a rival was timed.
fn samples(rival: &Rival) -> Option<u32> {
    match rival.estimate()?.basis {
        Basis::Measured(samples) => Some(samples),
        _ => None,
    }
}

/// The longest one run of a race may take.
pub(crate) fn timeout(ask: &Ask<'_>) -> Nanos {
    ask.rules.timeout.min(Nanos((ask.budget.0 / 4).clamp(1, TIMEOUT_MAX.0)))
}

/// Whether a race that the budget ended has still seen enough: everyone who could win was sampled a few times.
fn enough(report: &RaceReport, candidates: &[Candidate], samples: usize) -> bool {
    let best = report.rivals.iter().filter_map(|raced| raced.min()).fold(f64::INFINITY, f64::min);
    report.rivals.iter().all(|raced| {
        let hopeless = candidates[raced.candidate].expected.is_some_and(|time| time.0 as f64 > 4.0 * best);
        let dropped = raced.dropped_after.is_some_and(|after| after > 0);
        raced.failure.is_some() || hopeless || dropped || raced.samples.len() >= samples
    })
}
