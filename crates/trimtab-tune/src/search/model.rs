//! `model`: learns how time depends on the axes, and asks where most is to be gained.

use super::donors::{Advice, Donor};
use super::gaussian::{Gaussian, Weights};
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
    pub cap: usize,
    pub climb: usize,
    pub boost: f64,
    pub ridge: f64,
    pub advised: usize,
    pub follow: usize,
    pub listed: usize,
    pub niche: usize,
    pub narrow: usize,
    pub stale: usize,
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
            cap: 64,
            climb: 2,
            boost: 0.0,
            ridge: 4.0,
            advised: 100,
            follow: 4,
            listed: 0,
            niche: 0,
            narrow: 99,
            stale: 15,
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
            "cap" => self.cap = value as usize,
            "niche" => self.niche = value as usize,
            "narrow" => self.narrow = value as usize,
            "ridge" => self.ridge = value,
            "advised" => self.advised = value as usize,
            "follow" => self.follow = value as usize,
            "listed" => self.listed = value as usize,
            "boost" => self.boost = value,
            "stale" => self.stale = value as usize,
            "climb" => self.climb = value as usize,
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
    trial: Gaussian,
    pool: Vec<usize>,
    advice: Option<Advice>,
    next_advice: usize,
    coords: Vec<Vec<f64>>,
}

