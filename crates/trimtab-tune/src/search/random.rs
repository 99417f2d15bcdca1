//! `random`: any point, none twice. What every other strategy must beat.

use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy};
use trimtab_core::RandomNumbers;

/// Random search without repeats.
#[derive(Clone, Debug)]
pub struct Random {
    numbers: RandomNumbers,
    tried: Tried,
}

impl Random {
    /// A search of that seed.
    pub fn new(space: &SearchSpace, seed: u64) -> Random {
        Random { numbers: RandomNumbers::new(seed), tried: Tried::new(space.len()) }
    }
}

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn ask(&mut self) -> Option<usize> {
        let at = self.tried.draw(&mut self.numbers)?;
        self.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, _seen: Seen) {
        self.tried.add(at);
    }
}
