//! A view of what was measured: a Gaussian process, what of the times it looks at, and the points it finds promising.

use super::exact_math;
use super::gaussian::{Gaussian, Shape, Weights};
use super::outlook::{Outlook, Promise};
use super::told::{Subspace, Told};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

/// What an axis is expected to matter, and how surely: weights a factor of four off are one deviation off.
const WEIGHT: f64 = 0.5;
const WEIGHT_DOUBLINGS: f64 = 2.0;
/// The noise expected, as a share of the variance, and how alike points are expected to stay across one axis.
const NOISE: f64 = 0.001;
const FLOOR: f64 = 0.05;
/// Failures tell only about points much alike.
const FAILURE_FLOOR: f64 = 0.001;
/// Other weights tried with every question.
const PROPOSALS: usize = 12;
/// Weights are judged by at most this many observations, the better half always among them.
const JUDGED_BY: usize = 48;
/// Other weights must be this much more likely, or every question would decompose the covariance anew.
const MORE_LIKELY: f64 = 0.02;
/// Times slower than the median count this much of their distance: how bad a bad point is matters little.
const SQUEEZED: f64 = 0.3;
/// Candidates whose uncertainty is computed exactly, at most.
const EXACT: usize = 64;
/// Weight of the belief, before anything was tried, that a point runs as often as others did.
const RUNS_PRIOR: f64 = 0.3;

/// What of the times a view looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// All of them, slow ones squeezed: follows slopes from far away.
    Slopes,
    /// Speeds of the faster half; the slower half is all the same to it. Finds peaks beside cliffs: a setting that can
    /// be a hundred times too slow may still be the best with the right others.
    Peaks,
}

/// One model of the space with its own weights and candidates.
#[derive(Clone, Debug)]
pub(super) struct View {
    sight: Sight,
    gaussian: Gaussian,
    /// Holds a few observations to judge weights by.
    judge: Gaussian,
    /// Holds the failures, to tell how alike a point is to them.
    failures: Gaussian,
    /// Untried points that looked good, best first.
    pub(super) pool: Vec<usize>,
    forgot: u32,
}

/// The observations as a view sees them: mean zero, deviation one.
pub(super) struct Targets {
    pub(super) values: Vec<f64>,
    /// What a unit of the view is in deviations.
    pub(super) scale: f64,
}

/// A candidate and what asking for it would gain.
struct Gain {
    gain: f64,
    runs: f64,
    mean: f64,
    deviation: f64,
    at: usize,
}

impl View {
    pub(super) fn new(sight: Sight, shapes: &Arc<Vec<Shape>>) -> View {
        let weights = Weights { axes: vec![WEIGHT; Shape::weights(shapes)], noise: NOISE, floor: FLOOR };
        let gaussian = Gaussian::new(Arc::clone(shapes), weights);
        let (judge, failures) = (gaussian.clone(), gaussian.clone());
        View { sight, gaussian, judge, failures, pool: Vec::new(), forgot: 0 }
    }

