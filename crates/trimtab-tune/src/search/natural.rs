//! `natural`: a policy per axis that follows the natural gradient of the expected reward −log2(time).
//!
//! The reward of a value is the mean over the points measured with it, drawn towards the mean of all while they are few.

use super::SearchSpace;
use super::policy::{ONE, Policy, reward};
use super::walk::{Known, Way};

/// Points drawn without the policy: rewards of fewer say nothing.
const FIRST_LOOKS: usize = 8;
/// The rate of a step in 16.16 fixed point: an eighth.
const RATE: u32 = ONE / 8;
/// Every value counts as if measured this often with the mean reward.
const PRIOR_COUNT: i64 = 2;
/// Rewards more than this below the best count as this much below: how bad a bad point is teaches nothing.
const WORST: i64 = 3 << 16;
/// After this many measurements half of the draws change a few axes of the best; before, fewer.
const AROUND_FROM: usize = 12;
const NEAR_AXES: usize = 2;
/// The others are the likeliest of this many untried points. Drawing each axis by itself was worse than random where
/// constraints make some values much rarer than others.
const LOOKED_AT: usize = 8;
/// Draws for one that is legal and new.
const ATTEMPTS: usize = 60;

/// A product of softmax policies, one an axis.
pub(super) struct Natural {
    policies: Vec<Policy>,
    /// Points and rewards in 16.16 fixed point; a failure has none.
    told: Vec<(usize, Option<i64>)>,
    best: Option<(usize, i64)>,
}

impl Natural {
    pub(super) fn new(space: &SearchSpace) -> Natural {
        let policies = space.axes().iter().map(|axis| Policy::new(axis.values.len())).collect();
        Natural { policies, told: Vec::new(), best: None }
    }

    /// One step of every policy along what is known of its values.
    fn follow(&mut self, space: &SearchSpace) {
        let Some((_, best)) = self.best else { return };
        let floor = best - WORST;
        let reward_of = |reward: &Option<i64>| reward.unwrap_or(floor).max(floor);
        let total: i64 = self.told.iter().map(|(_, reward)| reward_of(reward)).sum();
        let mean = total / self.told.len().max(1) as i64;
        for (axis, policy) in self.policies.iter_mut().enumerate() {
            let mut sums = vec![(mean * PRIOR_COUNT, PRIOR_COUNT); space.axes()[axis].values.len()];
            for (at, reward) in &self.told {
                let (sum, count) = &mut sums[usize::from(space.digits(*at)[axis])];
                *sum += reward_of(reward);
                *count += 1;
            }
            let rewards: Vec<i64> = sums.iter().map(|(sum, count)| sum / count).collect();
            policy.step(&rewards, RATE);
        }
    }

    /// The logarithm of a point's probability under the policies, up to a constant.
    fn likely(&self, space: &SearchSpace, at: usize) -> i64 {
        let digits = space.digits(at).iter();
        digits.zip(&self.policies).map(|(digit, policy)| policy.logarithms()[usize::from(*digit)]).sum()
    }
}

impl Way for Natural {
    const NAME: &'static str = "natural";

    /// The likeliest of a few untried points under the policies, or the best point with a few axes drawn from them.
    fn step(&mut self, known: &mut Known) -> Option<usize> {
        if self.told.len() < FIRST_LOOKS || self.policies.is_empty() {
            return None;
        }
        let (best, _) = self.best?;
        if known.numbers.below(self.told.len() + AROUND_FROM) >= self.told.len() {
            let drawn: Vec<usize> =
                (0..LOOKED_AT).filter_map(|_| known.tried.draw(&mut known.numbers)).collect();
            let likely = |at: &usize| (self.likely(&known.space, *at), std::cmp::Reverse(*at));
            return drawn.into_iter().max_by_key(likely);
        }
        let mut digits = known.space.digits(best).to_vec();
        for _ in 0..ATTEMPTS {
            digits.copy_from_slice(known.space.digits(best));
            for _ in 0..NEAR_AXES {
                let axis = known.numbers.below(digits.len());
                digits[axis] = self.policies[axis].at(known.numbers.below(ONE as usize) as u32) as u16;
            }
            if let Some(at) = known.untried(&digits) {
                return Some(at);
            }
        }
        None
    }

    fn learn(&mut self, known: &mut Known, at: usize, time: Option<f64>) {
        let reward = time.map(reward);
        self.told.push((at, reward));
        if let Some(reward) = reward
            && self.best.is_none_or(|(_, best)| reward > best)
        {
            self.best = Some((at, reward));
        }
        self.follow(&known.space);
    }
}
