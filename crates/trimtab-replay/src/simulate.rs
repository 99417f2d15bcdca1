//! Searches replayed on a recording, scored by how near to the optimum they come after so many evaluations.

use crate::Recording;
use trimtab_core::RandomNumbers;
use trimtab_tune::search::{Donor, DonorPoint, Seen, Strategy};

/// The evaluations after which quality is reported.
pub const BUDGETS: [usize; 4] = [20, 50, 100, 200];

/// One search: the fraction of the optimum the choice reaches after each evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// After one, two, … evaluations; shorter than the budget if the space was exhausted.
    pub fractions: Vec<f64>,
    /// Measurements taken: as many as evaluations, and more where noise made some points be measured again.
    pub measurements: usize,
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
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
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
/// An evaluation is a point the strategy asked for, failed ones included. With `noise` each measurement is one recorded
/// repeat, drawn by that seed, and the choice is scored by its true time. A point that looks nearly as good as the best is
/// then measured a few times more, side by side with the best, before it is believed; [`Run::measurements`] counts them all.
pub fn simulate(recording: &Recording, strategy: &mut dyn Strategy, evals: usize, noise: Option<u64>) -> Run {
    let optimum = recording.optimum_ms().unwrap_or(f64::NAN);
    let mut bench = Repeats { recording, numbers: noise.map(RandomNumbers::new), measurements: 0 };
    let mut best: Option<Measured> = None;
    let mut fractions = Vec::with_capacity(evals);
    while fractions.len() < evals {
        let Some(at) = strategy.ask() else { break };
        match bench.measure(at) {
            Some(mut measured) => {
                let wins = best.as_mut().is_none_or(|best| bench.beats(&mut measured, best));
                strategy.tell(at, Seen::Time(measured.ms()));
                if wins {
                    best = Some(measured);
                }
            }
            None => strategy.tell(at, Seen::Failed),
        }
        let true_ms = best.as_ref().and_then(|best| recording.rows[best.at].outcome.mean_ms());
        fractions.push(true_ms.map_or(0.0, |true_ms| optimum / true_ms));
    }
    Run { fractions, measurements: bench.measurements }
}

/// A point that is within this factor of the best may be better in truth …
const NEARLY: f64 = 1.05;
/// … and is compared by the median of so many repeats of both, or until it is out of reach.
const REPEATS: usize = 5;

/// What was measured of a point.
struct Measured {
    at: usize,
    /// Ascending.
    repeats_ms: Vec<f64>,
}

impl Measured {
    /// The middle repeat; of an even number the faster of the two.
    fn ms(&self) -> f64 {
        self.repeats_ms[(self.repeats_ms.len() - 1) / 2]
    }
}

/// Measures points of a recording.
struct Repeats<'a> {
    recording: &'a Recording,
    /// Which repeats are drawn; without, a measurement is the mean of all.
    numbers: Option<RandomNumbers>,
    measurements: usize,
}

impl Repeats<'_> {
    /// Measures a point once; nothing if it failed.
    fn measure(&mut self, at: usize) -> Option<Measured> {
        self.measurements += 1;
        Some(Measured { at, repeats_ms: vec![self.once(at)?] })
    }

    fn once(&mut self, at: usize) -> Option<f64> {
        let mean_ms = self.recording.rows.get(at)?.outcome.mean_ms()?;
        let Some(numbers) = &mut self.numbers else { return Some(mean_ms) };
        let repeat = numbers.below(self.recording.repeat_count(at).max(1));
        self.recording.repeat_ms(at, repeat)
    }

    /// Measures a point once more.
    fn again(&mut self, measured: &mut Measured) {
        if let Some(ms) = self.once(measured.at) {
            self.measurements += 1;
            let place = measured.repeats_ms.partition_point(|other| *other <= ms);
            measured.repeats_ms.insert(place, ms);
        }
    }

    /// Whether a new point is better than the best; both are measured again while that is open.
    fn beats(&mut self, new: &mut Measured, best: &mut Measured) -> bool {
        while self.numbers.is_some() && new.ms() < best.ms() * NEARLY {
            if new.repeats_ms.len() <= best.repeats_ms.len() && new.repeats_ms.len() < REPEATS {
                self.again(new);
            } else if best.repeats_ms.len() < REPEATS {
                self.again(best);
            } else {
                break;
            }
        }
        new.ms() < best.ms()
    }
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
