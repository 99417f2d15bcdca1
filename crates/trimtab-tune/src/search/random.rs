//! `random`: any point, none twice. What every other strategy must beat.

use super::walk::{Known, Way};

/// Random search without repeats.
pub(super) struct Random;

impl Way for Random {
    const NAME: &'static str = "random";

    fn step(&mut self, _: &mut Known) -> Option<usize> {
        None
    }

    fn learn(&mut self, _: &mut Known, _: usize, _: Option<f64>) {}
}
