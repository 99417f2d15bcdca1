//! How good choices and predictions were, by what live calls took. Computed from facts; nothing is measured here.

use crate::remembered::estimate_of;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Mutex;
use trimtab_core::{Basis, Condition, Estimate};
use trimtab_model::learn::Ledger;
use trimtab_wisdom::{Fact, FactKey, Outcome, Stats};

/// Samples a rival must have to count as the better one, or a live time to be compared with what was expected: one call may
/// have been disturbed.
const FEWEST_SAMPLES: u64 = 3;
/// An expected time covers what lies within so many of its spreads, either way.
pub const COVERED_SPREADS: f64 = 2.0;
/// Plans whose expected times are kept for comparison; more are left out.
const MAX_PLANS: usize = 4096;

/// What choices cost against the best rival that live calls tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Regret {
    /// The operation.
    pub operation: String,
    /// The device's fingerprint.
    pub device: String,
    /// Problems in which another was tried often enough to be compared.
    pub problems: usize,
    /// Calls of them that tried others.
    pub calls: u64,
    /// How many times as long as the best rival tried the plan in force took: the geometric mean over problems, …
    pub geomean: f64,
    /// … and what 95 % of them stay within.
    pub p95: f64,
}

/// How near expected times were to what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Kernels on problems that could be compared.
    pub compared: usize,
    /// The mean of the differences, as a share of what was measured.
    pub mape: f64,
    /// The share of measured times within [`COVERED_SPREADS`] of the expected ones, of those that have a spread: a time that was
    /// measured once has none.
    pub covered: Option<f64>,
}

/// What trying others cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spent {
    /// Calls that tried others.
    pub calls: u64,
    /// What they took beyond what the plan in force takes.
    pub extra_ns: f64,
    /// What all timed calls took.
    pub live_ns: f64,
}

/// How much a kernel was used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Used {
    /// The device's fingerprint.
    pub device: String,
    /// The kernel.
    pub kernel: String,
    /// Timed calls.
    pub calls: u64,
    /// What they took.
    pub ns: f64,
}

/// What live calls of this process showed. What outlives it is computed from wisdom by the functions beside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LiveStats {
    /// Timed calls that were taken in.
    pub timed: u64,
    /// Reports that were dropped because too many came at once.
    pub dropped: u64,
    /// Launches that failed and were answered by another kernel.
    pub failed: u64,
    /// What all timed calls took, and what went into trying others.
    pub ledger: Ledger,
    /// Results of which a part was computed again, and those of them that were wrong.
    pub audits: u64,
    /// See [`LiveStats::audits`].
    pub wrong: u64,
    /// Plans that were settled in the background, and those that wait for it.
    pub settled: u64,
    /// See [`LiveStats::settled`].
    pub unsettled: u64,
    /// Plans that live calls or the background changed, live resize left aside.
    pub changed: u64,
    /// Kernels that took longer or shorter than known for a while, what the whole machine did divided out.
    pub noticed: u64,
    /// Those of them that were still so when measured side by side with the next best.
    pub confirmed: u64,
    /// Expected times of plans against what their calls took, by what they rested on: `measured`, `learned`,
    /// `fitted`, `analytic`.
    pub accuracy: Vec<(&'static str, Accuracy)>,
}

type OnDevice<'a> = (&'a str, &'a str);

fn times(facts: &[Fact], condition: Condition) -> impl Iterator<Item = (&FactKey, &Stats)> {
    facts.iter().filter(move |fact| fact.key.condition == condition).filter_map(|fact| match &fact.outcome {
        Outcome::Timed(stats) if stats.n > 0 => Some((&fact.key, stats)),
        _ => None,
    })
}

fn by_place<'a>(
    facts: &'a [Fact],
    condition: Condition,
) -> BTreeMap<OnDevice<'a>, Vec<(&'a FactKey, Stats)>> {
    let mut places: BTreeMap<OnDevice<'a>, Vec<(&'a FactKey, Stats)>> = BTreeMap::new();
    for (key, stats) in times(facts, condition) {
        places.entry((&key.device, &key.problem)).or_default().push((key, *stats));
    }
    places
}

