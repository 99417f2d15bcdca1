//! What is to be gained by the points that are left: the best of the most promising ones, as a view expects them.
//!
//! Points are taken to be independent of each other. They are not, where they are alike: what is said is an upper limit of what the view
//! expects, and never more than the sum of what each promises by itself.

use super::exact_math::{expected_improvement, normal_share_below};

/// Points looked at: who has more left gains little from those far down the list.
const MOST: usize = 128;
/// Steps of the sum over what may be gained.
const STEPS: usize = 48;
/// The deepest improvement looked at, in deviations of the most uncertain point below what is expected of it.
const DEVIATIONS: f64 = 4.0;

/// What is expected of one point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    /// How likely it is to run at all.
    pub runs: f64,
    pub mean: f64,
    pub deviation: f64,
    /// What it alone would gain.
    pub gain: f64,
}

/// What is expected of the most promising points, best first.
#[derive(Clone, Debug)]
pub(super) struct Outlook {
    best: f64,
    unit: f64,
    promises: Vec<Promise>,
}

impl Outlook {
    pub(super) fn new(best: f64, promises: impl Iterator<Item = Promise>) -> Outlook {
        Outlook { best, unit: 1.0, promises: promises.take(MOST).collect() }
    }

    /// The same, told in other units.
    pub(super) fn in_units_of(self, unit: f64) -> Outlook {
        Outlook { unit, ..self }
    }

    /// What the best of the so many most promising points gains.
    pub(super) fn gain(&self, points: usize) -> Option<f64> {
        let some = self.promises.get(..points.min(self.promises.len()))?;
        let first = some.first()?;
        if points == 1 {
            return Some(first.gain * self.unit);
        }
        let deepest =
            some.iter().map(|one| self.best - one.mean + DEVIATIONS * one.deviation).fold(0.0, f64::max);
        let step = deepest / STEPS as f64;
        // The chance that some point gains at least this much, summed over all amounts: the mean of what the best of them gains.
        let chance = |amount: f64| {
            let misses = |one: &Promise| {
                let depth = (self.best - amount - one.mean) / one.deviation.max(1e-9);
                1.0 - one.runs * normal_share_below(depth)
            };
            1.0 - some.iter().map(misses).product::<f64>()
        };
        let sum: f64 = (0..STEPS).map(|at| chance((at as f64 + 0.5) * step) * step).sum();
        let alone: f64 =
            some.iter().map(|one| one.runs * expected_improvement(self.best, one.mean, one.deviation)).sum();
        Some(sum.clamp(first.gain.min(alone), alone.max(first.gain)) * self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(mean: f64, deviation: f64) -> Promise {
        Promise { runs: 1.0, mean, deviation, gain: expected_improvement(0.0, mean, deviation) }
    }

    #[test]
    fn more_points_promise_more_and_never_more_than_all_by_themselves() {
        let outlook = Outlook::new(0.0, (0..20).map(|at| promise(0.5 + 0.01 * f64::from(at), 1.0)));
        let gains: Vec<f64> =
            [1, 2, 5, 20, 1000].iter().map(|points| outlook.gain(*points).unwrap()).collect();
        assert!(gains.windows(2).all(|pair| pair[1] >= pair[0]), "{gains:?}");
        assert!(
            gains[1] < 2.0 * gains[0] && gains[3] < 20.0 * gains[0] && gains[3] > 3.0 * gains[0],
            "{gains:?}"
        );
        assert_eq!(outlook.gain(0), None);
        assert_eq!(Outlook::new(0.0, std::iter::empty()).gain(3), None);
    }

    #[test]
    fn the_best_of_equal_points_is_what_tables_say() {
        // The mean of the largest of four standard normal numbers is 1.0294; all lie below the best by ten deviations' worth of room.
        let outlook = Outlook::new(10.0, (0..4).map(|_| promise(0.0, 1.0)));
        let gain = outlook.gain(4).unwrap();
        assert!((gain - 11.0294).abs() < 0.1, "{gain}");
        let halved = outlook.in_units_of(0.5).gain(4).unwrap();
        assert!((halved - gain / 2.0).abs() < 1e-12);
    }
}
