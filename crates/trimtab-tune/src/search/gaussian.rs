//! A Gaussian process over the axes of a space: what a point's time is expected to be, and how uncertain that is.
//!
//! Two points are the more alike the less they differ along each axis, each axis with a weight of its own that is learned.

use super::exact_math;

/// Fitted to a few hundred observations at most.
#[derive(Clone, Debug)]
pub(crate) struct Gaussian {
    /// How much a difference along each axis counts; times may be zero for an axis that does not matter.
    pub(crate) weights: Vec<f64>,
    /// The share of the variance that is noise.
    pub(crate) noise: f64,
    pub(crate) smooth: u32,
    /// Coordinates of the observations, axis by axis.
    inputs: Vec<Vec<f64>>,
    count: usize,
    /// The lower triangle of the decomposed covariance, row after row.
    lower: Vec<f64>,
    /// The inverse of the diagonal of `lower`.
    inverse: Vec<f64>,
    /// The inverse covariance times the observed values.
    alpha: Vec<f64>,
    mean: f64,
    variance: f64,
}

impl Gaussian {
    pub(crate) fn new(weights: Vec<f64>, noise: f64, smooth: u32) -> Gaussian {
        let inputs = vec![Vec::new(); weights.len()];
        Gaussian {
            weights,
            noise,
            smooth,
            inputs,
            count: 0,
            lower: Vec::new(),
            inverse: Vec::new(),
            alpha: Vec::new(),
            mean: 0.0,
            variance: 1.0,
        }
    }

    pub(crate) fn clear(&mut self) {
        self.inputs.iter_mut().for_each(Vec::clear);
        self.count = 0;
    }

    pub(crate) fn push(&mut self, coordinates: impl Iterator<Item = f64>) {
        for (axis, coordinate) in self.inputs.iter_mut().zip(coordinates) {
            axis.push(coordinate);
        }
        self.count += 1;
    }

    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    pub(crate) fn variance(&self) -> f64 {
        self.variance
    }

    /// Similarity of a point to every observation.
    pub(crate) fn alike(&self, point: &[f64], upto: usize, alike: &mut Vec<f64>) {
        alike.clear();
        alike.resize(upto, 0.0);
        for ((axis, weight), own) in self.inputs.iter().zip(&self.weights).zip(point) {
            if self.smooth == 1 {
                for (sum, other) in alike.iter_mut().zip(axis) {
                    *sum += weight * (own - other).abs();
                }
            } else {
                let weight = weight * weight;
                for (sum, other) in alike.iter_mut().zip(axis) {
                    let d = own - other;
                    *sum += weight * d * d;
                }
            }
        }
        match self.smooth {
            1 => alike.iter_mut().for_each(|sum| *sum = exact_math::exp(-*sum)),
            3 => alike.iter_mut().for_each(|sum| {
                let r = (3.0 * *sum).sqrt();
                *sum = (1.0 + r) * exact_math::exp(-r);
            }),
            5 => alike.iter_mut().for_each(|sum| {
                let r = (5.0 * *sum).sqrt();
                *sum = (1.0 + r + r * r / 3.0) * exact_math::exp(-r);
            }),
            _ => alike.iter_mut().for_each(|sum| *sum = exact_math::exp(-0.5 * *sum)),
        }
    }

    /// Fits the values of the observations pushed. Returns the logarithm of how likely they are (up to a constant).
    pub(crate) fn fit(&mut self, values: &[f64]) -> f64 {
        let count = self.count.min(values.len());
        self.lower.clear();
        self.inverse.clear();
        let mut row = Vec::with_capacity(count);
        let mut point = vec![0.0; self.inputs.len()];
        let mut log_determinant = 0.0;
        for at in 0..count {
            for (own, axis) in point.iter_mut().zip(&self.inputs) {
                *own = axis[at];
            }
            self.alike(&point, at, &mut row);
            self.solve_lower(&mut row);
            let square: f64 = row.iter().map(|value| value * value).sum();
            let pivot = (1.0 + self.noise - square).max(1e-10).sqrt();
            log_determinant += exact_math::log2(pivot);
            self.lower.extend_from_slice(&row);
            self.lower.push(pivot);
            self.inverse.push(1.0 / pivot);
        }
        // The mean that makes the values most likely: weighted by the inverse covariance.
        let mut ones = vec![1.0; count];
        self.solve_lower(&mut ones);
        let mut solved = values[..count].to_vec();
        self.solve_lower(&mut solved);
        let weight: f64 = ones.iter().map(|one| one * one).sum();
        let sum: f64 = ones.iter().zip(&solved).map(|(one, value)| one * value).sum();
        self.mean = if weight > 0.0 { sum / weight } else { 0.0 };
        for (value, one) in solved.iter_mut().zip(&ones) {
            *value -= self.mean * one;
        }
        let square: f64 = solved.iter().map(|value| value * value).sum();
        self.variance = ((square + 0.1) / (count as f64 + 0.1)).max(1e-8);
        // Backwards, for alpha.
        self.alpha = solved;
        for at in (0..count).rev() {
            let start = at * (at + 1) / 2;
            let value = self.alpha[at] * self.inverse[at];
            self.alpha[at] = value;
            for (other, factor) in self.alpha[..at].iter_mut().zip(&self.lower[start..start + at]) {
                *other -= value * factor;
            }
        }
        let ln2 = std::f64::consts::LN_2;
        -0.5 * count as f64 * exact_math::log2(self.variance) * ln2 - log_determinant * ln2
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

    pub(crate) fn mean_of(&self, alike: &[f64]) -> f64 {
        self.mean + dot(alike, &self.alpha)
    }

    /// The variance of a point of these similarities, which are overwritten.
    pub(crate) fn variance_of(&self, alike: &mut [f64]) -> f64 {
        self.solve_lower(alike);
        self.variance * (1.0 - dot(alike, alike)).max(1e-9)
    }
}

/// Four sums side by side: a fixed order of additions that compilers may still vectorise.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    let mut sums = [0.0f64; 4];
    let (mut left, mut right) = (one.chunks_exact(4), other.chunks_exact(4));
    for (a, b) in (&mut left).zip(&mut right) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = left.remainder().iter().zip(right.remainder()).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}
