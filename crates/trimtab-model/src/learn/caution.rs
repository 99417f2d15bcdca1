//! When to stay with the rival that does best over all, although another is predicted to be faster here.
//!
//! A mean of ratios hides a disaster: one problem in a thousand that takes a thousand times as long on the device that looked
//! a little faster costs more than all the little gains. Nothing in the other problems tells its size; that the parts of a
//! model do not agree on it does. So the **steady** rival, the one with the least summed time, is kept wherever a single part says that
//! the predicted one may be slower than it by more than some limit. The limit is the strictest that costs no more than a small premium on
//! problems left out of the model: where parts disagree all the time, caution would be dear, and the prediction is followed.

use super::{Buffers, Table};

/// Limits tried, in doublings, the strictest first.
const LIMITS: [f64; 6] = [0.5, 0.75, 1.0, 1.5, 2.0, 3.0];
/// What caution may cost in the mean, in doublings: 0.15 per cent.
const PREMIUM_LOG2: f64 = 0.002;

/// A problem left out of the model: what decided, and what either choice lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// How much slower than the steady rival the predicted one is by the part that thinks least of it, in doublings.
    pub(super) dissent: f64,
    /// Loss of the predicted rival and of the steady one, in doublings.
    pub(super) losses: (f64, f64),
}

/// The steady rival, and how much dissent is borne before it is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Caution {
    pub(super) steady: usize,
    limit: f64,
}

impl Caution {
    /// The strictest limit that is worth its premium; none is where no limit is.
    pub(super) fn new(steady: usize, cases: &[Case]) -> Caution {
        let costs = |limit: f64| {
            let kept = cases.iter().filter(|case| case.dissent > limit);
            kept.map(|case| case.losses.1 - case.losses.0).sum::<f64>() / cases.len().max(1) as f64
        };
        let worth = |limit: &f64| !cases.is_empty() && costs(*limit) <= PREMIUM_LOG2;
        Caution { steady, limit: LIMITS.into_iter().find(worth).unwrap_or(f64::INFINITY) }
    }

    /// Whether the steady rival is kept in spite of the predicted one.
    pub(super) fn keeps(&self, buffers: &Buffers, members: usize, predicted: usize) -> bool {
        predicted != self.steady && dissent(buffers, members, predicted, self.steady) > self.limit
    }
}

/// How much slower than the steady rival the predicted one is by the part that thinks least of it, in doublings; of a model of one
/// piece, by two of its deviations.
pub(super) fn dissent(buffers: &Buffers, members: usize, predicted: usize, steady: usize) -> f64 {
    if members > 1 {
        let opinions = buffers.opinions.chunks_exact(buffers.log2.len()).take(members);
        return opinions
            .map(|opinion| opinion[predicted] - opinion[steady])
            .fold(f64::NEG_INFINITY, f64::max);
    }
    let spread = buffers.spread[predicted].hypot(buffers.spread[steady]);
    buffers.log2[predicted] - buffers.log2[steady] + 2.0 * spread
}

/// The rival with the least summed time, of those that were measured on every problem.
pub(super) fn steady(table: &Table) -> Option<usize> {
    let sum = |rival: usize| (0..table.len()).map(|row| table.ns(row)[rival]).sum::<f64>();
    let sums = (0..table.rivals()).map(|rival| (sum(rival), rival)).filter(|(sum, _)| sum.is_finite());
    sums.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, rival)| rival)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caution_is_bought_where_it_is_cheap_and_not_where_it_is_dear() {
        let rarely = |nth: usize| if nth.is_multiple_of(100) { 2.5 } else { 0.1 };
        let cheap: Vec<Case> =
            (0..1000).map(|nth| Case { dissent: rarely(nth), losses: (0.0, 0.1) }).collect();
        assert_eq!(Caution::new(1, &cheap).limit, LIMITS[0]);
        let dear: Vec<Case> = (0..1000).map(|_| Case { dissent: 5.0, losses: (0.0, 0.5) }).collect();
        assert_eq!(Caution::new(1, &dear).limit, f64::INFINITY);
        assert_eq!(Caution::new(1, &[]).limit, f64::INFINITY);
    }
}
