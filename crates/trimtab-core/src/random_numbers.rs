//! Random numbers of our own, so that the same seed gives the same search and the same model on every machine and with every version.

/// The golden ratio in 64 bits: the step of the generator that spreads a seed.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator (xoshiro256**, seeded by SplitMix64). Integers only, so it is the same everywhere.
#[derive(Clone, Debug)]
pub struct RandomNumbers {
    state: [u64; 4],
}

impl RandomNumbers {
    /// The generator of that seed; neighbouring seeds give unrelated numbers.
    pub fn new(seed: u64) -> RandomNumbers {
        let mut spread = seed;
        let mut word = || {
            spread = spread.wrapping_add(STEP);
            let mut mixed = spread;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        };
        RandomNumbers { state: [word(), word(), word(), word()] }
    }

    /// Any 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `limit`; zero for a limit of zero.
    pub fn below(&mut self, limit: usize) -> usize {
        // The high half of a product: off from uniform by less than limit / 2^64.
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// A number from zero up to but not one, in steps of 2^-53: the same on every machine.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Roughly normal, mean zero, deviation one: twelve uniform numbers, no function of the platform.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    /// Puts these in random order.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last + 1));
        }
    }

    /// The numbers below `count` in random order.
    pub fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_seed_never_change() {
        let mut numbers = RandomNumbers::new(0);
        // The published first outputs of SplitMix64 for seed zero are the state.
        assert_eq!(numbers.state[..2], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
        let first: Vec<u64> = (0..3).map(|_| numbers.bits()).collect();
        let mut again = RandomNumbers::new(0);
        assert_eq!(first, (0..3).map(|_| again.bits()).collect::<Vec<_>>());
        assert_ne!(first[0], RandomNumbers::new(1).bits());
    }

    #[test]
    fn numbers_below_a_limit_reach_every_value_about_equally() {
        let mut numbers = RandomNumbers::new(7);
        let mut counts = [0u32; 5];
        for _ in 0..5000 {
            counts[numbers.below(5)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
        assert_eq!(numbers.below(0), 0);
        let mean = (0..2000).map(|_| numbers.normal()).sum::<f64>() / 2000.0;
        assert!(mean.abs() < 0.1, "{mean}");
        let mut order = numbers.order(50);
        assert_ne!(order, (0..50).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }
}
