//! The second round as a search: where a kernel has too many points to race them all, a strategy says which to measure next.
//!
//! Points are measured one at a time by the rules of the race, with the same notes, intents and facts; those that come close
//! run off afterwards like all others.

use crate::decide::{Ask, Deciding};
use crate::donors::donors;
use crate::event::{Event, SearchEnd};
use crate::field;
use crate::guard::Guarded;
use crate::measure::timeout;
use crate::plan::{Rival, Standing};
use crate::record::Decision;
use crate::strategy_name::StrategyName;
use std::sync::Arc;
use trimtab_core::{FailureKind, KernelId, Nanos, Objective, Space};
use trimtab_tune::search::{SearchSpace, Seen, Strategy, strategy};
use trimtab_tune::{Budget, Candidate, Progress, RaceReport, Raced, Rules, race};

/// Kernels within this factor of the first round's best are searched: in recorded spaces half of the points are three times
/// as slow as the best, and a default may be one of the others.
const SEARCH_FACTOR: f64 = 8.0;
/// A kernel is given up if after so many of its points …
const FAIR_TRIAL: u32 = 16;
/// … its best is this many times slower than that of another.
const GIVEN_UP_FACTOR: f64 = 1.6;
/// Without a strategy or a number of evaluations asked for, a search ends after so many points without a better one.
const STALLED: u32 = 150;
/// Samples of a point that is not clearly slow.
const PROBE_SAMPLES: u32 = 2;
/// A point that does not finish in this time, or in [`Rules::slow_factor`] times the best, hangs. Less than a race allows:
/// a space may have many of them.
const HANGS_AFTER: Nanos = Nanos::from_millis(250);
/// Points in a row that could not be tried, for reasons not their own, after which a search ends.
const MAX_UNTRIED: u32 = 8;

/// What a search may use.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The time that must be left when it ends.
    pub reserve: Nanos,
    /// Points it may measure.
    pub evaluations: u32,
}

/// One kernel being searched.
struct Search {
    strategy: Box<dyn Strategy>,
    /// Its rivals by position in the space.
    members: Vec<usize>,
    /// The time of its best point.
    best: f64,
    probed: u32,
    /// Points probed since the best was found.
    idle: u32,
}

