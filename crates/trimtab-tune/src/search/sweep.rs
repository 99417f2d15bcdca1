//! `sweep`: every point in a fixed order, the default first; wherever it stops, it has looked everywhere alike.

use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy};

/// A walk through the whole space in steps of the golden ratio, which spreads any number of points evenly.
#[derive(Clone, Debug)]
pub struct Sweep {
    tried: Tried,
    len: usize,
    step: usize,
    next: usize,
    walked: usize,
}

impl Sweep {
    /// A walk through that space.
    pub fn new(space: &SearchSpace) -> Sweep {
        let len = space.len();
        let mut step = ((len as u128 * 0x9e37_79b9_7f4a_7c15) >> 64) as usize;
        while len > 1 && (step == 0 || common_divisor(step, len) != 1) {
            step += 1;
        }
        Sweep { tried: Tried::new(len), len, step, next: 0, walked: 0 }
    }
}

/// One, if a walk in these steps meets every point once.
fn common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_divisor(other, one % other) }
}

impl Strategy for Sweep {
    fn name(&self) -> &'static str {
        "sweep"
    }

    fn ask(&mut self) -> Option<usize> {
        while self.walked < self.len {
            let at = self.next;
            self.next = (self.next + self.step) % self.len;
            self.walked += 1;
            if self.tried.add(at) {
                return Some(at);
            }
        }
        None
    }

    fn tell(&mut self, at: usize, _seen: Seen) {
        self.tried.add(at);
    }
}
