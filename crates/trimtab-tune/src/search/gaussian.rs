//! A Gaussian process over the axes of a space: what a point's time is expected to be, and how uncertain that is.
//!
//! Two points are the more alike the less they differ along each axis, each axis with a weight of its own that is learned.
//! Only additions, multiplications and square roots in a fixed order: the same on every machine.

use super::exact_math;

/// Bounds of what is learned: an axis that does not matter, and one where neighbouring values have nothing in common.
const WEIGHT_MIN: f64 = 0.001;
const WEIGHT_MAX: f64 = 30.0;
/// Bounds of the noise as a share of the variance.
const NOISE_MIN: f64 = 1e-6;
const NOISE_MAX: f64 = 0.3;
/// Keeps a pivot positive when two observations are nearly the same.
const PIVOT_MIN: f64 = 1e-10;

/// What is learned about the axes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weights {
    /// How much a difference along each axis counts.
    pub(crate) axes: Vec<f64>,
    /// The share of the variance that is noise.
    pub(crate) noise: f64,
}

impl Weights {
    pub(crate) fn clamped(mut self) -> Weights {
        self.axes.iter_mut().for_each(|weight| *weight = weight.clamp(WEIGHT_MIN, WEIGHT_MAX));
        self.noise = self.noise.clamp(NOISE_MIN, NOISE_MAX);
        self
    }
}

/// Fitted to a few hundred observations at most.
#[derive(Clone, Debug)]
pub(crate) struct Gaussian {
    weights: Weights,
    /// Coordinates of the observations, axis by axis.
    inputs: Vec<Vec<f64>>,
    count: usize,
    /// The lower triangle of the decomposed covariance of the first observations, row after row.
    lower: Vec<f64>,
    /// The inverse of its diagonal.
    inverse: Vec<f64>,
    log2_determinant: f64,
    /// The inverse covariance times the observed values.
    alpha: Vec<f64>,
    mean: f64,
    variance: f64,
}

impl Gaussian {
    pub(crate) fn new(weights: Weights) -> Gaussian {
        let inputs = vec![Vec::new(); weights.axes.len()];
        Gaussian {
            weights,
            inputs,
            count: 0,
            lower: Vec::new(),
            inverse: Vec::new(),
            log2_determinant: 0.0,
            alpha: Vec::new(),
            mean: 0.0,
            variance: 1.0,
        }
    }