    /// The observations as this view sees them, from within a part of the space.
    pub(super) fn targets(&self, told: &Told, subspace: Option<Subspace>) -> Targets {
        let sorted = |mut values: Vec<f64>| {
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        let middle = |sorted: &[f64]| sorted[(sorted.len() - 1) / 2];
        let of = |subspace| {
            let inside = told.observed.iter().filter(|(at, _)| told.is_inside(*at, subspace));
            sorted(inside.map(|(_, value)| *value).collect())
        };
        let mut values: Vec<f64> = match self.sight {
            Sight::Slopes => {
                let median = middle(&of(None));
                let squeeze =
                    |value: f64| median + (value - median) * if value > median { SQUEEZED } else { 1.0 };
                told.observed.iter().map(|(_, value)| squeeze(*value)).collect()
            }
            Sight::Peaks => {
                let mut own = of(subspace);
                if own.is_empty() {
                    own = of(None);
                }
                let (least, median) = (own[0], middle(&own));
                let speed = |value: f64| {
                    let doublings = least - value.min(median);
                    match doublings > 0.0 {
                        true => 1.0 + SQUEEZED * doublings,
                        false => exact_math::exp(doublings * std::f64::consts::LN_2),
                    }
                };
                told.observed.iter().map(|(_, value)| -speed(*value)).collect()
            }
        };
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        values.iter_mut().for_each(|value| *value -= mean);
        let deviation = (values.iter().map(|value| value * value).sum::<f64>() / count).sqrt();
        let scale = 1.0 / deviation.max(1e-6);
        values.iter_mut().for_each(|value| *value *= scale);
        Targets { values, scale }
    }

    /// Tries other weights on some of the observations, keeps the likeliest, and fits all observations.
    pub(super) fn learn(&mut self, told: &Told, values: &[f64], numbers: &mut RandomNumbers) {
        if self.forgot != told.forgot {
            self.forgot = told.forgot;
            self.gaussian.clear();
        }
        for (at, _) in &told.observed[self.gaussian.len()..] {
            self.gaussian.push(told.space.digits(*at));
        }
        for at in &told.failed[self.failures.len()..] {
            self.failures.push(told.space.digits(*at));
        }
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
        if order.len() > JUDGED_BY {
            for place in JUDGED_BY / 2..JUDGED_BY {
                let other = place + numbers.below(order.len() - place);
                order.swap(place, other);
            }
            order.truncate(JUDGED_BY);
        }
        self.judge.clear();
        for &at in &order {
            self.judge.push(told.space.digits(told.observed[at].0));
        }
        let judged: Vec<f64> = order.iter().map(|&at| values[at]).collect();
        let mut weights = self.gaussian.weights().clone();
        self.judge.set_weights(weights.clone());
        let mut likely = self.judge.fit(&judged) + belief(&weights);
        let mut changed = false;
        for _ in 0..PROPOSALS {
            let other = propose(&weights, numbers);
            self.judge.set_weights(other.clone());
            let also = self.judge.fit(&judged) + belief(&other);
            if also > likely + MORE_LIKELY {
                (likely, weights, changed) = (also, other, true);
            }
        }
        if changed {
            // An axis that does not matter for the time may still decide whether a point runs.
            let axes = weights.axes.iter().map(|weight| weight.max(WEIGHT)).collect();
            self.failures.set_weights(Weights { axes, noise: NOISE, floor: FAILURE_FLOOR });
            self.gaussian.set_weights(weights);
        }
        self.gaussian.fit(values);
    }

    /// Sorts the pool by what asking for a point would gain on `best`, most first. `advised` is what is added to the
    /// expected value of a point. What is expected of the most promising comes back.
    pub(super) fn rank(&mut self, told: &Told, best: f64, advised: &dyn Fn(usize) -> f64) -> Outlook {
        let mut gains = self.most_gains(told, best, advised);
        self.make_exact(told, best, &mut gains);
        self.pool.clear();
        self.pool.extend(gains.iter().map(|gain| gain.at));
        let promise = |gain: &Gain| Promise {
            runs: gain.runs,
            mean: gain.mean,
            deviation: gain.deviation,
            gain: gain.gain,
        };
        Outlook::new(best, gains.iter().map(promise))
    }

    /// The same while some points are being measured: each is taken to be as good as is expected of it, so that nothing beside it seems
    /// uncertain any more. `values` is what was learned from, see [`View::learn`].
    pub(super) fn rank_beside(
        &mut self,
        told: &Told,
        values: &[f64],
        pending: &[usize],
        best: f64,
        advised: &dyn Fn(usize) -> f64,
    ) -> Outlook {
        let (mut told, mut values) = (told.clone(), values.to_vec());
        let mut believing = self.clone();
        let mut alike = Vec::new();
        for &at in pending {
            believing.gaussian.alike(told.space.digits(at), told.observed.len(), &mut alike);
            values.push(believing.gaussian.mean_of(&alike));
        }
        for &at in pending {
            believing.gaussian.push(told.space.digits(at));
            // The time is never looked at again: the values say it.
            told.observed.push((at, 0.0));
        }
        believing.gaussian.fit(&values);
        let outlook = believing.rank(&told, best, advised);
        self.pool = believing.pool;
        outlook
    }

    /// What each candidate could gain at most, best first.
    fn most_gains(&self, told: &Told, best: f64, advised: &dyn Fn(usize) -> f64) -> Vec<Gain> {
        let (mut alike, mut alike_failed) = (Vec::new(), Vec::new());
        let (ran, failed) = (told.observed.len() as f64, told.failed.len() as f64);
        let share_ran = (ran + 1.0) / (ran + failed + 1.0);
        let mut gains = Vec::with_capacity(self.pool.len());
        for &at in &self.pool {
            let digits = told.space.digits(at);
            self.gaussian.alike(digits, told.observed.len(), &mut alike);
            let mean = self.gaussian.mean_of(&alike) + advised(at);
            let deviation = self.gaussian.variance_at_most(&alike).sqrt();
            let mut runs = 1.0;
            if !told.failed.is_empty() {
                // The fourth power: only points much alike tell whether a point runs.
                let near = |alike: &[f64]| alike.iter().map(|one| (one * one) * (one * one)).sum::<f64>();
                self.failures.alike(digits, told.failed.len(), &mut alike_failed);
                let (ran, failed) = (near(&alike), near(&alike_failed));
                runs = (RUNS_PRIOR * share_ran + ran) / (RUNS_PRIOR + ran + failed);
            }
            let gain = runs * exact_math::expected_improvement(best, mean, deviation);
            gains.push(Gain { gain, runs, mean, deviation, at });
        }
        sort(&mut gains);
        gains
    }

    /// Computes gains exactly from the most promising on, until no other can be better; best first.
    fn make_exact(&self, told: &Told, best: f64, gains: &mut [Gain]) {
        let mut alike = Vec::new();
        let mut surely = 0.0;
        for gain in gains.iter_mut().take(EXACT) {
            if gain.gain <= surely {
                break;
            }
            self.gaussian.alike(told.space.digits(gain.at), told.observed.len(), &mut alike);
            gain.deviation = self.gaussian.variance_of(&mut alike).sqrt();
            gain.gain = gain.runs * exact_math::expected_improvement(best, gain.mean, gain.deviation);
            surely = gain.gain.max(surely);
        }
        sort(gains);
    }
}

fn sort(gains: &mut [Gain]) {
    gains.sort_unstable_by(|a, b| b.gain.total_cmp(&a.gain).then(a.at.cmp(&b.at)));
}

/// Logarithm of how likely weights are before anything was seen.
fn belief(weights: &Weights) -> f64 {
    let square = |value: f64, expected: f64| {
        let off = (exact_math::log2(value) - exact_math::log2(expected)) / WEIGHT_DOUBLINGS;
        off * off
    };
    let axes: f64 = weights.axes.iter().map(|weight| square(*weight, WEIGHT)).sum();
    -0.5 * (axes + square(weights.noise, NOISE) + square(weights.floor, FLOOR))
}

/// Other weights: of one axis, of the noise, of the floor, or of all axes together.
fn propose(weights: &Weights, numbers: &mut RandomNumbers) -> Weights {
    let mut other = weights.clone();
    let which = numbers.below(other.axes.len() + 3);
    let amount = numbers.normal();
    if which < other.axes.len() {
        other.axes[which] *= exact_math::exp(amount);
    } else if which == other.axes.len() {
        other.noise *= exact_math::exp(2.0 * amount);
    } else if which == other.axes.len() + 1 {
        other.floor *= exact_math::exp(amount);
    } else {
        let factor = exact_math::exp(0.5 * amount);
        other.axes.iter_mut().for_each(|weight| *weight *= factor);
    }
    other.clamped()
}