impl Deciding<'_> {
    /// The kernels of a device that have more points than are raced whole; with a strategy asked for, more than one.
    pub(crate) fn searched(&self, device: u16, whole: usize) -> Vec<KernelId> {
        let goal = &self.ask.goal;
        let whole = match goal.strategy {
            Some(_) => 1,
            None => whole.min(goal.evals.map_or(usize::MAX, |evals| evals.max(1) as usize)),
        };
        let mut counts: Vec<(KernelId, usize)> = Vec::new();
        for rival in self.record.rivals.iter().filter(|rival| rival.device == device && rival.is_open()) {
            match counts.last_mut() {
                Some((kernel, count)) if *kernel == rival.kernel => *count += 1,
                _ => counts.push((rival.kernel, 1)),
            }
        }
        counts.into_iter().filter(|(_, count)| *count > whole).map(|(kernel, _)| kernel).collect()
    }

    /// Searches these kernels in turn and names the fastest rival known then.
    pub(crate) fn search(
        &mut self,
        bench: &mut Guarded<'_>,
        device: u16,
        kernels: &[KernelId],
        leader: Option<usize>,
        limits: Limits,
    ) -> Option<usize> {
        let name = self.ask.goal.strategy.unwrap_or(StrategyName::DEFAULT);
        let mut searches: Vec<Search> =
            kernels.iter().filter_map(|&kernel| self.begin(device, kernel, name)).collect();
        let first_best = leader.map(|leader| time(&self.record, leader));
        // Whoever failed so far may still have points that run.
        searches.retain(|search| {
            let close = first_best.is_none_or(|best| search.best <= best * SEARCH_FACTOR);
            close || search.best.is_infinite() && failed(&self.record, &search.members)
        });
        searches.sort_by(|a, b| a.best.total_cmp(&b.best));
        if searches.is_empty() {
            return leader;
        }
        let endless = self.ask.goal.strategy.is_some() || self.ask.goal.evals.is_some();
        let space: usize = searches.iter().map(|search| search.members.len()).sum();
        let (mut leader, mut turn, mut untried, mut evaluated, mut runs) = (leader, 0, 0, 0, 0);
        let out_of_time = SearchEnd::Time(self.ask.budget.0);
        let ended = loop {
            let best = leader.map(|leader| time(&self.record, leader));
            if best.is_some_and(|best| self.budget.is_good_enough(best)) {
                break SearchEnd::GoodEnough;
            }
            let left = self.budget.left().saturating_sub(limits.reserve);
            if searches.is_empty() {
                break SearchEnd::Spent;
            } else if evaluated >= limits.evaluations || self.budget.evaluations_left() == 0 {
                break SearchEnd::Evaluations;
            } else if left == Nanos(0) {
                break out_of_time;
            }
            turn %= searches.len();
            let search = &mut searches[turn];
            let next = search.strategy.ask().and_then(|at| Some((at, *search.members.get(at)?)));
            let Some((at, index)) = next else {
                searches.remove(turn);
                continue;
            };
            let part = self.budget.part(left);
            let report =
                probe(bench, &self.record.rivals[index], leader.zip(best), &mut self.ask, &part, space);
            self.budget.join(&part);
            runs += report.runs;
            let Some(raced) = report.rivals.first() else { break out_of_time };
            if raced.failure.is_none() && raced.samples.is_empty() {
                break out_of_time;
            }
            let is_untried = raced.failure.as_ref().is_some_and(|fail| fail.kind == FailureKind::Untried);
            untried = if is_untried { untried + 1 } else { 0 };
            if !is_untried {
                self.budget.charge_evaluation();
                evaluated += 1;
                search.probed += 1;
            }
            self.by.note(&mut self.record, &[index], &report);
            let record = &self.record;
            let seen = seen(record, index).or_else(|| excluded(record, raced)).unwrap_or(Seen::Failed);
            search.strategy.tell(at, seen);
            search.idle += 1;
            if let Some(ns) = seen.time().filter(|ns| *ns < search.best) {
                (search.best, search.idle) = (ns, 0);
            }
            if record.rivals[index].is_measured() && best.is_none_or(|best| time(record, index) < best) {
                leader = Some(index);
            }
            if untried >= MAX_UNTRIED {
                break SearchEnd::Untried(MAX_UNTRIED);
            }
            let best = leader.map_or(f64::INFINITY, |leader| time(record, leader));
            let behind = search.probed >= FAIR_TRIAL && search.best > best * GIVEN_UP_FACTOR;
            if behind || !endless && search.idle >= STALLED {
                searches.remove(turn);
            } else {
                turn += 1;
            }
        };
        if let (SearchEnd::Evaluations, Some(evals)) = (ended, self.ask.goal.evals) {
            self.record.apply_once(Event::EvalsEnded { evals });
        }
        self.record.apply(Event::Searched { strategy: name, evaluated, space, runs, ended });
        leader
    }

    /// Sets up the search of a kernel: its legal points, what is known of them, and what others know.
    fn begin(&self, device: u16, kernel: KernelId, name: StrategyName) -> Option<Search> {
        let Decision { problem, rivals, .. } = &self.record;
        let is_member = |rival: &Rival| {
            let legal = rival.is_open() || matches!(rival.standing, Standing::Quarantined(_));
            rival.device == device && rival.kernel == kernel && legal
        };
        let members: Vec<usize> = (0..rivals.len()).filter(|&index| is_member(&rivals[index])).collect();
        let points = members.iter().map(|&index| rivals[index].point).collect();
        let on = self.by.devices.get(device)?;
        let axes = on.space(kernel, problem).axes().to_vec();
        let space = Arc::new(SearchSpace::new(&Space::new(axes, points)));
        let fingerprint = &on.facts().fingerprint.0;
        let rival = rivals.get(*members.first()?)?;
        let donors = donors(&self.by.wisdom, fingerprint, problem, rival);
        let seed = field::seed(&[fingerprint, &rival.name, &problem.to_string()]);
        let mut strategy = strategy(name.name(), &space, seed, &donors)?;
        let mut best = f64::INFINITY;
        for (at, &index) in members.iter().enumerate() {
            if let Some(seen) = seen(&self.record, index) {
                best = best.min(seen.time().unwrap_or(f64::INFINITY));
                strategy.tell(at, seen);
            }
        }
        Some(Search { strategy, members, best, probed: 0, idle: 0 })
    }
}