    pub(crate) fn weights(&self) -> &Weights {
        &self.weights
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Other weights; the observations stay.
    pub(crate) fn set_weights(&mut self, weights: Weights) {
        self.weights = weights;
        self.forget_decomposition();
    }

    fn forget_decomposition(&mut self) {
        self.lower.clear();
        self.inverse.clear();
        self.log2_determinant = 0.0;
    }

    /// Forgets the observations.
    pub(crate) fn clear(&mut self) {
        self.inputs.iter_mut().for_each(Vec::clear);
        self.count = 0;
        self.forget_decomposition();
    }

    /// Adds the place of an observation; its value comes with [`Gaussian::fit`].
    pub(crate) fn push(&mut self, coordinates: &[f64]) {
        for (axis, coordinate) in self.inputs.iter_mut().zip(coordinates) {
            axis.push(*coordinate);
        }
        self.count += 1;
    }

    /// How alike a point is to each of the first `upto` observations: one for the same place, zero for nothing in common.
    pub(crate) fn alike(&self, point: &[f64], upto: usize, alike: &mut Vec<f64>) {
        alike.clear();
        alike.resize(upto, 0.0);
        for ((axis, weight), own) in self.inputs.iter().zip(&self.weights.axes).zip(point) {
            for (sum, other) in alike.iter_mut().zip(axis) {
                *sum += weight * (own - other).abs();
            }
        }
        for sum in alike.iter_mut() {
            *sum = exact_math::exp(-*sum);
        }
    }

    /// Decomposes the rows that were added since.
    fn decompose(&mut self) {
        let mut row = Vec::with_capacity(self.count);
        let mut point = vec![0.0; self.inputs.len()];
        for at in self.inverse.len()..self.count {
            for (own, axis) in point.iter_mut().zip(&self.inputs) {
                *own = axis[at];
            }
            self.alike(&point, at, &mut row);
            self.solve_lower(&mut row);
            let pivot = (1.0 + self.weights.noise - dot(&row, &row)).max(PIVOT_MIN).sqrt();
            self.log2_determinant += exact_math::log2(pivot);
            self.lower.extend_from_slice(&row);
            self.lower.push(pivot);
            self.inverse.push(1.0 / pivot);
        }
    }

    /// Fits the values of the observations, one for each. Returns the logarithm of how likely they are, up to a constant.
    pub(crate) fn fit(&mut self, values: &[f64]) -> f64 {
        self.decompose();
        let count = self.count.min(values.len());
        // The mean that makes the values most likely: weighted by the inverse covariance.
        let mut ones = vec![1.0; count];
        self.solve_lower(&mut ones);
        let mut solved = values[..count].to_vec();
        self.solve_lower(&mut solved);
        let weight = dot(&ones, &ones);
        self.mean = if weight > 0.0 { dot(&ones, &solved) / weight } else { 0.0 };
        for (value, one) in solved.iter_mut().zip(&ones) {
            *value -= self.mean * one;
        }
        // As if a tenth of an observation of variance one had been seen: never zero.
        self.variance = (dot(&solved, &solved) + 0.1) / (count as f64 + 0.1);
        self.alpha = solved;
        for at in (0..count).rev() {
            let start = at * (at + 1) / 2;
            let value = self.alpha[at] * self.inverse[at];
            self.alpha[at] = value;
            for (other, factor) in self.alpha[..at].iter_mut().zip(&self.lower[start..start + at]) {
                *other -= value * factor;
            }
        }
        let log2_likely = -0.5 * count as f64 * exact_math::log2(self.variance) - self.log2_determinant;
        log2_likely * std::f64::consts::LN_2
    }

    /// Replaces `values` by the solution of lower × x = values.
    fn solve_lower(&self, values: &mut [f64]) {
        for at in 0..values.len() {
            let start = at * (at + 1) / 2;
            let (known, rest) = values.split_at_mut(at);
            let sum = dot(&self.lower[start..start + at], known);
            rest[0] = (rest[0] - sum) * self.inverse[at];
        }
    }

    /// The expected value of a point of these similarities.
    pub(crate) fn mean_of(&self, alike: &[f64]) -> f64 {
        self.mean + dot(alike, &self.alpha)
    }

    /// The variance of a point of these similarities, which are overwritten.
    pub(crate) fn variance_of(&self, alike: &mut [f64]) -> f64 {
        self.solve_lower(alike);
        self.variance * (1.0 - dot(alike, alike)).max(1e-9)
    }

    /// More than the variance of a point of these similarities: what the most alike observation alone leaves open.
    pub(crate) fn variance_at_most(&self, alike: &[f64]) -> f64 {
        let most = alike.iter().copied().fold(0.0, f64::max);
        self.variance * (1.0 - most * most / (1.0 + self.weights.noise)).max(1e-9)
    }
}

/// Eight sums side by side: a fixed order of additions that compilers may still vectorise.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let mut sums = [0.0f64; 8];
    let (mut left, mut right) = (one.chunks_exact(8), other.chunks_exact(8));
    for (a, b) in (&mut left).zip(&mut right) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7])) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(noise: f64) -> Gaussian {
        let mut gaussian = Gaussian::new(Weights { axes: vec![1.0], noise });
        for at in [0.0, 0.5, 1.0] {
            gaussian.push(&[at]);
        }
        gaussian
    }

    fn predict(gaussian: &Gaussian, at: f64) -> (f64, f64, f64) {
        let mut alike = Vec::new();
        gaussian.alike(&[at], gaussian.len(), &mut alike);
        let (mean, most) = (gaussian.mean_of(&alike), gaussian.variance_at_most(&alike));
        (mean, gaussian.variance_of(&mut alike), most)
    }

    #[test]
    fn observations_are_believed_and_uncertainty_grows_away_from_them() {
        let mut gaussian = line(1e-6);
        gaussian.fit(&[1.0, 3.0, 2.0]);
        for (at, value) in [(0.0, 1.0), (0.5, 3.0), (1.0, 2.0)] {
            let (mean, variance, most) = predict(&gaussian, at);
            assert!(
                (mean - value).abs() < 1e-3 && variance < 1e-4 && variance <= most + 1e-12,
                "{mean} {variance}"
            );
        }
        let (mean, near, most_near) = predict(&gaussian, 0.25);
        let (_, far, most_far) = predict(&gaussian, 3.0);
        assert!((1.0..3.0).contains(&mean) && near < far && near <= most_near && far <= most_far);
    }

    #[test]
    fn adding_an_observation_gives_the_same_as_starting_over() {
        let mut grown = line(0.01);
        grown.fit(&[1.0, 3.0, 2.0]);
        grown.push(&[0.7]);
        let grown_likely = grown.fit(&[1.0, 3.0, 2.0, 2.5]);
        let mut fresh = line(0.01);
        fresh.push(&[0.7]);
        let fresh_likely = fresh.fit(&[1.0, 3.0, 2.0, 2.5]);
        assert_eq!((grown_likely, predict(&grown, 0.1)), (fresh_likely, predict(&fresh, 0.1)));
    }

    #[test]
    fn weights_that_explain_the_values_are_more_likely() {
        // The values follow the first axis and ignore the second.
        let fit = |axes: Vec<f64>| {
            let mut gaussian = Gaussian::new(Weights { axes, noise: 1e-4 });
            let mut values = Vec::new();
            for a in 0..4 {
                for b in 0..4 {
                    gaussian.push(&[f64::from(a) / 3.0, f64::from(b) / 3.0]);
                    values.push(f64::from(a));
                }
            }
            gaussian.fit(&values)
        };
        assert!(fit(vec![1.0, 0.01]) > fit(vec![0.01, 1.0]) + 10.0);
    }

    #[test]
    fn nothing_one_and_the_same_point_twice_can_be_fitted() {
        let mut gaussian = Gaussian::new(Weights { axes: vec![1.0], noise: 0.0 }.clamped());
        gaussian.fit(&[]);
        assert!(predict(&gaussian, 0.5).0.is_finite());
        gaussian.push(&[0.5]);
        gaussian.push(&[0.5]);
        assert!(gaussian.fit(&[1.0, 1.0]).is_finite());
        assert!((predict(&gaussian, 0.5).0 - 1.0).abs() < 1e-6);
    }
}
