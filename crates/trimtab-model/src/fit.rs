//! What measurements of one kernel say about problems it was not measured on.
//!
//! A sum of terms fitted on relative errors, corrected by what the nearest observations say; at large distances the
//! sum alone counts. On 600 GEMM shapes linear plus four neighbours lost 7 % to the oracle after 100 measured shapes,
//! where one neighbour lost 12 % and the best single variant 26 %.

use crate::linear::{self, Linear, TERMS};
use crate::roofline::LONGEST_NS;
use crate::{FEATURES, Roofline};
use trimtab_core::{Basis, Estimate, Nanos, Work};

/// Most observations kept for correcting; of more, the last ones. Bounds a prediction to a microsecond.
pub const MAX_NEIGHBOURS: usize = 128;

/// Neighbours a correction is made of.
const NEAREST: usize = 4;
/// Softens distances: observations within half a doubling count alike. In squared doublings.
const NEAR: f64 = 0.25;
/// The weight of "no correction": that of one observation at a distance of one doubling.
const NO_CORRECTION: f64 = 1.0 / (1.0 + NEAR);
/// The most a correction changes a prediction, in doublings.
const MOST_CORRECTION: f64 = 4.0;
/// The least and the greatest spread a fit claims, in doublings.
const SPREAD: (f64, f64) = (0.03, 2.0);
/// The spread assumed of a fit before its own errors are known, in doublings; counts as much as one observation.
const SPREAD_PRIOR: f64 = 0.7;
/// What a doubling of distance to the nearest observation adds to the spread, in doublings.
const SPREAD_PER_DOUBLING: f64 = 0.12;
/// Nothing is expected to be more than this many times as efficient as the best that was observed.
const MOST_EFFICIENT: f64 = 2.0;

const ROW: usize = FEATURES + 1;

/// One measurement of the kernel: what it did, what that should take, what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// What the launch did.
    pub work: Work,
    /// What that takes by the device's rates.
    pub roofline: Roofline,
    /// What it took: the minimum of the samples.
    pub measured_ns: f64,
    /// Where the problem and the point lie; see [`features`](crate::features).
    pub sizes: [f64; FEATURES],
}

/// A model of one kernel for one operation and element type on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    linear: Linear,
    /// Truth over roofline of the most efficient observation.
    best_ratio: f64,
    neighbours: Vec<Neighbour>,
    observations: u32,
    spread_log2: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Neighbour {
    row: [f64; ROW],
    /// log2 of truth over the sum of terms.
    residual: f64,
}

impl Fit {
    /// A fit over these measurements; `None` without a usable one. Times that are not positive numbers are left out.
    pub fn new(observations: &[Observation]) -> Option<Fit> {
        let usable = |o: &&Observation| o.measured_ns > 0.0 && o.measured_ns <= LONGEST_NS;
        let used: Vec<&Observation> = observations.iter().filter(usable).collect();
        if used.is_empty() {
            return None;
        }
        let terms: Vec<[f64; TERMS]> = used.iter().map(|o| terms(&o.roofline)).collect();
        let times: Vec<f64> = used.iter().map(|o| o.measured_ns).collect();
        let (linear, left_out) = linear::fit(&terms, &times);
        let ratios = used.iter().map(|o| o.measured_ns / o.roofline.total_ns());
        let mut fit = Fit {
            linear,
            best_ratio: ratios.fold(f64::INFINITY, f64::min),
            neighbours: Vec::with_capacity(used.len().min(MAX_NEIGHBOURS)),
            observations: used.len() as u32,
            spread_log2: SPREAD_PRIOR,
        };
        let first = used.len().saturating_sub(MAX_NEIGHBOURS);
        for o in &used[first..] {
            let residual = (o.measured_ns / fit.sum_ns(&o.roofline)).log2();
            fit.neighbours.push(Neighbour { row: row(&o.work, &o.sizes), residual });
        }
        fit.spread_log2 = fit.left_out_spread(&left_out[first..]);
        Some(fit)
    }

    /// How many measurements it rests on.
    pub fn observations(&self) -> u32 {
        self.observations
    }