/// Measures one point: a single run shows whether it works and is anywhere near the best, then a batch or two.
///
/// The point runs alone. What disturbs a run only adds to its time, so no point looks better than it is, and what drifts
/// is put right by the run-off; measuring the best along with every point would double what a search costs.
fn probe(
    bench: &mut Guarded<'_>,
    rival: &Rival,
    best: Option<(usize, f64)>,
    ask: &mut Ask<'_>,
    budget: &Budget,
    space: usize,
) -> RaceReport {
    let candidates = [Candidate { kernel: rival.kernel, point: rival.point, expected: None }];
    let hangs = best.map_or(Nanos::MAX, |(_, ns)| Nanos((ns * ask.rules.slow_factor) as u64));
    let light = Rules {
        timeout: timeout(ask).min(hangs.max(HANGS_AFTER)),
        dropping: false,
        min_samples: 0,
        max_samples: 0,
        ..ask.rules.clone()
    };
    let (clearly, trusted) = (ask.rules.ladder[1], ask.rules.warm_up_trusted_from.0 as f64);
    let mut tell = |progress: &Progress| {
        (ask.progress)(&Progress { racing: space, best: best.or(progress.best), ..*progress });
    };
    let first = race(bench, &candidates, None, &light, budget, &mut tell);
    let Some(raced) = first.rivals.first().filter(|raced| raced.failure.is_none()) else { return first };
    let Some(ns) = raced.min() else { return first };
    if raced.interfered == 0 && ns >= trusted && best.is_some_and(|(_, best)| ns > clearly * best) {
        return first;
    }
    let samples = if ask.accept_partial { 1 } else { PROBE_SAMPLES };
    let rules = Rules { min_samples: samples, max_samples: samples, confirm_samples: samples, ..light };
    let mut again = race(bench, &candidates, None, &rules, budget, &mut tell);
    again.runs += first.runs;
    match again.rivals.first_mut() {
        Some(known) if known.failure.is_some() || !known.samples.is_empty() => {
            known.compiled_in = known.compiled_in.or(raced.compiled_in);
            again
        }
        // There was no time for more than the first run.
        _ => RaceReport { runs: again.runs, ..first },
    }
}

/// What is comparable of a rival that was measured: its time, or with weights what its score is worth in time.
fn time(record: &Decision, index: usize) -> f64 {
    let rival = &record.rivals[index];
    match rival.estimate() {
        Some(estimate) if record.terms.objective == Objective::default() => estimate.time.0 as f64,
        _ => rival.rank().exp2(),
    }
}

/// What is known of a rival by measuring.
fn seen(record: &Decision, index: usize) -> Option<Seen> {
    let rival = &record.rivals[index];
    match &rival.standing {
        Standing::Quarantined(_) => Some(Seen::Failed),
        _ => rival.is_measured().then(|| Seen::Time(time(record, index))),
    }
}

/// The time of a point that ran but breaks a limit.
fn excluded(record: &Decision, raced: &Raced) -> Option<Seen> {
    let comparable = record.terms.objective == Objective::default() && raced.failure.is_none();
    raced.min().filter(|_| comparable).map(Seen::Time)
}

/// Whether any of these rivals failed.
fn failed(record: &Decision, members: &[usize]) -> bool {
    members.iter().any(|&index| matches!(record.rivals[index].standing, Standing::Quarantined(_)))
}
