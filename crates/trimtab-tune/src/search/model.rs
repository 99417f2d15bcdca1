//! `model`: learns how time depends on the axes, and asks where most is to be gained.
//!
//! A Gaussian process over log2 of the times, expected improvement, and how likely a point is to run at all. When it stops
//! getting anywhere, every other question goes to a part of the space that differs from the best in one setting: the best
//! point often needs the opposite value of a switch whose first trials were bad.

use super::donors::{Advice, Donor};
use super::gaussian::{Gaussian, Weights};
use super::tried::Tried;
use super::{RandomNumbers, SearchSpace, Seen, Strategy, exact_math};
use std::sync::Arc;

/// Points measured before the model is asked; each the farthest from the others of [`SPREAD_DRAWS`] drawn.
const FIRST_LOOKS: usize = 8;
const SPREAD_DRAWS: usize = 10;
/// What an axis is expected to matter, and how surely: weights a factor of four off are one deviation off.
const WEIGHT: f64 = 0.5;
const WEIGHT_DOUBLINGS: f64 = 2.0;
/// The noise expected, as a share of the variance.
const NOISE: f64 = 0.001;
/// Other weights tried with every question.
const PROPOSALS: usize = 6;
/// Weights are judged by at most this many observations, the better half always among them.
const JUDGED_BY: usize = 64;
/// Other weights must be this much more likely, or every question would decompose the covariance anew.
const MORE_LIKELY: f64 = 0.02;
/// Times slower than the median count this much of their distance: how bad a bad point is matters little.
const SQUEEZED: f64 = 0.3;
/// Observations the model holds; beyond that the best [`KEPT_BEST`] and some of the others are kept.
const MAX_OBSERVED: usize = 220;
const KEPT_BEST: usize = 100;
const KEPT_OTHERS: usize = 60;
/// Failures the model holds, the latest.
const MAX_FAILED: usize = 120;
/// Candidates kept from question to question, and drawn anew for each.
const POOL: usize = 150;
const FRESH: usize = 150;
/// The neighbours of this many of the best points, and of the best candidates, are candidates.
const LEADERS: usize = 4;
const CLIMBED: usize = 2;
/// Candidates whose uncertainty is computed exactly, at most.
const EXACT: usize = 64;
/// Answers without a new best after which every second question goes elsewhere.
const PATIENCE: usize = 15;
/// Weight of the belief, before anything was tried, that a point runs as often as others did.
const RUNS_PRIOR: f64 = 0.3;
/// With donors: their favourites measured first, and favourites that are always candidates.
const FOLLOWED: usize = 4;
const ADVISED: usize = 100;
/// With donors, every so many questions up to so many are about neighbours of the best only.
const LOCAL_EVERY: usize = 3;
const LOCAL_UNTIL: usize = 40;
/// Answers without a new best after which donors are not listened to until there is one.
const ADVICE_PATIENCE: usize = 15;

/// Search by a model of the space.
#[derive(Clone, Debug)]
pub struct Model {
    space: Arc<SearchSpace>,
    numbers: RandomNumbers,
    tried: Tried,
    /// Points the model holds and log2 of their times.
    observed: Vec<(usize, f64)>,
    failed: Vec<usize>,
    gaussian: Gaussian,
    /// Holds a few observations to judge weights by.
    judge: Gaussian,
    /// Holds the failures, to tell how alike a point is to them.
    failures: Gaussian,
    /// Untried points that looked good, best first.
    pool: Vec<usize>,
    best: Option<(usize, f64)>,
    /// Answers since the best was found.
    idle: usize,
    advice: Option<Advice>,
    /// Neighbours of the best, for as long as they are gathered.
    local: Vec<usize>,
}

/// The observations as the model sees them: mean zero, deviation one, slow ones squeezed.
struct Targets {
    values: Vec<f64>,
    /// The same without what the donors explain.
    rest: Vec<f64>,
    /// How much a doubling at each donor is worth here; empty when they are not listened to.
    advice: Vec<f64>,
}

/// A part of the space: one axis at one value.
type Niche = (usize, u16);

