//! The last observations of one value: few, in place, and robust statistics of them.

/// Observations looked at together.
const ROOM: usize = 64;
/// A normal distribution's standard deviation over its median absolute deviation.
const SIGMA_PER_MAD: f64 = 1.4826;

/// Throughputs in doublings, in the order they were seen; those beyond the room are not taken in.
#[derive(Clone, Debug)]
pub(super) struct Window {
    levels: [f64; ROOM],
    count: usize,
}

impl Window {
    pub(super) const EMPTY: Window = Window { levels: [0.0; ROOM], count: 0 };

    pub(super) fn push(&mut self, level: f64) {
        if let Some(place) = self.levels.get_mut(self.count) {
            *place = level;
            self.count += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The first observation.
    pub(super) fn first(&self) -> f64 {
        self.levels[0]
    }

    /// The observations without the first `skipped`; the last is never skipped.
    fn from(&self, skipped: usize) -> &[f64] {
        &self.levels[skipped.min(self.count.saturating_sub(1))..self.count]
    }

    /// How many observations are left without the first `skipped`, at least one.
    pub(super) fn count_from(&self, skipped: usize) -> usize {
        self.from(skipped).len().max(1)
    }

    /// The median without the first `skipped`.
    pub(super) fn middle(&self, skipped: usize) -> f64 {
        let mut sorted = self.levels;
        let from = self.from(skipped);
        sorted[..from.len()].copy_from_slice(from);
        middle_of(&mut sorted[..from.len()])
    }

    /// The largest without the first `skipped`.
    pub(super) fn most(&self, skipped: usize) -> f64 {
        self.from(skipped).iter().copied().fold(f64::MIN, f64::max)
    }

    /// From the smallest to the largest without the first `skipped`.
    pub(super) fn range(&self, skipped: usize) -> f64 {
        self.most(skipped) - self.from(skipped).iter().copied().fold(f64::MAX, f64::min)
    }

    /// One standard deviation without the first, by the median distance from the median.
    pub(super) fn deviation(&self) -> f64 {
        let middle = self.middle(1);
        let mut distances = self.levels;
        let from = self.from(1);
        for (distance, level) in distances.iter_mut().zip(from) {
            *distance = (level - middle).abs();
        }
        SIGMA_PER_MAD * middle_of(&mut distances[..from.len()])
    }
}

/// The middle of some numbers, which are sorted by it.
fn middle_of(numbers: &mut [f64]) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    let half = numbers.len() / 2;
    match numbers {
        [] => 0.0,
        _ if numbers.len() % 2 == 1 => numbers[half],
        _ => (numbers[half - 1] + numbers[half]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(levels: &[f64]) -> Window {
        let mut window = Window::EMPTY;
        levels.iter().for_each(|level| window.push(*level));
        window
    }

    #[test]
    fn the_first_is_left_out_where_asked_and_one_outlier_moves_nothing() {
        let window = window(&[-9.0, 1.0, 1.0, 1.5, 1.0, -3.0]);
        assert_eq!((window.middle(1), window.most(1), window.range(1)), (1.0, 1.5, 4.5));
        assert_eq!((window.deviation(), window.count_from(1)), (0.0, 5));
    }

    #[test]
    fn a_single_observation_is_its_own_middle_also_if_it_is_the_first() {
        assert_eq!((window(&[2.0]).middle(1), window(&[2.0]).range(1)), (2.0, 0.0));
        assert_eq!(window(&[1.0, 2.0]).middle(0), 1.5);
    }

    #[test]
    fn what_does_not_fit_is_not_taken_in() {
        let mut window = window(&[1.0; ROOM]);
        window.push(100.0);
        assert_eq!((window.count(), window.most(0)), (ROOM, 1.0));
    }
}
