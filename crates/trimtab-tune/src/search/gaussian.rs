//! A Gaussian process over the axes of a space: what a point's time is expected to be, and how uncertain that is.
//!
//! Two points are the more alike the less they differ along each axis, each axis with a weight of its own that is learned.
//! Only additions, multiplications and square roots in a fixed order: the same on every machine.

use super::{SearchAxis, exact_math};
use std::sync::Arc;
use trimtab_core::MAX_AXES;

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
    /// How much a difference along each axis counts, then how much being no power of two counts where some are and some are not.
    pub(crate) axes: Vec<f64>,
    /// The share of the variance that is noise.
    pub(crate) noise: f64,
    /// How alike points stay however much they differ in one axis.
    pub(crate) floor: f64,
}

impl Weights {
    pub(crate) fn clamped(mut self) -> Weights {
        self.axes.iter_mut().for_each(|weight| *weight = weight.clamp(WEIGHT_MIN, WEIGHT_MAX));
        self.noise = self.noise.clamp(NOISE_MIN, NOISE_MAX);
        self.floor = self.floor.clamp(0.001, 0.95);
        self
    }
}

/// The values of an axis as the process sees them, in classes it does not tell apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    /// The class of each value.
    classes: Vec<u8>,
    /// Where each class lies from zero to one.
    coordinates: Vec<f64>,
    /// Whether its values are no powers of two; empty if all values of the axis are alike in that.
    uneven: Vec<bool>,
}

/// Classes an axis of very many values is cut into, at most twice as many with uneven ones apart.
const MAX_CLASSES: usize = 64;

impl Shape {
    pub(crate) fn of(axis: &SearchAxis) -> Shape {
        let is_even = |value: &u32| value & value.wrapping_sub(1) == 0;
        let (some_even, all_even) =
            (axis.values.iter().any(|value| *value > 1 && is_even(value)), axis.values.iter().all(is_even));
        let mixed = some_even && !all_even;
        let mut shape = Shape { classes: Vec::new(), coordinates: Vec::new(), uneven: Vec::new() };
        let mut known: Vec<(u16, bool)> = Vec::new();
        for (value, coordinate) in axis.values.iter().zip(&axis.coordinates) {
            let uneven = mixed && !is_even(value);
            let level = match axis.values.len() > MAX_CLASSES {
                true => (coordinate * (MAX_CLASSES - 1) as f64 + 0.5) as u16,
                false => shape.classes.len() as u16,
            };
            let class = known.iter().position(|other| *other == (level, uneven)).unwrap_or_else(|| {
                known.push((level, uneven));
                shape.coordinates.push(*coordinate);
                if mixed {
                    shape.uneven.push(uneven);
                }
                known.len() - 1
            });
            // At most twice 64 classes.
            shape.classes.push(class as u8);
        }
        shape
    }

    /// How many weights axes of these shapes have.
    pub(crate) fn weights(shapes: &[Shape]) -> usize {
        shapes.len() + shapes.iter().filter(|shape| !shape.uneven.is_empty()).count()
    }
}

/// Fitted to a few hundred observations at most.
#[derive(Clone, Debug)]
pub(crate) struct Gaussian {
    shapes: Arc<Vec<Shape>>,
    weights: Weights,
    /// How alike two values of an axis are, axis by axis, row by row.
    tables: Vec<Vec<f64>>,
    /// Classes of the observations' values, observation by observation.
    inputs: Vec<u8>,
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
    pub(crate) fn new(shapes: Arc<Vec<Shape>>, weights: Weights) -> Gaussian {
        let mut built = Gaussian {
            tables: vec![Vec::new(); shapes.len()],
            shapes,
            weights: weights.clone(),
            inputs: Vec::new(),
            count: 0,
            lower: Vec::new(),
            inverse: Vec::new(),
            log2_determinant: 0.0,
            alpha: Vec::new(),
            mean: 0.0,
            variance: 1.0,
        };
        built.set_weights(weights);
        built
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
        let mut next = self.shapes.len();
        for (axis, shape) in self.shapes.iter().enumerate() {
            let slope = self.weights.axes[axis];
            let mut odd = 0.0;
            if !shape.uneven.is_empty() {
                odd = self.weights.axes[next];
                next += 1;
            }
            let count = shape.coordinates.len();
            let table = &mut self.tables[axis];
            table.clear();
            table.resize(count * count, 1.0);
            for one in 0..count {
                for other in 0..one {
                    let mut far = slope * (shape.coordinates[one] - shape.coordinates[other]).abs();
                    if !shape.uneven.is_empty() && shape.uneven[one] != shape.uneven[other] {
                        far += odd;
                    }
                    let alike = self.weights.floor + (1.0 - self.weights.floor) * exact_math::exp(-far);
                    table[one * count + other] = alike;
                    table[other * count + one] = alike;
                }
            }
        }
    }

