//! A softmax policy over candidates whose natural gradient is followed exactly, in integers.
//!
//! The policy is p = softmax(θ), the reward of a candidate is r = −log2(time). The Fisher matrix of a softmax is
//! diag(p) − ppᵀ; it is singular along (1, …, 1), and the natural gradient of the expected reward is r − Σ p r: no matrix is
//! inverted. With base-two logarithms a step is: multiply each weight by 2^(rate · (r − mean r)), then normalise.

/// One, in 16.16 fixed point.
pub const ONE: u32 = 1 << 16;
/// Bits of the fraction of logarithms and weights.
const FRACTION_BITS: u32 = 16;
/// Bits of the fraction while powers are computed.
const POWER_BITS: u32 = 62;
/// Logarithms are kept within this many doublings: weights below 2^-40 of the largest are zero anyway.
const FURTHEST: i64 = 64 << FRACTION_BITS;

/// Weights of candidates in 16.16 fixed point that sum to exactly one after every step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// θ: log2 of the weights up to a constant, the largest at zero.
    logarithms: Vec<i64>,
    weights: Vec<u32>,
}

/// log2 of a time as a reward in 16.16 fixed point: faster is higher. Exact for powers of two.
pub fn reward(time: f64) -> i64 {
    -to_fixed(super::exact_math::log2(time))
}

fn to_fixed(value: f64) -> i64 {
    // Rounded half away from zero; the cast saturates.
    let scaled = value * f64::from(ONE);
    (scaled + if scaled < 0.0 { -0.5 } else { 0.5 }) as i64
}

impl Policy {
    /// Equal weights for that many candidates.
    pub fn new(candidates: usize) -> Policy {
        let mut policy = Policy { logarithms: vec![0; candidates], weights: vec![0; candidates] };
        policy.normalise();
        policy
    }

    /// The weights; they sum to [`ONE`], or there are none.
    pub fn weights(&self) -> &[u32] {
        &self.weights
    }

    /// log2 of the weights in 16.16 fixed point up to a constant, the largest at zero: also of weights too small to show.
    pub fn logarithms(&self) -> &[i64] {
        &self.logarithms
    }

    /// One step along the natural gradient. `rewards` are in 16.16 fixed point, one per candidate; so is `rate`.
    pub fn step(&mut self, rewards: &[i64], rate: u32) {
        let weighted = self.weights.iter().zip(rewards).map(|(w, r)| i128::from(*w) * i128::from(*r));
        let mean = round_shift(weighted.sum(), FRACTION_BITS);
        for (logarithm, reward) in self.logarithms.iter_mut().zip(rewards) {
            let gain = round_shift((i128::from(*reward) - mean) * i128::from(rate), FRACTION_BITS);
            *logarithm += gain.clamp(-i128::from(FURTHEST), i128::from(FURTHEST)) as i64;
        }
        self.normalise();
    }

    /// The candidate at that share of the summed weights; `share` is below [`ONE`].
    pub fn at(&self, share: u32) -> usize {
        let mut sum = 0;
        for (candidate, weight) in self.weights.iter().enumerate() {
            sum += weight;
            if share < sum {
                return candidate;
            }
        }
        self.weights.len().saturating_sub(1)
    }

    /// Weights from logarithms: rounded down, and what is missing to one goes to the largest remainders, first ones first.
    fn normalise(&mut self) {
        let Some(&largest) = self.logarithms.iter().max() else { return };
        for logarithm in &mut self.logarithms {
            *logarithm = (*logarithm - largest).max(-FURTHEST);
        }
        let powers: Vec<u128> = self.logarithms.iter().map(|&logarithm| power_of_two(logarithm)).collect();
        let sum: u128 = powers.iter().sum();
        let mut missing = u128::from(ONE);
        let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(powers.len());
        for (candidate, (weight, power)) in self.weights.iter_mut().zip(&powers).enumerate() {
            let scaled = power << FRACTION_BITS;
            *weight = (scaled / sum) as u32;
            missing -= u128::from(*weight);
            remainders.push((scaled % sum, candidate));
        }
        remainders.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, candidate) in remainders.iter().take(missing as usize) {
            self.weights[*candidate] += 1;
        }
    }
}

/// Division by a power of two, rounded half up.
fn round_shift(value: i128, bits: u32) -> i128 {
    (value + (1 << (bits - 1))) >> bits
}

