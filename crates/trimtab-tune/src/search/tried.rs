//! Which points were tried, and drawing one that was not.

use trimtab_core::RandomNumbers;

/// Draws before the rest is looked through in order: enough until nine of ten points are tried.
const DRAWS: u32 = 20;

/// A set of positions, one bit each.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    bits: Vec<u64>,
    len: usize,
    count: usize,
}

impl Tried {
    pub(crate) fn new(len: usize) -> Tried {
        Tried { bits: vec![0; len.div_ceil(64)], len, count: 0 }
    }

    pub(crate) fn has(&self, at: usize) -> bool {
        self.bits.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }

    /// Adds a position; false if it was there or does not exist.
    pub(crate) fn add(&mut self, at: usize) -> bool {
        if at >= self.len || self.has(at) {
            return false;
        }
        self.bits[at / 64] |= 1 << (at % 64);
        self.count += 1;
        true
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn is_full(&self) -> bool {
        self.count >= self.len
    }

    /// A position that is not in the set; does not add it.
    pub(crate) fn draw(&self, numbers: &mut RandomNumbers) -> Option<usize> {
        if self.is_full() {
            return None;
        }
        for _ in 0..DRAWS {
            let at = numbers.below(self.len);
            if !self.has(at) {
                return Some(at);
            }
        }
        let start = numbers.below(self.len);
        (start..self.len).chain(0..start).find(|&at| !self.has(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_drawn_once_and_then_none() {
        let mut numbers = RandomNumbers::new(3);
        let mut tried = Tried::new(131);
        let mut drawn = 0;
        while let Some(at) = tried.draw(&mut numbers) {
            assert!(tried.add(at) && tried.has(at) && !tried.add(at));
            drawn += 1;
        }
        assert_eq!((drawn, tried.count(), tried.is_full()), (131, 131, true));
        assert!(!tried.add(131) && !tried.has(131));
        assert!(Tried::new(0).draw(&mut numbers).is_none());
    }
}