impl Model {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64, settings: ModelSettings) -> Model {
        let weights = vec![settings.weight; space.axes().len()];
        let gaussian = Gaussian::new(Weights{axes:weights, noise: settings.noise}, settings.smooth);
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
            trial: gaussian.clone(),
            gaussian,
            pool: Vec::new(),
            advice: None,
            next_advice: 0,
            coords,
        }
    }

    /// With donors.
    pub fn warm(mut self, donors: &[Donor]) -> Model {
        self.advice = Advice::new(&self.space, donors);
        self
    }

    fn slowdown(&self, at: usize) -> f64 {
        let s = self.advice.as_ref().map_or(0.0, |a| f64::from(a.slowdown[at]));
        if s > 1.0 { 1.0 + 0.3 * (s - 1.0) } else { s }
    }

    fn advised(&mut self) -> Option<usize> {
        let ranked = &self.advice.as_ref()?.ranked;
        while let Some(at) = ranked.get(self.next_advice) {
            self.next_advice += 1;
            if !self.tried.has(*at) {
                return Some(*at);
            }
        }
        None
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

    fn values(&self) -> (Vec<f64>, Vec<f64>, f64) {
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
        let standard: Vec<f64> = squeezed.into_iter().map(|v| (v - mean) * scale).collect();
        let s: Vec<f64> = self.observed.iter().map(|(at, _)| self.slowdown(*at) * scale).collect();
        let sm = s.iter().sum::<f64>() / s.len() as f64;
        let (mut xy, mut xx) = (self.settings.ridge, self.settings.ridge);
        for (v, s) in standard.iter().zip(&s) {
            xy += v * (s - sm);
            xx += (s - sm) * (s - sm);
        }
        let beta = (xy / xx).clamp(0.0, 1.2) * scale;
        let rest = standard.iter().zip(&self.observed).map(|(v, (at, _))| v - beta * self.slowdown(*at)).collect();
        (standard, rest, beta)
    }

    fn prior(&self, g: &Weights) -> f64 {
        let base = exact_math::log2(self.settings.weight);
        let mut sum = 0.0;
        for w in &g.axes {
            let d = exact_math::log2(*w) - base;
            sum += d * d;
        }
        let dn = (exact_math::log2(g.noise) - exact_math::log2(self.settings.noise)) / 2.0;
        -0.5 * self.settings.prior * (sum / 4.0 + dn * dn)
    }

    fn learn(&mut self, values: &[f64]) {
        let mut point = Vec::new();
        for at in self.gaussian.len()..self.observed.len() {
            self.coordinates(self.observed[at].0, &mut point);
            self.gaussian.push(&point);
        }
        // subset
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]).then(a.cmp(b)));
        let cap = self.settings.cap;
        if order.len() > cap {
            for i in cap / 2..cap {
                let j = i + self.numbers.below(order.len() - i);
                order.swap(i, j);
            }
            order.truncate(cap);
        }
        self.trial.clear();
        let mut chosen = Vec::new();
        for at in order {
            self.coordinates(self.observed[at].0, &mut point);
            self.trial.push(&point);
            chosen.push(values[at]);
        }
        let mut weights = self.gaussian.weights().clone();
        self.trial.set_weights(weights.clone());
        let mut likely = self.trial.fit(&chosen) + self.prior(&weights);
        let mut changed = false;
        for _ in 0..self.settings.proposals {
            let mut other = weights.clone();
            let which = self.numbers.below(other.axes.len() + 2);
            let factor = exact_math::exp(self.numbers.normal());
            if which < other.axes.len() {
                other.axes[which] *= factor;
            } else if which == other.axes.len() {
                other.noise *= factor * factor;
            } else {
                let f = exact_math::exp(0.5 * self.numbers.normal());
                other.axes.iter_mut().for_each(|w| *w *= f);
            }
            let other = other.clamped();
            self.trial.set_weights(other.clone());
            let also = self.trial.fit(&chosen) + self.prior(&other);
            if also > likely + 0.1 || (self.settings.mh > 0.0 && self.numbers.unit() < exact_math::exp((also - likely) / self.settings.mh)) {
                likely = also;
                weights = other;
                changed = true;
            }
        }
        if changed {
            self.gaussian.set_weights(weights);
        }
        self.gaussian.fit(values);
    }

    fn candidates(&mut self, niche: Option<(usize, u16)>) {
        let tried = &self.tried;
        let space = &self.space;
        let inside = |at: usize| niche.is_none_or(|(axis, digit)| space.digits(at)[axis] == digit);
        self.pool.retain(|at| !tried.has(*at));
        self.pool.truncate(self.settings.pool);
        let climb: Vec<usize> = self.pool.iter().take(self.settings.climb).copied().collect();
        let mut leaders: Vec<(f64, usize)> = self.observed.iter().map(|(at, value)| (*value, *at)).collect();
        leaders.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, at) in leaders.iter().take(self.settings.leaders) {
            space.neighbours(*at, &mut self.pool);
        }
        if niche.is_some() {
            for (_, at) in leaders.iter().filter(|(_, at)| inside(*at)).take(self.settings.leaders) {
                space.neighbours(*at, &mut self.pool);
            }
        }
        for at in climb {
            space.neighbours(at, &mut self.pool);
        }
        for _ in 0..self.settings.fresh {
            if let Some(at) = self.tried.draw(&mut self.numbers) {
                self.pool.push(at);
            }
        }
        if let Some(advice) = &self.advice {
            self.pool.extend(advice.ranked.iter().filter(|at| !tried.has(**at)).take(self.settings.advised));
        }
        self.pool.sort_unstable();
        self.pool.dedup();
        self.pool.retain(|at| !tried.has(*at) && inside(*at));
    }

    fn choose(&mut self) -> Option<usize> {
        let (values, rest, beta) = self.values();
        self.learn(&rest);
        let newest = (0..values.len()).min_by(|a, b| values[*a].total_cmp(&values[*b])).unwrap_or(0);
        let idle = values.len() - newest;
        let wide = if idle > self.settings.stale && idle % 2 == 1 {
            1.0 + self.settings.boost * ((idle - self.settings.stale) as f64 / 20.0).min(2.0)
        } else {
            1.0
        };
        let mut niche = None;
        let mut best = values[newest];
        if self.settings.niche > 0 && idle > self.settings.stale && idle % self.settings.niche == 0 {
            let own = self.space.digits(self.observed[newest].0);
            let axes: Vec<usize> = (0..own.len()).filter(|a| (2..=self.settings.narrow).contains(&self.space.axes()[*a].values.len())).collect();
            if let Some(&axis) = axes.get(self.numbers.below(axes.len())) {
                let len = self.space.axes()[axis].values.len();
                let digit = (own[axis] as usize + 1 + self.numbers.below(len - 1)) % len;
                niche = Some((axis, digit as u16));
                best = self.observed.iter().zip(&values).filter(|((at, _), _)| usize::from(self.space.digits(*at)[axis]) == digit).map(|(_, v)| *v).fold(2.0, f64::min);
            }
        }
        let kept = if niche.is_some() { std::mem::take(&mut self.pool) } else { Vec::new() };
        self.candidates(niche);
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
            let mean = self.gaussian.mean_of(&alike) + beta * self.slowdown(at);
            let variance = self.gaussian.variance_at_most(&alike);
            let mut gain = exact_math::expected_improvement(best, mean, wide * variance.sqrt());
            if !fails.is_empty() {
                let ok: f64 = alike.iter().map(|k| k * k * k * k).sum();
                let mut bad = 0.0;
                for f in &fails {
                    let mut d = 0.0;
                    for ((a, b), w) in f.iter().zip(&point).zip(&self.gaussian.weights().axes) {
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
        let mut sure = 0.0;
        for i in 0..scored.len() {
            let (most, at) = scored[i];
            if most <= sure || i >= 64 {
                break;
            }
            self.coordinates(at, &mut point);
            self.gaussian.alike(&point, self.observed.len(), &mut alike);
            let mean = self.gaussian.mean_of(&alike) + beta * self.slowdown(at);
            let bound = self.gaussian.variance_at_most(&alike);
            let before = exact_math::expected_improvement(best, mean, wide * bound.sqrt());
            let variance = self.gaussian.variance_of(&mut alike);
            let after = exact_math::expected_improvement(best, mean, wide * variance.sqrt());
            scored[i].0 = if before > 0.0 { most * after / before } else { 0.0 };
            sure = scored[i].0.max(sure);
        }
        scored.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.pool.clear();
        self.pool.extend(scored.iter().map(|(_, at)| *at));
        let first = self.pool.first().copied();
        if niche.is_some() {
            self.pool = kept;
        }
        first
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
        let chosen = if self.advice.is_some() && self.tried.count() < self.settings.follow {
            self.advised()
        } else if self.observed.len() < 2 {
            self.spread()
        } else if self.advice.is_some() {
            if self.tried.count() % 4 == 3 && self.tried.count() < self.settings.listed { self.advised() } else { self.choose() }
        } else if self.observed.len() < self.settings.initial.min(2)
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