    /// The typical error on a problem that was not measured, in doublings: from leaving each observation out.
    pub fn spread_log2(&self) -> f64 {
        self.spread_log2
    }

    /// The expected time of a launch. Allocates nothing.
    pub fn predict(&self, work: &Work, roofline: &Roofline, sizes: &[f64; FEATURES]) -> Estimate {
        let (correction, distance) = self.correction(&row(work, sizes), |_| true);
        let ns = self.sum_ns(roofline) * correction.exp2();
        let far = SPREAD_PER_DOUBLING * distance;
        let spread = (self.spread_log2 * self.spread_log2 + far * far).sqrt();
        Estimate {
            time: Nanos(if ns.is_finite() { ns.round().clamp(1.0, LONGEST_NS) } else { LONGEST_NS } as u64),
            spread_log2: if spread.is_finite() { spread.clamp(SPREAD.0, SPREAD.1) } else { SPREAD.1 },
            basis: Basis::Fitted(self.observations),
        }
    }

    /// The sum of terms alone, in nanoseconds, without what the nearest observations say.
    pub fn sum_ns(&self, roofline: &Roofline) -> f64 {
        let least = self.best_ratio / MOST_EFFICIENT * roofline.total_ns();
        let sum = self.linear.at(&terms(roofline));
        if sum.is_finite() { sum.max(least).clamp(0.5, LONGEST_NS) } else { LONGEST_NS }
    }

    /// What the nearest observations say about the error of the sum, in doublings, and how far the nearest is.
    fn correction(&self, at: &[f64; ROW], counts: impl Fn(f64) -> bool) -> (f64, f64) {
        let mut nearest = [(f64::INFINITY, 0.0); NEAREST];
        for neighbour in &self.neighbours {
            let distance: f64 = neighbour.row.iter().zip(at).map(|(a, b)| (a - b) * (a - b)).sum();
            if distance < nearest[NEAREST - 1].0 && counts(distance) {
                let mut place = NEAREST - 1;
                while place > 0 && distance < nearest[place - 1].0 {
                    nearest[place] = nearest[place - 1];
                    place -= 1;
                }
                nearest[place] = (distance, neighbour.residual);
            }
        }
        let (mut weights, mut sum) = (0.0, 0.0);
        for (distance, residual) in nearest {
            let weight = 1.0 / (distance + NEAR);
            weights += weight;
            sum += weight * residual;
        }
        // An observation of this very problem is trusted nearly fully; one far away hardly.
        let silence = NO_CORRECTION * (nearest[0].0 / (nearest[0].0 + NEAR)).min(1.0);
        let silence = if silence.is_nan() { NO_CORRECTION } else { silence };
        let correction = sum / (weights + silence);
        (correction.clamp(-MOST_CORRECTION, MOST_CORRECTION), nearest[0].0.sqrt())
    }

    /// The root mean square error of predictions made without the observation itself, mixed with the prior.
    fn left_out_spread(&self, left_out: &[f64]) -> f64 {
        let mut squares = SPREAD_PRIOR * SPREAD_PRIOR;
        for (neighbour, residual) in self.neighbours.iter().zip(left_out) {
            // Observations of the same problem and point would make unseen ones look easy.
            let (correction, _) = self.correction(&neighbour.row, |distance| distance > 1e-9);
            let error = residual - correction;
            squares += error * error;
        }
        (squares / (1.0 + left_out.len() as f64)).sqrt().clamp(SPREAD.0, SPREAD.1)
    }
}

fn terms(roofline: &Roofline) -> [f64; TERMS] {
    let bounded = |ns: f64| if ns > 0.0 { ns.min(LONGEST_NS) } else { 0.0 };
    [
        1.0,
        bounded(roofline.flop_ns),
        bounded(roofline.byte_ns),
        bounded(roofline.launch_ns),
        roofline.total_ns(),
    ]
}

fn row(work: &Work, sizes: &[f64; FEATURES]) -> [f64; ROW] {
    let mut row = [0.0; ROW];
    for (slot, size) in row.iter_mut().zip(sizes) {
        *slot = if size.is_finite() { *size } else { 0.0 };
    }
    row[FEATURES] = f64::from(work.threads.max(1)).log2();
    row
}