fn together(all: &[(&FactKey, Stats)]) -> Option<Stats> {
    all.iter().map(|(_, stats)| *stats).reduce(|all, one| all.merge(&one))
}

/// What choices cost, by operation and device: the plan in force against the best of those tried beside it.
pub fn regrets(facts: &[Fact]) -> Vec<Regret> {
    let (chosen, explored) = (by_place(facts, Condition::Chosen), by_place(facts, Condition::Explored));
    let mut ratios: BTreeMap<(String, String), (Vec<f64>, u64)> = BTreeMap::new();
    for (place, tried) in &explored {
        let Some(own) = chosen.get(place).and_then(|chosen| together(chosen)).map(|own| own.mean()) else {
            continue;
        };
        let fair = tried.iter().filter(|(_, stats)| stats.n >= FEWEST_SAMPLES);
        // Without anyone tried often enough there is nothing to compare with.
        let Some(best) = fair.map(|(_, stats)| stats.mean()).reduce(f64::min) else { continue };
        let best = best.min(own);
        if own > 0.0 && best > 0.0 {
            let operation = place.1.split(':').next().unwrap_or_default().to_string();
            let entry = ratios.entry((operation, place.0.to_string())).or_default();
            entry.0.push(own / best);
            entry.1 += tried.iter().map(|(_, stats)| stats.n).sum::<u64>();
        }
    }
    let regret = |((operation, device), (mut ratios, calls)): (_, (Vec<f64>, u64))| {
        ratios.sort_by(f64::total_cmp);
        let rank = (0.95 * ratios.len() as f64).ceil() as usize;
        let geomean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let p95 = ratios.get(rank.saturating_sub(1)).copied().unwrap_or(1.0);
        Regret { operation, device, problems: ratios.len(), calls, geomean, p95 }
    };
    ratios.into_iter().map(regret).collect()
}

/// What trying others cost; nothing if nothing was tried.
pub fn explored(facts: &[Fact]) -> Option<Spent> {
    let (chosen, tried) = (by_place(facts, Condition::Chosen), by_place(facts, Condition::Explored));
    let mut spent = Spent { calls: 0, extra_ns: 0.0, live_ns: 0.0 };
    for (place, tried) in &tried {
        let own = chosen.get(place).and_then(|chosen| together(chosen)).map(|own| own.mean());
        // What a call took longer is known only beside what is usual.
        let Some(own) = own else { continue };
        for (_, stats) in tried {
            spent.calls += stats.n;
            spent.extra_ns += (stats.sum_ns - own * stats.n as f64).max(0.0);
        }
    }
    spent.live_ns = times(facts, Condition::Live).map(|(_, stats)| stats.sum_ns).sum();
    (spent.calls > 0).then_some(spent)
}

/// Times measured ahead against what live calls of the same kernel, settings and problem took.
pub fn accuracy(facts: &[Fact]) -> Option<Accuracy> {
    let name = |key: &FactKey| FactKey { condition: Condition::default(), ..key.clone() };
    let mut ahead: FxHashMap<FactKey, Estimate> = FxHashMap::default();
    // What was measured on a quiet machine is believed first.
    for condition in [Condition::Busy, Condition::Quiet] {
        ahead.extend(times(facts, condition).map(|(key, stats)| (name(key), estimate_of(stats))));
    }
    let live = times(facts, Condition::Live).filter(|(_, live)| live.n >= FEWEST_SAMPLES);
    compare(live.filter_map(|(key, live)| Some((*ahead.get(&name(key))?, live.mean()))))
}

/// Kernels by timed live calls, the most used first.
pub fn used(facts: &[Fact]) -> Vec<Used> {
    let mut kernels: BTreeMap<OnDevice<'_>, (u64, f64)> = BTreeMap::new();
    for (key, stats) in times(facts, Condition::Live) {
        let entry = kernels.entry((&key.device, &key.kernel)).or_default();
        *entry = (entry.0 + stats.n, entry.1 + stats.sum_ns);
    }
    let used = |((device, kernel), (calls, ns)): (OnDevice<'_>, (u64, f64))| Used {
        device: device.to_string(),
        kernel: kernel.to_string(),
        calls,
        ns,
    };
    let mut used: Vec<Used> = kernels.into_iter().map(used).collect();
    used.sort_by_key(|used| std::cmp::Reverse(used.calls));
    used
}

