//! Searches replayed on a recording, scored by how near to the optimum they come after so many evaluations.

use crate::Recording;
use trimtab_tune::search::{Donor, DonorPoint, RandomNumbers, Seen, Strategy};

/// The evaluations after which quality is reported.
pub const BUDGETS: [usize; 4] = [20, 50, 100, 200];

/// One search: the fraction of the optimum the choice reaches after each evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// After one, two, … evaluations; shorter than the budget if the space was exhausted.
    pub fractions: Vec<f64>,
}

impl Run {
    /// The fraction after that many evaluations, or after the last.
    pub fn after(&self, evals: usize) -> f64 {
        self.fractions[..evals.min(self.fractions.len())].last().copied().unwrap_or(0.0)
    }

    /// Evaluations until within 5 % of the optimum to stay, if ever.
    pub fn evals_to_5pct(&self) -> Option<usize> {
        let outside = self.fractions.iter().rposition(|fraction| *fraction < NEAR).map_or(0, |at| at + 1);
        (outside < self.fractions.len()).then_some(outside + 1)
    }
}

/// Within 5 % of the optimum.
const NEAR: f64 = 0.95;

/// Quality after some evaluations, over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Evaluations.
    pub evals: usize,
    /// Seeds tried.
    pub seeds: usize,
    /// Median fraction of the optimum.
    pub median_fraction: f64,
    /// Mean fraction of the optimum.
    pub mean_fraction: f64,
    /// Share of seeds within 5 % of the optimum.
    pub share_within_5pct: f64,
    /// Median evaluations until within 5 %; absent if half of the seeds never were.
    pub median_evals_to_5pct: Option<usize>,
}

/// Replays a fresh strategy on the recording.
///
/// With `noise` each measurement is one recorded repeat, drawn by that seed, and the choice is scored by its true time. A
/// point that looks like a new best is then measured once more before it is believed; that costs an evaluation too.
pub fn simulate(recording: &Recording, strategy: &mut dyn Strategy, evals: usize, noise: Option<u64>) -> Run {
    let optimum = recording.optimum_ms().unwrap_or(f64::NAN);
    let mut numbers = noise.map(RandomNumbers::new);
    let mut chosen: Option<(f64, f64)> = None;
    let mut fractions = Vec::with_capacity(evals);
    while fractions.len() < evals {
        let Some(at) = strategy.ask() else { break };
        let score = |chosen: Option<(f64, f64)>| chosen.map_or(0.0, |(_, true_ms)| optimum / true_ms);
        let true_ms = recording.rows.get(at).and_then(|row| row.outcome.mean_ms());
        let Some(true_ms) = true_ms else {
            strategy.tell(at, Seen::Failed);
            fractions.push(score(chosen));
            continue;
        };
        let better = |ms: f64| chosen.is_none_or(|(best, _)| ms < best);
        let mut seen_ms = true_ms;
        if let Some(numbers) = &mut numbers {
            let mut measure = || {
                let repeat = numbers.below(recording.repeat_count(at).max(1));
                recording.repeat_ms(at, repeat).unwrap_or(true_ms)
            };
            seen_ms = measure();
            if better(seen_ms) && chosen.is_some() && fractions.len() + 1 < evals {
                fractions.push(score(chosen));
                seen_ms = 0.5 * (seen_ms + measure());
            }
        }
        strategy.tell(at, Seen::Time(seen_ms));
        if better(seen_ms) {
            chosen = Some((seen_ms, true_ms));
        }
        fractions.push(score(chosen));
    }
    Run { fractions }
}

/// Quality over seeds after that many evaluations.
pub fn stats(runs: &[Run], evals: usize) -> Stats {
    let mut fractions: Vec<f64> = runs.iter().map(|run| run.after(evals)).collect();
    fractions.sort_unstable_by(f64::total_cmp);
    let seeds = runs.len();
    let mut needed: Vec<usize> = runs.iter().map(|run| run.evals_to_5pct().unwrap_or(usize::MAX)).collect();
    needed.sort_unstable();
    Stats {
        evals,
        seeds,
        median_fraction: trimtab_tune::median(&fractions).unwrap_or(0.0),
        mean_fraction: fractions.iter().sum::<f64>() / seeds.max(1) as f64,
        share_within_5pct: fractions.iter().filter(|f| **f >= NEAR).count() as f64 / seeds.max(1) as f64,
        median_evals_to_5pct: needed.get(seeds / 2).copied().filter(|needed| *needed != usize::MAX),
    }
}

/// What a recording teaches about the same kernel elsewhere.
pub fn donor_of(recording: &Recording) -> Donor {
    let names = || recording.axes.iter().map(|axis| axis.name.clone());
    let points = recording.rows.iter().map(|row| DonorPoint {
        values: names().zip(row.point.values().iter().copied()).collect(),
        time: row.outcome.mean_ms(),
    });
    Donor { points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::small;
    use trimtab_tune::search::{SearchSpace, strategy};

    #[test]
    fn a_search_is_scored_by_the_best_so_far_and_failures_cost_an_evaluation() {
        let recording = small();
        let space = std::sync::Arc::new(SearchSpace::new(&recording.space()));
        let mut sweep = strategy("sweep", &space, 0, &[]).unwrap();
        let run = simulate(&recording, sweep.as_mut(), 100, None);
        assert_eq!(run.fractions.len(), recording.rows.len());
        assert!(run.fractions.is_sorted() && run.after(100) == 1.0 && run.after(0) == 0.0);
        let first = run.evals_to_5pct().unwrap();
        assert!(run.after(first) >= NEAR && run.after(first - 1) < NEAR);
    }

    #[test]
    fn noise_is_the_same_for_the_same_seed_and_scored_by_true_times() {
        let recording = small();
        let space = std::sync::Arc::new(SearchSpace::new(&recording.space()));
        let run =
            |noise| simulate(&recording, strategy("random", &space, 7, &[]).unwrap().as_mut(), 12, noise);
        assert_eq!(run(Some(1)), run(Some(1)));
        let optimum = recording.optimum_ms().unwrap();
        for fraction in run(Some(2)).fractions {
            let known = |time: f64| (optimum / time - fraction).abs() < 1e-12;
            assert!(fraction == 0.0 || recording.rows.iter().filter_map(|r| r.outcome.mean_ms()).any(known));
        }
    }

    #[test]
    fn statistics_are_over_seeds() {
        let run = |fractions: &[f64]| Run { fractions: fractions.to_vec() };
        let runs = [run(&[0.5, 0.96]), run(&[0.99, 1.0]), run(&[0.2, 0.3])];
        let first = stats(&runs, 1);
        assert_eq!((first.median_fraction, first.share_within_5pct), (0.5, 1.0 / 3.0));
        let second = stats(&runs, 2);
        assert_eq!((second.median_fraction, second.median_evals_to_5pct, second.seeds), (0.96, Some(2), 3));
        assert_eq!(stats(&[], 1).mean_fraction, 0.0);
    }
}
