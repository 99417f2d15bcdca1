//! What a search was told: points, times, failures, and how long nothing better was found.

use super::tried::Tried;
use super::{SearchSpace, Seen, exact_math};
use std::sync::Arc;

/// Observations held; beyond that the best [`KEPT_BEST`] and some of the others are kept.
const MAX_OBSERVED: usize = 220;
const KEPT_BEST: usize = 100;
const KEPT_OTHERS: usize = 60;
/// Failures held, the first.
const MAX_FAILED: usize = 120;

/// A part of the space: one axis at one value.
pub(super) type Subspace = (usize, u16);

/// Everything a search knows about its space.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) space: Arc<SearchSpace>,
    pub(super) tried: Tried,
    /// Points and log2 of their times.
    pub(super) observed: Vec<(usize, f64)>,
    pub(super) failed: Vec<usize>,
    pub(super) best: Option<(usize, f64)>,
    /// Answers since the best was found.
    pub(super) idle: usize,
    /// How often observations were forgotten.
    pub(super) forgot: u32,
}

impl Told {
    pub(super) fn new(space: Arc<SearchSpace>) -> Told {
        let tried = Tried::new(space.len());
        Told { space, tried, observed: Vec::new(), failed: Vec::new(), best: None, idle: 0, forgot: 0 }
    }

    pub(super) fn tell(&mut self, at: usize, seen: Seen) {
        if at >= self.space.len() {
            return;
        }
        self.tried.add(at);
        self.idle += 1;
        let Some(time) = seen.time() else {
            if self.failed.len() < MAX_FAILED {
                self.failed.push(at);
            }
            return;
        };
        let value = exact_math::log2(time);
        if self.best.is_none_or(|(_, best)| value < best) {
            self.best = Some((at, value));
            self.idle = 0;
        }
        self.observed.push((at, value));
        if self.observed.len() > MAX_OBSERVED {
            self.forget_some();
        }
    }

    /// Keeps the best observations and an even choice of the others.
    fn forget_some(&mut self) {
        self.observed.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let others = self.observed.split_off(KEPT_BEST);
        let step = others.len().div_ceil(KEPT_OTHERS).max(1);
        self.observed.extend(others.into_iter().step_by(step));
        self.forgot += 1;
    }

    /// Every point held.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        self.observed.iter().map(|(at, _)| *at).chain(self.failed.iter().copied())
    }

    /// Whether a point lies in a part of the space; in none, everything does.
    pub(super) fn is_inside(&self, at: usize, subspace: Option<Subspace>) -> bool {
        subspace.is_none_or(|(axis, digit)| self.space.digits(at)[axis] == digit)
    }

    /// The points that ran, fastest first.
    pub(super) fn leaders(&self) -> Vec<usize> {
        let mut leaders: Vec<(f64, usize)> = self.observed.iter().map(|(at, value)| (*value, *at)).collect();
        leaders.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        leaders.into_iter().map(|(_, at)| at).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::{Point, Space};

    #[test]
    fn the_best_are_kept_whatever_is_forgotten() {
        let points = (0..1000).map(|x| Point::new(&[x])).collect();
        let space = Arc::new(SearchSpace::new(&Space::new(vec!["x".into()], points)));
        let mut told = Told::new(space);
        for at in 0..1000 {
            let seen = if at % 4 == 3 { Seen::Failed } else { Seen::Time(f64::from(1 + (at * 7) % 1000)) };
            told.tell(at as usize, seen);
            assert!(told.observed.len() <= MAX_OBSERVED && told.failed.len() <= MAX_FAILED);
        }
        assert!(told.forgot > 0);
        assert_eq!(told.best, Some((0, 0.0)));
        assert_eq!(told.leaders()[0], 0);
        told.tell(5000, Seen::Time(0.1));
        assert_eq!(told.best, Some((0, 0.0)));
    }
}