/// Expected times against what they should have been.
pub(crate) fn compare(pairs: impl Iterator<Item = (Estimate, f64)>) -> Option<Accuracy> {
    let (mut compared, mut off, mut spread, mut covered) = (0_usize, 0.0, 0_usize, 0_usize);
    for (expected, ns) in pairs {
        let expected_ns = expected.time.0 as f64;
        if expected_ns <= 0.0 || ns <= 0.0 || !expected.spread_log2.is_finite() {
            continue;
        }
        compared += 1;
        off += (expected_ns - ns).abs() / ns;
        if let Some(known) = expected.known_spread() {
            spread += 1;
            covered += usize::from((ns / expected_ns).log2().abs() <= COVERED_SPREADS * known);
        }
    }
    let covered = (spread > 0).then(|| covered as f64 / spread as f64);
    (compared > 0).then(|| Accuracy { compared, mape: off / compared as f64, covered })
}

/// Counts, and expected times beside live ones, of this process. Only draining and deciding come here.
#[derive(Default)]
pub(crate) struct LiveCounts {
    counts: Mutex<LiveStats>,
    plans: Mutex<FxHashMap<u32, (Estimate, Option<Stats>)>>,
}

impl LiveCounts {
    /// A plan was put in force on that estimate.
    pub(crate) fn expects(&self, id: u32, estimate: Estimate) {
        if let Ok(mut plans) = self.plans.lock()
            && id != 0
            && (plans.len() < MAX_PLANS || plans.contains_key(&id))
        {
            plans.entry(id).or_insert((estimate, None));
        }
    }

    /// Live calls of a plan.
    pub(crate) fn ran(&self, id: u32, stats: &Stats) {
        self.count(|counts| counts.timed += stats.n);
        if let Ok(mut plans) = self.plans.lock()
            && let Some((_, live)) = plans.get_mut(&id)
        {
            *live = Some(live.map_or(*stats, |live| live.merge(stats)));
        }
    }

    /// Something happened that is counted.
    pub(crate) fn count(&self, add: impl FnOnce(&mut LiveStats)) {
        if let Ok(mut counts) = self.counts.lock() {
            add(&mut counts);
        }
    }