/// Two to a power in 16.16 fixed point that is not positive, with 62 bits of fraction. Integers only.
fn power_of_two(exponent: i64) -> u128 {
    let whole = (-exponent) >> FRACTION_BITS;
    let fraction = (-exponent) & (i64::from(ONE) - 1);
    if whole >= i64::from(POWER_BITS) {
        return 0;
    }
    // 2^-f is the product of 2^-(1/2), 2^-(1/4), … for the bits of f; each is the square root of the one before.
    let mut power = 1u128 << POWER_BITS;
    let mut root = 1u128 << (POWER_BITS - 1);
    for bit in (0..FRACTION_BITS).rev() {
        root = (root << POWER_BITS).isqrt();
        if fraction >> bit & 1 == 1 {
            power = (power * root) >> POWER_BITS;
        }
    }
    power >> whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(times: &[f64], rate: u32, steps: u32) -> Vec<u32> {
        let rewards: Vec<i64> = times.iter().map(|time| reward(*time)).collect();
        let mut policy = Policy::new(times.len());
        for _ in 0..steps {
            policy.step(&rewards, rate);
            assert_eq!(policy.weights().iter().sum::<u32>(), ONE);
        }
        policy.weights().to_vec()
    }

    #[test]
    fn steps_equal_those_computed_by_hand() {
        // Two candidates, one twice as fast, rate one. r = (0, −1), mean −1/2, θ = (1/2, −1/2), p = (2/3, 1/3):
        // 65536 · 2/3 = 43690.67 and 21845.33; the larger remainder is rounded up.
        assert_eq!(after(&[1.0, 2.0], ONE, 1), [43_691, 21_845]);
        // θ only ever grows by r − mean r, whose differences are those of r: after n steps the odds are 2^n.
        // 65536 · 4/5 = 52428.8, 65536 · 1/5 = 13107.2.
        assert_eq!(after(&[1.0, 2.0], ONE, 2), [52_429, 13_107]);
        // 65536 · 8/9 = 58254.2, 65536 / 9 = 7281.8.
        assert_eq!(after(&[1.0, 2.0], ONE, 3), [58_254, 7_282]);
        // Half the rate twice is the whole rate once.
        assert_eq!(after(&[1.0, 2.0], ONE / 2, 2), [43_691, 21_845]);
        // 1, 2, 4 → odds 4 : 2 : 1; 65536/7 = 9362.29, ×2 = 18724.57, ×4 = 37449.14.
        assert_eq!(after(&[4.0, 1.0, 2.0], ONE, 1), [9_362, 37_449, 18_725]);
        // An odd root: half a rate once gives odds √2 : 1; 65536 · √2/(1 + √2) = 38389.63.
        assert_eq!(after(&[1.0, 2.0], ONE / 2, 1), [38_390, 27_146]);
    }

    #[test]
    fn ties_and_zero_gaps_change_nothing() {
        assert_eq!(after(&[3.7, 3.7], ONE, 5), [32_768, 32_768]);
        // What cannot be shared equally goes to the first ones.
        assert_eq!(after(&[5.0; 3], ONE, 5), [21_846, 21_845, 21_845]);
        let mut policy = Policy::new(2);
        policy.step(&[reward(1.0), reward(2.0)], ONE);
        let before = policy.clone();
        policy.step(&[reward(9.0), reward(9.0)], ONE);
        policy.step(&[reward(1.0), reward(2.0)], 0);
        assert_eq!(policy, before);
    }

    #[test]
    fn one_candidate_has_all_the_weight_and_none_has_none() {
        assert_eq!(after(&[123.0], ONE, 3), [ONE]);
        let mut nobody = Policy::new(0);
        nobody.step(&[], ONE);
        assert!(nobody.weights().is_empty() && nobody.at(0) == 0);
    }

    #[test]
    fn the_unit_of_time_does_not_matter_however_huge_or_tiny() {
        let step = after(&[1.0, 2.0], ONE, 1);
        for scale in [2f64.powi(-1000), 2f64.powi(-30), 2f64.powi(40), 2f64.powi(1000)] {
            assert_eq!(after(&[scale, 2.0 * scale], ONE, 1), step, "{scale}");
        }
        // A gap beyond what 16 bits can hold: all of the weight, exactly.
        assert_eq!(after(&[1e-300, 1e300], ONE, 1), [ONE, 0]);
        assert_eq!(after(&[f64::MAX, f64::MIN_POSITIVE], ONE, 4), [0, ONE]);
    }

    #[test]
    fn a_share_finds_the_candidate_that_holds_it() {
        let mut policy = Policy::new(2);
        policy.step(&[reward(1.0), reward(2.0)], ONE);
        assert_eq!((policy.at(0), policy.at(43_690), policy.at(43_691), policy.at(ONE - 1)), (0, 0, 1, 1));
    }

    #[test]
    fn powers_of_two_are_exact_where_they_can_be() {
        let one = 1u128 << POWER_BITS;
        assert_eq!(power_of_two(0), one);
        assert_eq!(power_of_two(-i64::from(ONE)), one >> 1);
        assert_eq!(power_of_two(-i64::from(ONE) * 100), 0);
        let half = power_of_two(-i64::from(ONE) / 2) as f64 / one as f64;
        assert!((half - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-15);
    }
}
