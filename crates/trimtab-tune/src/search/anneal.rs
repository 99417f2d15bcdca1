//! `anneal`: walks to neighbours, also to slower ones while it is hot, and cools with every measurement.

use super::exact_math;
use super::walk::{Known, Way};

/// A step to a point this many doublings slower is taken one time in e at the start …
const HOT: f64 = 1.0;
/// … and after each measurement at this share of the temperature before: 0.1 doublings after 100.
const COOLING: f64 = 0.977;
/// Measurements without a step taken after which the walk goes on from the best.
const STUCK: u32 = 30;

/// Simulated annealing in the logarithm of time, so that it is the same for slow and fast kernels.
pub(super) struct Anneal {
    here: Option<(usize, f64)>,
    best: Option<(usize, f64)>,
    temperature: f64,
    refused: u32,
}

impl Default for Anneal {
    fn default() -> Anneal {
        Anneal { here: None, best: None, temperature: HOT, refused: 0 }
    }
}

impl Way for Anneal {
    const NAME: &'static str = "anneal";

    fn step(&mut self, known: &mut Known) -> Option<usize> {
        if self.refused >= STUCK {
            self.refused = 0;
            self.here = if self.here == self.best { None } else { self.best };
        }
        let mut around = Vec::new();
        known.space.neighbours(self.here?.0, &mut around);
        around.retain(|at| !known.tried.has(*at));
        let chosen = around.get(known.numbers.below(around.len())).copied();
        self.here = self.here.filter(|_| chosen.is_some());
        chosen
    }

    fn learn(&mut self, known: &mut Known, at: usize, time: Option<f64>) {
        self.temperature *= COOLING;
        self.refused += 1;
        let Some(value) = time.map(exact_math::log2) else { return };
        if self.best.is_none_or(|(_, best)| value < best) {
            self.best = Some((at, value));
        }
        let taken = self.here.is_none_or(|(_, here)| {
            let worse = value - here;
            worse <= 0.0 || known.numbers.unit() < exact_math::exp(-worse / self.temperature.max(1e-6))
        });
        if taken {
            self.refused = 0;
            self.here = Some((at, value));
        }
    }
}