    fn forget_decomposition(&mut self) {
        self.lower.clear();
        self.inverse.clear();
        self.log2_determinant = 0.0;
    }

    /// Forgets the observations.
    pub(crate) fn clear(&mut self) {
        self.inputs.clear();
        self.count = 0;
        self.forget_decomposition();
    }

    /// Adds the place of an observation; its value comes with [`Gaussian::fit`].
    pub(crate) fn push(&mut self, digits: &[u16]) {
        let classes = self.shapes.iter().zip(digits).map(|(shape, digit)| shape.classes[usize::from(*digit)]);
        self.inputs.extend(classes);
        self.count += 1;
    }

    /// How alike a point is to each of the first `upto` observations: one for the same place, zero for nothing in common.
    pub(crate) fn alike(&self, digits: &[u16], upto: usize, alike: &mut Vec<f64>) {
        self.alike_to(|axis| self.shapes[axis].classes[usize::from(digits[axis])], upto, alike);
    }

    /// The same of the point that is in these classes.
    fn alike_to(&self, class: impl Fn(usize) -> u8, upto: usize, alike: &mut Vec<f64>) {
        let axes = self.shapes.len().min(MAX_AXES);
        let mut rows: [&[f64]; MAX_AXES] = [&[]; MAX_AXES];
        for (axis, row) in rows[..axes].iter_mut().enumerate() {
            let count = self.shapes[axis].coordinates.len();
            *row = &self.tables[axis][usize::from(class(axis)) * count..][..count];
        }
        let product = |classes: &[u8]| {
            rows.iter().zip(classes).fold(1.0, |product, (row, class)| product * row[usize::from(*class)])
        };
        alike.clear();
        match axes {
            0 => alike.resize(upto, 1.0),
            axes => alike.extend(self.inputs.chunks_exact(axes).take(upto).map(product)),
        }
    }