impl Model {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64) -> Model {
        let weights = Weights { axes: vec![WEIGHT; space.axes().len()], noise: NOISE };
        let gaussian = Gaussian::new(weights);
        Model {
            numbers: RandomNumbers::new(seed),
            tried: Tried::new(space.len()),
            space,
            observed: Vec::new(),
            failed: Vec::new(),
            judge: gaussian.clone(),
            failures: gaussian.clone(),
            gaussian,
            pool: Vec::new(),
            best: None,
            idle: 0,
            advice: None,
            local: Vec::new(),
        }
    }

    /// The same, starting from what others know of this kernel.
    pub fn with_donors(mut self, donors: &[Donor]) -> Model {
        self.advice = Advice::new(&self.space, donors);
        self
    }

    fn coordinates(&self, at: usize, coordinates: &mut Vec<f64>) {
        let axes = self.space.digits(at).iter().zip(self.space.axes());
        coordinates.clear();
        coordinates.extend(axes.map(|(digit, axis)| axis.coordinates[usize::from(*digit)]));
    }

    fn known(&self) -> impl Iterator<Item = usize> {
        self.observed.iter().map(|(at, _)| *at).chain(self.failed.iter().copied())
    }

    /// An untried point far from everything tried.
    fn far_from_all(&mut self) -> Option<usize> {
        let mut farthest: Option<(f64, usize)> = None;
        for _ in 0..SPREAD_DRAWS {
            let at = self.tried.draw(&mut self.numbers)?;
            let near = self.known().map(|other| self.space.distance(at, other)).fold(f64::MAX, f64::min);
            if farthest.is_none_or(|(far, _)| near > far) {
                farthest = Some((near, at));
            }
        }
        farthest.map(|(_, at)| at)
    }

    /// The donors' favourite that was not tried.
    fn favourite(&self) -> Option<usize> {
        self.advice.as_ref()?.ranked.iter().copied().find(|at| !self.tried.has(*at))
    }

    /// What the donors, each with its weight, say of a point.
    fn advised(&self, at: usize, weights: &[f64]) -> f64 {
        let Some(advice) = &self.advice else { return 0.0 };
        weights.iter().zip(&advice.slowdowns).map(|(weight, donor)| weight * f64::from(donor[at])).sum()
    }

    fn targets(&self) -> Targets {
        let mut sorted: Vec<f64> = self.observed.iter().map(|(_, value)| *value).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let median = sorted[(sorted.len() - 1) / 2];
        let squeeze = |value: f64| if value > median { median + (value - median) * SQUEEZED } else { value };
        let count = self.observed.len() as f64;
        let mut values: Vec<f64> = self.observed.iter().map(|(_, value)| squeeze(*value)).collect();
        let mean = values.iter().sum::<f64>() / count;
        values.iter_mut().for_each(|value| *value -= mean);
        let deviation = (values.iter().map(|value| value * value).sum::<f64>() / count).sqrt();
        let scale = 1.0 / deviation.max(1e-6);
        values.iter_mut().for_each(|value| *value *= scale);
        // Donors that led nowhere for a while are not listened to until something better is found.
        let Some(advice) = self.advice.as_ref().filter(|_| self.idle <= ADVICE_PATIENCE) else {
            return Targets { rest: values.clone(), values, advice: Vec::new() };
        };
        let places: Vec<usize> = self.observed.iter().map(|(at, _)| *at).collect();
        let weights = advice.weights(&places, &values, scale);
        let rest =
            values.iter().zip(&places).map(|(value, at)| value - self.advised(*at, &weights)).collect();
        Targets { values, rest, advice: weights }
    }

    /// Tries other weights on some of the observations, keeps the likeliest, and fits all observations.
    fn learn(&mut self, values: &[f64]) {
        let mut coordinates = Vec::new();
        for at in self.gaussian.len()..self.observed.len() {
            self.coordinates(self.observed[at].0, &mut coordinates);
            self.gaussian.push(&coordinates);
        }
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
        if order.len() > JUDGED_BY {
            for place in JUDGED_BY / 2..JUDGED_BY {
                let other = place + self.numbers.below(order.len() - place);
                order.swap(place, other);
            }
            order.truncate(JUDGED_BY);
        }
        self.judge.clear();
        for &at in &order {
            self.coordinates(self.observed[at].0, &mut coordinates);
            self.judge.push(&coordinates);
        }
        let judged: Vec<f64> = order.iter().map(|&at| values[at]).collect();
        let mut weights = self.gaussian.weights().clone();
        self.judge.set_weights(weights.clone());
        let mut likely = self.judge.fit(&judged) + belief(&weights);
        let mut changed = false;
        for _ in 0..PROPOSALS {
            let other = propose(&weights, &mut self.numbers);
            self.judge.set_weights(other.clone());
            let also = self.judge.fit(&judged) + belief(&other);
            if also > likely + MORE_LIKELY {
                (likely, weights, changed) = (also, other, true);
            }
        }
        if changed {
            // An axis that does not matter for the time may still decide whether a point runs.
            let axes = weights.axes.iter().map(|weight| weight.max(WEIGHT)).collect();
            self.failures.set_weights(Weights { axes, noise: NOISE });
            self.gaussian.set_weights(weights);
        }
        self.gaussian.fit(values);
    }

    /// Fills the pool with untried points worth a look.
    fn gather(&mut self, niche: Option<Niche>) {
        let (space, tried) = (&self.space, &self.tried);
        let inside = |at: usize| niche.is_none_or(|(axis, digit)| space.digits(at)[axis] == digit);
        self.pool.retain(|at| !tried.has(*at));
        self.pool.truncate(POOL);
        let mut centres: Vec<usize> = self.pool.iter().take(CLIMBED).copied().collect();
        let mut leaders: Vec<(f64, usize)> = self.observed.iter().map(|(at, value)| (*value, *at)).collect();
        leaders.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        centres.extend(leaders.iter().take(LEADERS).map(|(_, at)| *at));
        if niche.is_some() {
            centres.extend(leaders.iter().map(|(_, at)| *at).filter(|at| inside(*at)).take(LEADERS));
        }
        for at in centres {
            space.neighbours(at, &mut self.pool);
        }
        for _ in 0..FRESH {
            self.pool.extend(tried.draw(&mut self.numbers));
        }
        if let Some(advice) = &self.advice {
            self.pool.extend(advice.ranked.iter().filter(|at| !tried.has(**at)).take(ADVISED));
        }
        if self.advice.is_some()
            && self.tried.count() < LOCAL_UNTIL
            && self.tried.count().is_multiple_of(LOCAL_EVERY)
            && let Some((at, _)) = self.best
        {
            self.local.clear();
            space.neighbours(at, &mut self.local);
            if self.local.iter().any(|at| !tried.has(*at)) {
                self.pool.clear();
                self.pool.append(&mut self.local);
            }
        }
        self.pool.sort_unstable();
        self.pool.dedup();
        self.pool.retain(|at| !tried.has(*at) && inside(*at));
    }

    /// Another value of one axis of the best point, when nothing was found for a while.
    fn niche(&mut self) -> Option<Niche> {
        if self.idle <= PATIENCE || self.idle % 2 == 1 {
            return None;
        }
        let own = self.space.digits(self.best?.0);
        let values = |axis: usize| self.space.axes()[axis].values.len();
        let axes: Vec<usize> = (0..own.len()).filter(|axis| values(*axis) > 1).collect();
        let axis = *axes.get(self.numbers.below(axes.len()))?;
        let digit = (usize::from(own[axis]) + 1 + self.numbers.below(values(axis) - 1)) % values(axis);
        Some((axis, digit as u16))
    }

    fn choose(&mut self) -> Option<usize> {
        let targets = self.targets();
        self.learn(&targets.rest);
        let niche = self.niche();
        let kept = if niche.is_some() { std::mem::take(&mut self.pool) } else { Vec::new() };
        self.gather(niche);
        // Within a niche the best of the niche is to be beaten; one that was never tried is entered anywhere.
        let inside = |at: usize| niche.is_none_or(|(axis, digit)| self.space.digits(at)[axis] == digit);
        let seen = self.observed.iter().zip(&targets.values).filter(|((at, _), _)| inside(*at));
        let best = seen.map(|(_, value)| *value).fold(2.0, f64::min);
        let mut gains = self.most_gains(best, &targets);
        self.make_exact(best, &targets, &mut gains);
        self.pool.clear();
        self.pool.extend(gains.iter().map(|gain| gain.at));
        let chosen = self.pool.first().copied();
        if niche.is_some() {
            self.pool = kept;
        }
        chosen
    }

    /// What each candidate could gain at most, best first.
    fn most_gains(&self, best: f64, targets: &Targets) -> Vec<Gain> {
        let (mut coordinates, mut alike, mut alike_failed) = (Vec::new(), Vec::new(), Vec::new());
        let (ran, failed) = (self.observed.len() as f64, self.failed.len() as f64);
        let share_ran = (ran + 1.0) / (ran + failed + 1.0);
        let mut gains = Vec::with_capacity(self.pool.len());
        for &at in &self.pool {
            self.coordinates(at, &mut coordinates);
            self.gaussian.alike(&coordinates, self.observed.len(), &mut alike);
            let mean = self.gaussian.mean_of(&alike) + self.advised(at, &targets.advice);
            let deviation = self.gaussian.variance_at_most(&alike).sqrt();
            let mut runs = 1.0;
            if !self.failed.is_empty() {
                // The fourth power: only points much alike tell whether a point runs.
                let near = |alike: &[f64]| alike.iter().map(|one| (one * one) * (one * one)).sum::<f64>();
                self.failures.alike(&coordinates, self.failed.len(), &mut alike_failed);
                let (ran, failed) = (near(&alike), near(&alike_failed));
                runs = (RUNS_PRIOR * share_ran + ran) / (RUNS_PRIOR + ran + failed);
            }
            let gain = runs * exact_math::expected_improvement(best, mean, deviation);
            gains.push(Gain { gain, runs, mean, at });
        }
        sort(&mut gains);
        gains
    }

    /// Computes gains exactly from the most promising on, until no other can be better; best first.
    fn make_exact(&self, best: f64, targets: &Targets, gains: &mut [Gain]) {
        let (mut coordinates, mut alike) = (Vec::new(), Vec::new());
        let mut surely = 0.0;
        for gain in gains.iter_mut().take(EXACT) {
            if gain.gain <= surely {
                break;
            }
            self.coordinates(gain.at, &mut coordinates);
            self.gaussian.alike(&coordinates, targets.values.len(), &mut alike);
            let deviation = self.gaussian.variance_of(&mut alike).sqrt();
            gain.gain = gain.runs * exact_math::expected_improvement(best, gain.mean, deviation);
            surely = gain.gain.max(surely);
        }
        sort(gains);
    }

    /// Keeps the best observations and an even choice of the others.
    fn forget_some(&mut self) {
        self.observed.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let others = self.observed.split_off(KEPT_BEST);
        let step = others.len().div_ceil(KEPT_OTHERS).max(1);
        self.observed.extend(others.into_iter().step_by(step));
        self.gaussian.clear();
    }
}

