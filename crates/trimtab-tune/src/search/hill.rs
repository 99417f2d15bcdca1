//! `hill`: iterated local search. Climbs to where no neighbour is better, then jumps a little way off and climbs again.

use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

/// Points looked at before the first climb: climbing from the best of a few beats climbing from anywhere.
const FIRST_LOOKS: usize = 8;
/// Axes changed by a jump.
const JUMP_AXES: usize = 3;
/// Jumps tried for one that lands on a legal point nobody tried.
const JUMPS: usize = 50;
/// After this many climbs that did not beat the best, one starts anywhere.
const PATIENCE: u32 = 4;

/// Iterated local search over points that differ in one axis.
#[derive(Clone, Debug)]
pub struct Hill {
    space: Arc<SearchSpace>,
    numbers: RandomNumbers,
    tried: Tried,
    /// Where the climb stands.
    here: Option<(usize, f64)>,
    best: Option<(usize, f64)>,
    /// Neighbours of `here` that were not looked at yet, in random order.
    around: Vec<usize>,
    climbs_in_vain: u32,
    improved: bool,
    looks: usize,
}

impl Hill {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64) -> Hill {
        Hill {
            tried: Tried::new(space.len()),
            space,
            numbers: RandomNumbers::new(seed),
            here: None,
            best: None,
            around: Vec::new(),
            climbs_in_vain: 0,
            improved: false,
            looks: 0,
        }
    }

    fn stand(&mut self, at: usize, time: f64) {
        self.here = Some((at, time));
        self.around.clear();
        self.space.neighbours(at, &mut self.around);
        self.numbers.shuffle(&mut self.around);
    }

    /// A point a few axes away from the best.
    fn jump(&mut self) -> Option<usize> {
        let (from, _) = self.best?;
        if self.climbs_in_vain >= PATIENCE {
            return None;
        }
        let mut digits = self.space.digits(from).to_vec();
        for _ in 0..JUMPS {
            digits.copy_from_slice(self.space.digits(from));
            for _ in 0..JUMP_AXES {
                let axis = self.numbers.below(digits.len());
                if let Some(digit) = digits.get_mut(axis) {
                    *digit = self.numbers.below(self.space.axes()[axis].values.len()) as u16;
                }
            }
            if let Some(at) = self.space.find(&digits).filter(|at| !self.tried.has(*at)) {
                return Some(at);
            }
        }
        None
    }
}

impl Strategy for Hill {
    fn name(&self) -> &'static str {
        "hill"
    }

    fn ask(&mut self) -> Option<usize> {
        if self.looks >= FIRST_LOOKS
            && self.here.is_none()
            && let Some((at, time)) = self.best
        {
            self.stand(at, time);
        }
        while let Some(at) = self.around.pop() {
            if self.tried.add(at) {
                return Some(at);
            }
        }
        if self.here.take().is_some() {
            self.climbs_in_vain = if self.improved { 0 } else { self.climbs_in_vain + 1 };
            self.improved = false;
        }
        let at = match self.jump().filter(|_| self.looks >= FIRST_LOOKS) {
            Some(at) => at,
            None => {
                if self.looks >= FIRST_LOOKS {
                    self.climbs_in_vain = 0;
                }
                self.tried.draw(&mut self.numbers)?
            }
        };
        self.looks += 1;
        self.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.tried.add(at);
        let Some(time) = seen.time().filter(|_| at < self.space.len()) else { return };
        if self.best.is_none_or(|(_, best)| time < best) {
            self.best = Some((at, time));
            self.improved = true;
        }
        let climbing = self.looks > FIRST_LOOKS || self.here.is_some();
        if climbing && self.here.is_none_or(|(_, here)| time < here) {
            self.stand(at, time);
        }
    }
}
