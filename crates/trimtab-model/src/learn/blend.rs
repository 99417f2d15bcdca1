//! `default`: extremely randomised trees, and a linear function corrected by its nearest neighbours; between both.
//!
//! Trees find the edges (alignment, caches, where threads begin to pay) and know nothing beyond what was measured; the linear
//! function goes on beyond, and what it gets wrong nearby its neighbours put right. On 600 matrix products and five kernels
//! the two together lost less than either up to a hundred measured problems; with more, the trees alone are as good or better.

use super::forest::Forest;
use super::linear::Ridge;
use super::nearest::{Neighbours, Places};
use super::{Axes, Model, SLOWEST_LOG2, Table};

/// Trees of the blend.
const TREES: usize = 16;
/// The weight of "no correction" beside the neighbours: that of one about a doubling away.
const SILENCE: f64 = 1.0;
/// With n problems the trees have a say of n / (n + this), at least half: the more there are, the less is gained by going on beyond
/// them. After 400 problems trees alone lost 2.0 % where half and half lost 2.8 %; after 100 it was the other way round.
const HALF_SAY: f64 = 300.0;

/// The default model.
#[derive(Clone, Debug)]
pub struct Blend {
    axes: Axes,
    trees: Forest,
    linear: Ridge,
    /// Measured problems with what the linear function got wrong.
    errors: Places,
    rivals: usize,
    /// The trees' say, the rest being the linear function's.
    say: f64,
}

impl Blend {
    /// A model that has learned nothing.
    pub fn new(seed: u64) -> Blend {
        Blend {
            axes: Axes::default(),
            trees: Forest::extra(seed).with_trees(TREES),
            linear: Ridge::new(),
            errors: Places::default(),
            rivals: 0,
            say: 0.5,
        }
    }

    /// The same with so many trees: more of them cost time and know better how little is known.
    #[must_use]
    pub fn with_trees(self, count: usize) -> Blend {
        Blend { trees: self.trees.with_trees(count), ..self }
    }

    #[inline]
    fn corrected(&self, rival: usize, at: &[f64], neighbours: &Neighbours) -> (f64, f64) {
        let (correction, spread) =
            self.errors.mean(neighbours, rival, SILENCE).unwrap_or((0.0, SLOWEST_LOG2));
        ((self.linear.value(rival, at) + correction).clamp(0.0, SLOWEST_LOG2), spread)
    }
}

impl Model for Blend {
    fn name(&self) -> &'static str {
        "default"
    }

    fn fit(&mut self, table: &Table) {
        self.axes = table.axes().clone();
        self.rivals = table.rivals();
        self.say = (table.len() as f64 / (table.len() as f64 + HALF_SAY)).max(0.5);
        self.trees.fit(table);
        self.linear.fit(table);
        self.errors = Places::new(self.axes.near, self.rivals);
        for row in 0..table.len() {
            let at = table.at(row);
            let linear = &self.linear;
            let errors =
                table.told(row).iter().enumerate().map(|(rival, told)| told - linear.value(rival, at));
            self.errors.push(at, errors, table.weight(row));
        }
    }

    fn observe(&mut self, at: &[f64], told: &[f64], weight: f64) -> bool {
        if self.rivals == 0 || told.len() != self.rivals {
            return false;
        }
        // The neighbours know it from now on; the trees and the linear function when they are fitted again. The old errors
        // belong to the old function, so it must not move under them.
        let linear = &self.linear;
        let errors = told.iter().enumerate().map(|(rival, told)| told - linear.value(rival, at));
        self.errors.push(at, errors, weight);
        true
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], opinions: &mut [f64]) {
        self.trees.predict(at, log2, spread, opinions);
        let neighbours = self.errors.nearest(at);
        for (rival, (log2, spread)) in log2.iter_mut().zip(spread).enumerate().take(self.rivals) {
            let (corrected, other) = self.corrected(rival, at, &neighbours);
            // How far the two disagree is part of how little is known.
            let (say, rest, apart) = (self.say, 1.0 - self.say, corrected - *log2);
            *spread = (say * *spread * *spread + rest * other * other + say * rest * apart * apart).sqrt();
            *log2 = say * *log2 + rest * corrected;
        }
    }

    fn members(&self) -> usize {
        self.trees.members()
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        let mut lines = self.trees.explain(at, rivals);
        lines.extend(self.linear.explain(at, rivals));
        let said = |errors: &[f64]| {
            let far = errors
                .iter()
                .filter(|error| !error.is_nan())
                .fold(0.0f64, |most, error| most.max(error.abs()));
            format!("the linear function was off by at most {far:.2} doublings")
        };
        lines.extend(self.errors.explain(&self.axes, at, said));
        lines
    }
}