/// A candidate and what asking for it would gain.
struct Gain {
    gain: f64,
    runs: f64,
    mean: f64,
    at: usize,
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
    -0.5 * (axes + square(weights.noise, NOISE))
}

/// Other weights: of one axis, of the noise, or of all axes together.
fn propose(weights: &Weights, numbers: &mut RandomNumbers) -> Weights {
    let mut other = weights.clone();
    let which = numbers.below(other.axes.len() + 2);
    let amount = numbers.normal();
    if which < other.axes.len() {
        other.axes[which] *= exact_math::exp(amount);
    } else if which == other.axes.len() {
        other.noise *= exact_math::exp(2.0 * amount);
    } else {
        let factor = exact_math::exp(0.5 * amount);
        other.axes.iter_mut().for_each(|weight| *weight *= factor);
    }
    other.clamped()
}

impl Strategy for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn ask(&mut self) -> Option<usize> {
        if self.tried.is_full() {
            return None;
        }
        let first_looks = if self.advice.is_some() { FOLLOWED } else { FIRST_LOOKS };
        let chosen = if self.tried.count() < first_looks {
            self.favourite().or_else(|| self.far_from_all())
        } else if self.observed.len() < 2 {
            self.far_from_all()
        } else {
            self.choose()
        };
        let at = chosen.or_else(|| self.tried.draw(&mut self.numbers))?;
        self.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        if at >= self.space.len() {
            return;
        }
        self.tried.add(at);
        self.idle += 1;
        let Some(time) = seen.time() else {
            if self.failed.len() < MAX_FAILED {
                let mut coordinates = Vec::new();
                self.coordinates(at, &mut coordinates);
                self.failures.push(&coordinates);
                self.failed.push(at);
            }
            return;
        };
        let value = exact_math::log2(time);
        if self.best.is_none_or(|(_, best)| value < best) {
            self.best = Some((at, value));
            self.idle = 0;
        }
        self.observed.push((at, value));
        if self.observed.len() > MAX_OBSERVED {
            self.forget_some();
        }
    }
}
