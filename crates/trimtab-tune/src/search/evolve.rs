//! `evolve`: a population of points; children take each axis from one of two good parents, and sometimes mutate.

use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

/// Points that live at a time.
const POPULATION: usize = 16;
/// Of this many drawn at random, the fastest becomes a parent.
const TOURNAMENT: usize = 3;
/// One axis in this many takes a value of no parent.
const MUTATION: usize = 8;
/// Children made for one that is legal and new.
const ATTEMPTS: usize = 60;

/// A genetic search that replaces the slowest.
#[derive(Clone, Debug)]
pub struct Evolve {
    space: Arc<SearchSpace>,
    numbers: RandomNumbers,
    tried: Tried,
    /// Living points and their times, fastest first.
    living: Vec<(f64, usize)>,
}

impl Evolve {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64) -> Evolve {
        let tried = Tried::new(space.len());
        Evolve { space, numbers: RandomNumbers::new(seed), tried, living: Vec::new() }
    }

    fn parent(&mut self) -> usize {
        // The living are sorted: the lowest position is the fastest.
        let drawn = (0..TOURNAMENT).map(|_| self.numbers.below(self.living.len())).min();
        self.living[drawn.unwrap_or(0)].1
    }

    fn child(&mut self) -> Option<usize> {
        let mut digits = vec![0u16; self.space.axes().len()];
        for _ in 0..ATTEMPTS {
            let (mother, father) = (self.parent(), self.parent());
            for (axis, digit) in digits.iter_mut().enumerate() {
                let values = self.space.axes()[axis].values.len();
                let from = if self.numbers.below(2) == 0 { mother } else { father };
                *digit = self.space.digits(from)[axis];
                if self.numbers.below(MUTATION) == 0 {
                    *digit = self.numbers.below(values) as u16;
                }
            }
            if let Some(at) = self.space.find(&digits).filter(|at| !self.tried.has(*at)) {
                return Some(at);
            }
        }
        None
    }
}

impl Strategy for Evolve {
    fn name(&self) -> &'static str {
        "evolve"
    }

    fn ask(&mut self) -> Option<usize> {
        let child = if self.living.len() < POPULATION { None } else { self.child() };
        let at = child.or_else(|| self.tried.draw(&mut self.numbers))?;
        self.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.tried.add(at);
        let Some(time) = seen.time().filter(|_| at < self.space.len()) else { return };
        let place = self.living.partition_point(|(other, _)| *other <= time);
        self.living.insert(place, (time, at));
        self.living.truncate(POPULATION);
    }
}