    /// Decomposes the rows that were added since.
    fn decompose(&mut self) {
        let mut row = Vec::with_capacity(self.count);
        for at in self.inverse.len()..self.count {
            self.alike_to(|axis| self.inputs[at * self.shapes.len() + axis], at, &mut row);
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

    /// An axis of these values, at these places.
    fn shape(values: &[u32], coordinates: &[f64]) -> Shape {
        let (name, values, coordinates) = ("x".to_string(), values.to_vec(), coordinates.to_vec());
        Shape::of(&SearchAxis { name, values, coordinates })
    }

    /// A line of five places, observed at the first, the third and the last but one.
    fn line(noise: f64) -> Gaussian {
        let shapes = vec![shape(&[1, 2, 4, 8, 16], &[0.0, 0.25, 0.5, 1.0, 3.0])];
        let mut gaussian = Gaussian::new(Arc::new(shapes), Weights { axes: vec![1.0], noise, floor: 0.0 });
        for digit in [0, 2, 3] {
            gaussian.push(&[digit]);
        }
        gaussian
    }

    fn predict(gaussian: &Gaussian, digit: u16) -> (f64, f64, f64) {
        let mut alike = Vec::new();
        gaussian.alike(&[digit], gaussian.len(), &mut alike);
        let (mean, most) = (gaussian.mean_of(&alike), gaussian.variance_at_most(&alike));
        (mean, gaussian.variance_of(&mut alike), most)
    }

    #[test]
    fn observations_are_believed_and_uncertainty_grows_away_from_them() {
        let mut gaussian = line(1e-6);
        gaussian.fit(&[1.0, 3.0, 2.0]);
        for (digit, value) in [(0, 1.0), (2, 3.0), (3, 2.0)] {
            let (mean, variance, most) = predict(&gaussian, digit);
            assert!(
                (mean - value).abs() < 1e-3 && variance < 1e-4 && variance <= most + 1e-12,
                "{mean} {variance}"
            );
        }
        let (mean, near, most_near) = predict(&gaussian, 1);
        let (_, far, most_far) = predict(&gaussian, 4);
        assert!((1.0..3.0).contains(&mean) && near < far && near <= most_near && far <= most_far);
    }

    #[test]
    fn adding_an_observation_gives_the_same_as_starting_over() {
        let mut grown = line(0.01);
        grown.fit(&[1.0, 3.0, 2.0]);
        grown.push(&[1]);
        let grown_likely = grown.fit(&[1.0, 3.0, 2.0, 2.5]);
        let mut fresh = line(0.01);
        fresh.push(&[1]);
        let fresh_likely = fresh.fit(&[1.0, 3.0, 2.0, 2.5]);
        assert_eq!((grown_likely, predict(&grown, 4)), (fresh_likely, predict(&fresh, 4)));
    }

    #[test]
    fn weights_that_explain_the_values_are_more_likely() {
        // The values follow the first axis and ignore the second.
        let axis = || shape(&[1, 2, 4, 8], &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]);
        let fit = |axes: Vec<f64>| {
            let shapes = Arc::new(vec![axis(), axis()]);
            let mut gaussian = Gaussian::new(shapes, Weights { axes, noise: 1e-4, floor: 0.0 });
            let mut values = Vec::new();
            for a in 0..4 {
                for b in 0..4 {
                    gaussian.push(&[a, b]);
                    values.push(f64::from(a));
                }
            }
            gaussian.fit(&values)
        };
        assert!(fit(vec![1.0, 0.01]) > fit(vec![0.01, 1.0]) + 10.0);
    }

    #[test]
    fn powers_of_two_may_be_alike_although_they_lie_apart() {
        let shapes = vec![shape(&[32, 48, 64], &[0.0, 0.58, 1.0])];
        assert_eq!(Shape::weights(&shapes), 2);
        let weights = Weights { axes: vec![0.1, 10.0], noise: 0.01, floor: 0.0 };
        let mut gaussian = Gaussian::new(Arc::new(shapes), weights);
        gaussian.push(&[0]);
        let mut alike = Vec::new();
        gaussian.alike(&[2], 1, &mut alike);
        let power = alike[0];
        gaussian.alike(&[1], 1, &mut alike);
        assert!(power > 0.9 && alike[0] < 0.01, "{power} {alike:?}");
    }

    #[test]
    fn an_axis_of_very_many_values_is_cut_into_classes() {
        let values: Vec<u32> = (1..=5000).collect();
        let coordinates: Vec<f64> = (0..5000).map(|at| f64::from(at) / 4999.0).collect();
        let shape = shape(&values, &coordinates);
        assert!(shape.coordinates.len() <= 2 * MAX_CLASSES && shape.classes.len() == 5000);
        // 4096 is a power of two, its neighbours are not.
        assert_eq!(shape.classes[4096], shape.classes[4097]);
        assert_ne!(shape.classes[4095], shape.classes[4096]);
    }

    #[test]
    fn nothing_one_and_the_same_point_twice_can_be_fitted() {
        let shapes = Arc::new(vec![shape(&[1, 2], &[0.0, 1.0])]);
        let weights = Weights { axes: vec![1.0], noise: 0.0, floor: 0.0 }.clamped();
        let mut gaussian = Gaussian::new(shapes, weights);
        gaussian.fit(&[]);
        assert!(predict(&gaussian, 1).0.is_finite());
        gaussian.push(&[1]);
        gaussian.push(&[1]);
        assert!(gaussian.fit(&[1.0, 1.0]).is_finite());
        assert!((predict(&gaussian, 1).0 - 1.0).abs() < 1e-6);
    }
}
