//! `evolve`: a population of points; children take each axis from one of two good parents, and sometimes mutate.

use super::walk::{Known, Way};

/// Points that live at a time.
const POPULATION: usize = 16;
/// Of this many drawn at random, the fastest becomes a parent.
const TOURNAMENT: usize = 3;
/// One axis in this many takes a value of no parent.
const MUTATION: usize = 8;
/// Children made for one that is legal and new.
const ATTEMPTS: usize = 60;

/// A genetic search that replaces the slowest.
#[derive(Default)]
pub(super) struct Evolve {
    /// Living points and their times, fastest first.
    living: Vec<(f64, usize)>,
}

impl Evolve {
    fn parent(&self, known: &mut Known) -> usize {
        // The living are sorted: the lowest position is the fastest.
        let drawn = (0..TOURNAMENT).map(|_| known.numbers.below(self.living.len())).min();
        self.living[drawn.unwrap_or(0)].1
    }
}

impl Way for Evolve {
    const NAME: &'static str = "evolve";

    /// A child of two parents.
    fn step(&mut self, known: &mut Known) -> Option<usize> {
        if self.living.len() < POPULATION {
            return None;
        }
        let mut digits = vec![0u16; known.space.axes().len()];
        for _ in 0..ATTEMPTS {
            let (mother, father) = (self.parent(known), self.parent(known));
            for (axis, digit) in digits.iter_mut().enumerate() {
                let values = known.space.axes()[axis].values.len();
                let from = if known.numbers.below(2) == 0 { mother } else { father };
                *digit = known.space.digits(from)[axis];
                if known.numbers.below(MUTATION) == 0 {
                    *digit = known.numbers.below(values) as u16;
                }
            }
            if let Some(at) = known.untried(&digits) {
                return Some(at);
            }
        }
        None
    }

    fn learn(&mut self, _: &mut Known, at: usize, time: Option<f64>) {
        let Some(time) = time else { return };
        let place = self.living.partition_point(|(other, _)| *other <= time);
        self.living.insert(place, (time, at));
        self.living.truncate(POPULATION);
    }
}
