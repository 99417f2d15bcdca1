//! `natural`: a policy per axis that follows the natural gradient of the expected reward −log2(time).
//!
//! The reward of a value is the mean over the points measured with it, drawn towards the mean of all while they are few.

use super::policy::{ONE, Policy, reward};
use super::tried::Tried;
use super::{SearchSpace, Seen, Strategy};
use std::sync::Arc;
use trimtab_core::RandomNumbers;

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
#[derive(Clone, Debug)]
pub struct Natural {
    space: Arc<SearchSpace>,
    numbers: RandomNumbers,
    tried: Tried,
    policies: Vec<Policy>,
    /// Points and rewards in 16.16 fixed point; a failure has none.
    told: Vec<(usize, Option<i64>)>,
    best: Option<(usize, i64)>,
}

impl Natural {
    /// A search of that seed.
    pub fn new(space: Arc<SearchSpace>, seed: u64) -> Natural {
        Natural {
            numbers: RandomNumbers::new(seed),
            tried: Tried::new(space.len()),
            policies: space.axes().iter().map(|axis| Policy::new(axis.values.len())).collect(),
            space,
            told: Vec::new(),
            best: None,
        }
    }

    /// One step of every policy along what is known of its values.
    fn learn(&mut self) {
        let Some((_, best)) = self.best else { return };
        let floor = best - WORST;
        let reward_of = |reward: &Option<i64>| reward.unwrap_or(floor).max(floor);
        let total: i64 = self.told.iter().map(|(_, reward)| reward_of(reward)).sum();
        let mean = total / self.told.len().max(1) as i64;
        for (axis, policy) in self.policies.iter_mut().enumerate() {
            let mut sums = vec![(mean * PRIOR_COUNT, PRIOR_COUNT); self.space.axes()[axis].values.len()];
            for (at, reward) in &self.told {
                let (sum, count) = &mut sums[usize::from(self.space.digits(*at)[axis])];
                *sum += reward_of(reward);
                *count += 1;
            }
            let rewards: Vec<i64> = sums.iter().map(|(sum, count)| sum / count).collect();
            policy.step(&rewards, RATE);
        }
    }

    /// The likeliest of a few untried points under the policies, or the best point with a few axes drawn from them.
    fn draw(&mut self) -> Option<usize> {
        let (best, _) = self.best?;
        if self.numbers.below(self.told.len() + AROUND_FROM) >= self.told.len() {
            let drawn: Vec<usize> =
                (0..LOOKED_AT).filter_map(|_| self.tried.draw(&mut self.numbers)).collect();
            return drawn.into_iter().max_by_key(|at| (self.likely(*at), std::cmp::Reverse(*at)));
        }
        let mut digits = self.space.digits(best).to_vec();
        for _ in 0..ATTEMPTS {
            digits.copy_from_slice(self.space.digits(best));
            for _ in 0..NEAR_AXES {
                let axis = self.numbers.below(digits.len());
                digits[axis] = self.policies[axis].at(self.numbers.below(ONE as usize) as u32) as u16;
            }
            if let Some(at) = self.space.find(&digits).filter(|at| !self.tried.has(*at)) {
                return Some(at);
            }
        }
        None
    }

    /// The logarithm of a point's probability under the policies, up to a constant.
    fn likely(&self, at: usize) -> i64 {
        let digits = self.space.digits(at).iter();
        digits.zip(&self.policies).map(|(digit, policy)| policy.logarithms()[usize::from(*digit)]).sum()
    }
}

impl Strategy for Natural {
    fn name(&self) -> &'static str {
        "natural"
    }

    fn ask(&mut self) -> Option<usize> {
        let drawn =
            if self.told.len() < FIRST_LOOKS || self.policies.is_empty() { None } else { self.draw() };
        let at = drawn.or_else(|| self.tried.draw(&mut self.numbers))?;
        self.tried.add(at);
        Some(at)
    }

    fn tell(&mut self, at: usize, seen: Seen) {
        self.tried.add(at);
        if at >= self.space.len() {
            return;
        }
        let reward = seen.time().map(reward);
        self.told.push((at, reward));
        if let Some(reward) = reward
            && self.best.is_none_or(|(_, best)| reward > best)
        {
            self.best = Some((at, reward));
        }
        self.learn();
    }
}
