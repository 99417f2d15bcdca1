//! `anneal`: walks to neighbours, also to slower ones while it is hot, and cools with every measurement.

use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy, exact_math};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

/// A step to a point this many doublings slower is taken one time in e at the start …
const HOT: f64 = 1.0;
/// … and after each measurement at this share of the temperature before: 0.1 doublings after 100.
const COOLING: f64 = 0.977;
/// Measurements without a step taken after which the walk goes on from the best.
const STUCK: u32 = 30;

/// Simulated annealing in the logarithm of time, so that it is the same for slow and fast kernels.
#[derive(Clone, Debug)]
pub struct Anneal {
    space: Arc<SearchSpace>,
    numbers: RandomNumbers,
    tried: Tried,
    here: Option<(usize, f64)>,
    best: Option<(usize, f64)>,
    temperature: f64,
    refused: u32,
    around: Vec<usize>,
}

impl Anneal {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64) -> Anneal {
        let tried = Tried::new(space.len());
        let numbers = RandomNumbers::new(seed);
        let (here, best, around) = (None, None, Vec::new());
        Anneal { space, numbers, tried, here, best, temperature: HOT, refused: 0, around }
    }
}

impl Strategy for Anneal {
    fn name(&self) -> &'static str {
        "anneal"
    }

    fn ask(&mut self) -> Option<usize> {
        if self.refused >= STUCK {
            self.refused = 0;
            self.here = if self.here == self.best { None } else { self.best };
        }
        let mut chosen = None;
        if let Some((here, _)) = self.here {
            self.around.clear();
            self.space.neighbours(here, &mut self.around);
            self.around.retain(|at| !self.tried.has(*at));
            chosen = self.around.get(self.numbers.below(self.around.len())).copied();
        }
        let at = match chosen {
            Some(at) => at,
            None => {
                self.here = None;
                self.tried.draw(&mut self.numbers)?
            }
        };
        self.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.tried.add(at);
        self.temperature *= COOLING;
        self.refused += 1;
        let Some(time) = seen.time().filter(|_| at < self.space.len()) else { return };
        let value = exact_math::log2(time);
        if self.best.is_none_or(|(_, best)| value < best) {
            self.best = Some((at, value));
        }
        let taken = self.here.is_none_or(|(_, here)| {
            let worse = value - here;
            worse <= 0.0 || self.numbers.unit() < exact_math::exp(-worse / self.temperature.max(1e-6))
        });
        if taken {
            self.refused = 0;
            self.here = Some((at, value));
        }
    }
}
