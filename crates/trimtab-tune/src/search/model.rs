//! `model`: learns how time depends on the axes, and asks where most is to be gained.

use super::gaussian::Gaussian;
use super::tried::Tried;
use super::{RandomNumbers, SearchSpace, Seen, Strategy, exact_math};
use std::sync::Arc;

/// Research settings.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct ModelSettings {
    pub initial: usize,
    pub smooth: u32,
    pub weight: f64,
    pub prior: f64,
    pub proposals: usize,
    pub pool: usize,
    pub fresh: usize,
    pub leaders: usize,
    pub squeeze: f64,
    pub quantile: f64,
    pub noise: f64,
    pub spread: usize,
    pub mh: f64,
    pub xi: f64,
    pub rankc: f64,
}

impl Default for ModelSettings {
    fn default() -> Self {
        ModelSettings {
            initial: 8,
            smooth: 1,
            weight: 0.5,
            prior: 1.0,
            proposals: 4,
            pool: 200,
            fresh: 200,
            leaders: 4,
            squeeze: 0.3,
            quantile: 0.5,
            noise: 0.001,
            spread: 10,
            mh: 0.0,
            xi: 0.0,
            rankc: 0.0,
        }
    }
}

impl ModelSettings {
    /// Sets by name.
    pub fn set(&mut self, name: &str, value: f64) {
        match name {
            "initial" => self.initial = value as usize,
            "smooth" => self.smooth = value as u32,
            "weight" => self.weight = value,
            "prior" => self.prior = value,
            "proposals" => self.proposals = value as usize,
            "pool" => self.pool = value as usize,
            "fresh" => self.fresh = value as usize,
            "leaders" => self.leaders = value as usize,
            "squeeze" => self.squeeze = value,
            "quantile" => self.quantile = value,
            "noise" => self.noise = value,
            "spread" => self.spread = value as usize,
            "mh" => self.mh = value,
            "xi" => self.xi = value,
            "rankc" => self.rankc = value,
            _ => {}
        }
    }
}

/// Surrogate search.
#[derive(Clone, Debug)]
pub struct Model {
    space: Arc<SearchSpace>,
    settings: ModelSettings,
    numbers: RandomNumbers,
    tried: Tried,
    /// Measured points and log2 of their times, in the order told.
    observed: Vec<(usize, f64)>,
    failed: Vec<usize>,
    gaussian: Gaussian,
    pool: Vec<usize>,
    coords: Vec<Vec<f64>>,
}