    /// Everything so far.
    pub(crate) fn stats(&self) -> LiveStats {
        let mut stats = self.counts.lock().map(|counts| counts.clone()).unwrap_or_default();
        if let Ok(plans) = self.plans.lock() {
            for basis in [Basis::Measured(0), Basis::Learned(0), Basis::Fitted(0), Basis::Analytic] {
                let same = |estimate: &Estimate| estimate.basis.name() == basis.name();
                let live = plans.values().filter_map(|(estimate, live)| Some((*estimate, (*live)?)));
                let enough = live.filter(|(_, live)| live.n >= FEWEST_SAMPLES);
                let pairs = enough.map(|(estimate, live)| (estimate, live.mean()));
                let accuracy = compare(pairs.filter(|(estimate, _)| same(estimate)));
                stats.accuracy.extend(accuracy.map(|accuracy| (basis.name(), accuracy)));
            }
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::Nanos;

    fn fact(kernel: &str, problem: &str, condition: Condition, samples: &[f64]) -> Fact {
        let key = FactKey {
            device: "cpu".into(),
            kernel: kernel.into(),
            problem: problem.into(),
            condition,
            ..FactKey::default()
        };
        let outcome = Outcome::Timed(Stats::of(samples).unwrap());
        Fact { key, origin: "o".into(), outcome, last_seen_ms: 1 }
    }

    #[test]
    fn regret_is_the_plan_in_force_over_the_best_that_was_tried_often_enough() {
        let facts = [
            fact("own", "matmul:f32:1x1x1", Condition::Chosen, &[120.0, 120.0, 120.0, 120.0]),
            fact("other", "matmul:f32:1x1x1", Condition::Explored, &[100.0, 100.0, 100.0]),
            fact("lucky", "matmul:f32:1x1x1", Condition::Explored, &[10.0]),
            fact("own", "matmul:f32:2x2x2", Condition::Chosen, &[100.0, 100.0, 100.0]),
            fact("other", "matmul:f32:2x2x2", Condition::Explored, &[150.0, 150.0, 150.0]),
            fact("own", "reduce.sum:f32:9", Condition::Live, &[9000.0]),
        ];
        let regrets = regrets(&facts);
        let [regret] = &regrets[..] else { panic!("{regrets:?}") };
        assert_eq!((&*regret.operation, regret.problems, regret.calls), ("matmul", 2, 7));
        assert!((regret.geomean - 1.2f64.sqrt()).abs() < 1e-12 && (regret.p95 - 1.2).abs() < 1e-12);
        assert_eq!(explored(&facts), Some(Spent { calls: 7, extra_ns: 150.0, live_ns: 9000.0 }));
        assert_eq!(explored(&facts[5..]), None);
    }

    #[test]
    fn where_nobody_was_tried_often_enough_there_is_no_regret() {
        let facts = [
            fact("own", "matmul:f32:1x1x1", Condition::Chosen, &[120.0, 120.0]),
            fact("other", "matmul:f32:1x1x1", Condition::Explored, &[500.0, 500.0]),
        ];
        assert_eq!(regrets(&facts), []);
        assert!(explored(&facts).is_some(), "trying has its cost all the same");
    }

    #[test]
    fn accuracy_compares_what_was_measured_ahead_with_live_calls_of_the_same_kernel() {
        let facts = [
            fact("a", "p", Condition::Quiet, &[100.0, 110.0]),
            fact("a", "p", Condition::Busy, &[900.0]),
            fact("a", "p", Condition::Live, &[105.0, 105.0, 105.0]),
            fact("b", "p", Condition::Quiet, &[100.0]),
            fact("b", "p", Condition::Live, &[200.0, 200.0, 200.0]),
            fact("c", "p", Condition::Live, &[1.0, 1.0, 1.0]),
            fact("d", "p", Condition::Quiet, &[100.0]),
            fact("d", "p", Condition::Live, &[500.0]),
        ];
        let told = accuracy(&facts).unwrap();
        // That of `b` was measured once: how far it may be off nobody knows.
        assert_eq!((told.compared, told.covered), (2, Some(1.0)));
        assert!((told.mape - (5.0 / 105.0 + 0.5) / 2.0).abs() < 1e-12);
        assert_eq!(accuracy(&facts[5..6]), None);
        let used: Vec<(String, u64)> =
            used(&facts).into_iter().map(|used| (used.kernel, used.calls)).collect();
        assert_eq!(used, [("a".into(), 3), ("b".into(), 3), ("c".into(), 3), ("d".into(), 1)]);
    }

    #[test]
    fn predictions_of_this_process_are_told_apart_by_what_they_rested_on() {
        let counts = LiveCounts::default();
        let estimate = |basis| Estimate { time: Nanos(100), spread_log2: 0.1, basis };
        counts.expects(1, estimate(Basis::Measured(3)));
        counts.expects(2, estimate(Basis::Analytic));
        counts.expects(4, estimate(Basis::Learned(60)));
        counts.ran(1, &Stats::of(&[100.0; 4]).unwrap());
        counts.ran(2, &Stats::of(&[200.0; 4]).unwrap());
        counts.ran(3, &Stats::of(&[7.0]).unwrap());
        counts.ran(4, &Stats::of(&[80.0; 4]).unwrap());
        let stats = counts.stats();
        assert_eq!(stats.timed, 13);
        let told: Vec<(&str, f64, Option<f64>)> =
            stats.accuracy.iter().map(|(basis, told)| (*basis, told.mape, told.covered)).collect();
        assert_eq!(
            told,
            [("measured", 0.0, Some(1.0)), ("learned", 0.25, Some(0.0)), ("analytic", 0.5, Some(0.0))]
        );
    }
}
