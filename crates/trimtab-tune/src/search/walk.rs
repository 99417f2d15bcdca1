//! What most strategies share: a space, numbers drawn by a seed, and that no point is asked for twice.

use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

/// What every walk through a space knows.
pub(super) struct Known {
    pub(super) space: Arc<SearchSpace>,
    pub(super) numbers: RandomNumbers,
    pub(super) tried: Tried,
}

impl Known {
    /// The point of these digits, if it is legal and was not tried.
    pub(super) fn untried(&self, digits: &[u16]) -> Option<usize> {
        self.space.find(digits).filter(|at| !self.tried.has(*at))
    }

    /// Neighbours of a point in random order.
    pub(super) fn around(&mut self, at: usize) -> Vec<usize> {
        let mut around = Vec::new();
        self.space.neighbours(at, &mut around);
        self.numbers.shuffle(&mut around);
        around
    }
}

/// What strategies differ in.
pub(super) trait Way: Send {
    /// The name on the command line.
    const NAME: &'static str;

    /// An untried point to measure next; where there is none, one is drawn from all that were not tried.
    fn step(&mut self, known: &mut Known) -> Option<usize>;

    /// How long a point took; nothing if it failed.
    fn learn(&mut self, known: &mut Known, at: usize, time: Option<f64>);
}

/// A strategy that goes one way.
pub(super) struct Walk<W> {
    known: Known,
    way: W,
}

impl<W: Way + 'static> Walk<W> {
    pub(super) fn start(space: Arc<SearchSpace>, seed: u64, way: W) -> Box<dyn Strategy> {
        let tried = Tried::new(space.len());
        Box::new(Walk { known: Known { space, numbers: RandomNumbers::new(seed), tried }, way })
    }
}

impl<W: Way> Strategy for Walk<W> {
    fn name(&self) -> &'static str {
        W::NAME
    }

    fn ask(&mut self) -> Option<usize> {
        let step = self.way.step(&mut self.known);
        let at = step.or_else(|| self.known.tried.draw(&mut self.known.numbers))?;
        self.known.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.known.tried.add(at);
        if at < self.known.space.len() {
            self.way.learn(&mut self.known, at, seen.time());
        }
    }
}
