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

/// Replays a fresh strategy on the recording. With `noise` each measurement is one recorded repeat, drawn by that seed,
/// and the choice is scored by its true time.
pub fn simulate(recording: &Recording, strategy: &mut dyn Strategy, evals: usize, noise: Option<u64>) -> Run {
    let optimum = recording.optimum_ms().unwrap_or(f64::NAN);
    let mut numbers = noise.map(RandomNumbers::new);
    let mut chosen: Option<(f64, f64)> = None;
    let mut fractions = Vec::with_capacity(evals);
    while fractions.len() < evals {
        let Some(at) = strategy.ask() else { break };
        let true_ms = recording.rows.get(at).and_then(|row| row.outcome.mean_ms());
        let seen = match (&mut numbers, true_ms) {
            (Some(numbers), Some(_)) => {
                recording.repeat_ms(at, numbers.below(recording.repeat_count(at).max(1)))
            }
            _ => true_ms,
        };
        strategy.tell(at, seen.map_or(Seen::Failed, Seen::Time));
        if let (Some(seen), Some(true_ms)) = (seen, true_ms)
            && chosen.is_none_or(|(best, _)| seen < best)
        {
            chosen = Some((seen, true_ms));
        }
        fractions.push(chosen.map_or(0.0, |(_, true_ms)| optimum / true_ms));
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
