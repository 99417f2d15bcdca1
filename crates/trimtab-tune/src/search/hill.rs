//! `hill`: iterated local search. Climbs to where no neighbour is better, then jumps a little way off and climbs again.

use super::walk::{Known, Way};

/// Points looked at before the first climb: climbing from the best of a few beats climbing from anywhere.
const FIRST_LOOKS: usize = 8;
/// Axes changed by a jump.
const JUMP_AXES: usize = 3;
/// Jumps tried for one that lands on a legal point nobody tried.
const JUMPS: usize = 50;
/// After this many climbs that did not beat the best, one starts anywhere.
const PATIENCE: u32 = 4;

/// Iterated local search over points that differ in one axis.
#[derive(Default)]
pub(super) struct Hill {
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
    fn stand(&mut self, known: &mut Known, at: usize, time: f64) {
        self.here = Some((at, time));
        self.around = known.around(at);
    }

    /// A point a few axes away from the best.
    fn jump(&self, known: &mut Known) -> Option<usize> {
        let (from, _) = self.best.filter(|_| self.climbs_in_vain < PATIENCE)?;
        let mut digits = known.space.digits(from).to_vec();
        for _ in 0..JUMPS {
            digits.copy_from_slice(known.space.digits(from));
            for _ in 0..JUMP_AXES {
                let axis = known.numbers.below(digits.len());
                if let Some(digit) = digits.get_mut(axis) {
                    *digit = known.numbers.below(known.space.axes()[axis].values.len()) as u16;
                }
            }
            if let Some(at) = known.untried(&digits) {
                return Some(at);
            }
        }
        None
    }
}

impl Way for Hill {
    const NAME: &'static str = "hill";

    fn step(&mut self, known: &mut Known) -> Option<usize> {
        let has_looked = self.looks >= FIRST_LOOKS;
        if let Some((at, time)) = self.best.filter(|_| has_looked && self.here.is_none()) {
            self.stand(known, at, time);
        }
        while let Some(at) = self.around.pop() {
            if !known.tried.has(at) {
                return Some(at);
            }
        }
        if self.here.take().is_some() {
            self.climbs_in_vain = if self.improved { 0 } else { self.climbs_in_vain + 1 };
            self.improved = false;
        }
        let jump = self.jump(known).filter(|_| has_looked);
        if jump.is_none() && has_looked {
            self.climbs_in_vain = 0;
        }
        self.looks += 1;
        jump
    }

    fn learn(&mut self, known: &mut Known, at: usize, time: Option<f64>) {
        let Some(time) = time else { return };
        if self.best.is_none_or(|(_, best)| time < best) {
            self.best = Some((at, time));
            self.improved = true;
        }
        let climbing = self.looks > FIRST_LOOKS || self.here.is_some();
        if climbing && self.here.is_none_or(|(_, here)| time < here) {
            self.stand(known, at, time);
        }
    }
}