impl Model {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64, settings: ModelSettings) -> Model {
        let weights = vec![settings.weight; space.axes().len()];
        let gaussian = Gaussian::new(weights, settings.noise, settings.smooth);
        let tried = Tried::new(space.len());
        let coords = space
            .axes()
            .iter()
            .map(|axis| {
                let last = (axis.values.len().max(2) - 1) as f64;
                axis.coordinates
                    .iter()
                    .enumerate()
                    .map(|(i, c)| (1.0 - settings.rankc) * c + settings.rankc * i as f64 / last)
                    .collect()
            })
            .collect();
        Model {
            space,
            settings,
            numbers: RandomNumbers::new(seed),
            tried,
            observed: Vec::new(),
            failed: Vec::new(),
            gaussian,
            pool: Vec::new(),
            coords,
        }
    }

    fn coordinates(&self, at: usize, into: &mut Vec<f64>) {
        into.clear();
        into.extend(self.space.digits(at).iter().zip(&self.coords).map(|(d, c)| c[usize::from(*d)]));
    }

    /// An untried point far from everything tried, among a few drawn.
    fn spread(&mut self) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        for _ in 0..self.settings.spread.max(1) {
            let at = self.tried.draw(&mut self.numbers)?;
            let near = self
                .observed
                .iter()
                .map(|(other, _)| *other)
                .chain(self.failed.iter().copied())
                .map(|other| self.distance(at, other))
                .fold(f64::MAX, f64::min);
            if best.is_none_or(|(far, _)| near > far) {
                best = Some((near, at));
            }
        }
        best.map(|(_, at)| at)
    }

    fn distance(&self, one: usize, other: usize) -> f64 {
        let mut sum = 0.0;
        for ((a, b), c) in self.space.digits(one).iter().zip(self.space.digits(other)).zip(&self.coords) {
            sum += (c[usize::from(*a)] - c[usize::from(*b)]).abs();
        }
        sum
    }

    fn values(&self) -> Vec<f64> {
        let mut sorted: Vec<f64> = self.observed.iter().map(|(_, value)| *value).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let knee = sorted[((sorted.len() - 1) as f64 * self.settings.quantile) as usize];
        let squeezed: Vec<f64> = self
            .observed
            .iter()
            .map(|(_, value)| if *value > knee { knee + (value - knee) * self.settings.squeeze } else { *value })
            .collect();
        let mean = squeezed.iter().sum::<f64>() / squeezed.len() as f64;
        let var = squeezed.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / squeezed.len() as f64;
        let scale = 1.0 / var.sqrt().max(1e-6);
        squeezed.into_iter().map(|v| (v - mean) * scale).collect()
    }

    fn prior(&self, g: &Gaussian) -> f64 {
        let base = exact_math::log2(self.settings.weight);
        let mut sum = 0.0;
        for w in &g.weights {
            let d = exact_math::log2(*w) - base;
            sum += d * d;
        }
        let dn = (exact_math::log2(g.noise) - exact_math::log2(self.settings.noise)) / 2.0;
        -0.5 * self.settings.prior * (sum / 4.0 + dn * dn)
    }

    fn learn(&mut self, values: &[f64]) {
        let mut gaussian = self.gaussian.clone();
        gaussian.clear();
        let mut point = Vec::new();
        for (at, _) in &self.observed {
            self.coordinates(*at, &mut point);
            gaussian.push(point.iter().copied());
        }
        let mut likely = gaussian.fit(values) + self.prior(&gaussian);
        for _ in 0..self.settings.proposals {
            let mut other = gaussian.clone();
            let which = self.numbers.below(other.weights.len() + 2);
            let factor = exact_math::exp(self.numbers.normal());
            if which < other.weights.len() {
                other.weights[which] = (other.weights[which] * factor).clamp(0.001, 30.0);
            } else if which == other.weights.len() {
                other.noise = (other.noise * factor * factor).clamp(1e-6, 0.3);
            } else {
                let f = exact_math::exp(0.5 * self.numbers.normal());
                other.weights.iter_mut().for_each(|w| *w = (*w * f).clamp(0.001, 30.0));
            }
            let also = other.fit(values) + self.prior(&other);
            if also > likely || (self.settings.mh > 0.0 && self.numbers.unit() < exact_math::exp((also - likely) / self.settings.mh)) {
                likely = also;
                gaussian = other;
            }
        }
        self.gaussian = gaussian;
    }

    fn candidates(&mut self) {
        let tried = &self.tried;
        self.pool.retain(|at| !tried.has(*at));
        self.pool.truncate(self.settings.pool);
        let climb: Vec<usize> = self.pool.iter().take(2).copied().collect();
        let mut leaders: Vec<(f64, usize)> = self.observed.iter().map(|(at, value)| (*value, *at)).collect();
        leaders.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, at) in leaders.iter().take(self.settings.leaders) {
            self.space.neighbours(*at, &mut self.pool);
        }
        for at in climb {
            self.space.neighbours(at, &mut self.pool);
        }
        for _ in 0..self.settings.fresh {
            if let Some(at) = self.tried.draw(&mut self.numbers) {
                self.pool.push(at);
            }
        }
        self.pool.sort_unstable();
        self.pool.dedup();
        self.pool.retain(|at| !tried.has(*at));
    }

    fn choose(&mut self) -> Option<usize> {
        let values = self.values();
        self.learn(&values);
        self.candidates();
        let best = values.iter().copied().fold(f64::MAX, f64::min) - self.settings.xi;
        let mut scored: Vec<(f64, usize)> = Vec::with_capacity(self.pool.len());
        let (mut point, mut alike) = (Vec::new(), Vec::new());
        let fails: Vec<Vec<f64>> = self
            .failed
            .iter()
            .map(|at| {
                let mut p = Vec::new();
                self.coordinates(*at, &mut p);
                p
            })
            .collect();
        let share_ok = (self.observed.len() as f64 + 1.0) / (self.observed.len() + self.failed.len() + 1) as f64;
        for &at in &self.pool {
            self.coordinates(at, &mut point);
            self.gaussian.alike(&point, self.observed.len(), &mut alike);
            let mean = self.gaussian.mean_of(&alike);
            let ok: f64 = alike.iter().map(|k| k * k * k * k).sum();
            let variance = self.gaussian.variance_of(&mut alike);
            let mut gain = exact_math::expected_improvement(best, mean, variance.sqrt());
            if !fails.is_empty() {
                let mut bad = 0.0;
                for f in &fails {
                    let mut d = 0.0;
                    for ((a, b), w) in f.iter().zip(&point).zip(&self.gaussian.weights) {
                        d += w.max(self.settings.weight) * (a - b).abs();
                    }
                    bad += exact_math::exp(-4.0 * d);
                }
                let p = (0.3 * share_ok + ok) / (0.3 + ok + bad);
                gain *= p;
            }
            scored.push((gain, at));
        }
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.pool.clear();
        self.pool.extend(scored.iter().map(|(_, at)| *at));
        self.pool.first().copied()
    }
}

impl Strategy for Model {
    fn name(&self) -> &'static str {
        "model"
    }

    fn ask(&mut self) -> Option<usize> {
        if self.tried.is_full() {
            return None;
        }
        let chosen = if self.observed.len() < self.settings.initial.min(2)
            || self.tried.count() < self.settings.initial
        {
            self.spread()
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
        match seen.time() {
            Some(time) => self.observed.push((at, exact_math::log2(time))),
            None => self.failed.push(at),
        }
    }
}
