//! `sweep`: every point in a fixed order, the default first; wherever it stops, it has looked everywhere alike.

use super::walk::{Known, Way};

/// A walk through the whole space in steps of the golden ratio, which spreads any number of points evenly.
pub(super) struct Sweep {
    len: usize,
    step: usize,
    next: usize,
    walked: usize,
}

impl Sweep {
    /// A walk through so many points.
    pub(super) fn new(len: usize) -> Sweep {
        let mut step = ((len as u128 * 0x9e37_79b9_7f4a_7c15) >> 64) as usize;
        while len > 1 && (step == 0 || common_divisor(step, len) != 1) {
            step += 1;
        }
        Sweep { len, step, next: 0, walked: 0 }
    }
}

/// One, if a walk in these steps meets every point once.
fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

impl Way for Sweep {
    const NAME: &'static str = "sweep";

    fn step(&mut self, known: &mut Known) -> Option<usize> {
        while self.walked < self.len {
            let at = self.next;
            self.next = (self.next + self.step) % self.len;
            self.walked += 1;
            if !known.tried.has(at) {
                return Some(at);
            }
        }
        None
    }

    fn learn(&mut self, _: &mut Known, _: usize, _: Option<f64>) {}
}
