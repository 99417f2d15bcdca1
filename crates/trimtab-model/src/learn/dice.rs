//! Random numbers of our own, so that the same seed gives the same model on every machine.

/// A generator (SplitMix64): integers only, so it is the same everywhere.
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// The generator of that seed.
    pub fn new(seed: u64) -> Dice {
        Dice { state: seed }
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`; zero for a limit of zero.
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// A number from zero up to but not one.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Roughly normal, mean zero, deviation one: twelve uniform numbers.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// The numbers below `count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, self.below(at + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_never_change_and_are_spread_evenly() {
        // The published first output of SplitMix64 for seed zero.
        assert_eq!(Dice::new(0).bits(), 0xe220_a839_7b1d_cdaf);
        let mut dice = Dice::new(3);
        let mut counts = [0u32; 5];
        for _ in 0..5000 {
            counts[dice.below(5)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        let drawn: Vec<f64> = (0..4000).map(|_| dice.normal()).collect();
        let square = drawn.iter().map(|value| value * value).sum::<f64>() / 4000.0;
        assert!((square - 1.0).abs() < 0.1, "{square}");
        let mut order = dice.order(50);
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
