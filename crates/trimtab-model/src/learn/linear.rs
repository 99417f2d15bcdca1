//! `linear`: ridge regression on the numbers of a problem, one function a rival, updated with every observation.

use super::{Axes, Model, SLOWEST_LOG2, Table, words};
use crate::linear::{factor, substitute};

/// How strongly coefficients are held to zero, in observations of a number one deviation from its mean.
const RIDGE: f64 = 1.0;

/// One linear function a rival.
#[derive(Clone, Debug, Default)]
pub struct Ridge {
    axes: Axes,
    rivals: usize,
    /// Centre and inverse scale of each number, over the problems it was fitted on.
    centre: Vec<f64>,
    scale: Vec<f64>,
    /// Per rival the sums that make the normal equations: of products of numbers, of numbers times what was told, of
    /// squares of what was told, of weights. A new observation only adds to them.
    products: Vec<f64>,
    moments: Vec<f64>,
    squares: Vec<f64>,
    weights: Vec<f64>,
    /// Per rival the coefficients of the plain numbers, the constant last.
    coefficients: Vec<f64>,
    /// Per rival the typical error on what it has learned.
    spread: Vec<f64>,
}

impl Ridge {
    /// A model that has learned nothing.
    pub fn new() -> Ridge {
        Ridge::default()
    }

    fn terms(&self) -> usize {
        self.centre.len() + 1
    }

    /// What one rival's function says, within what can be told.
    #[inline]
    pub(super) fn value(&self, rival: usize, at: &[f64]) -> f64 {
        let terms = self.terms();
        let coefficients = &self.coefficients[rival * terms..(rival + 1) * terms];
        let sum: f64 = coefficients.iter().zip(at).map(|(coefficient, value)| coefficient * value).sum();
        (sum + coefficients[terms - 1]).clamp(0.0, SLOWEST_LOG2)
    }

    fn add(&mut self, at: &[f64], told: &[f64], weight: f64) {
        let terms = self.terms();
        let mut row: Vec<f64> = Vec::with_capacity(terms);
        row.extend(
            at.iter()
                .zip(&self.centre)
                .zip(&self.scale)
                .map(|((value, centre), scale)| (value - centre) * scale),
        );
        row.push(1.0);
        for (rival, &value) in told.iter().enumerate().take(self.rivals).filter(|(_, value)| !value.is_nan())
        {
            let products = &mut self.products[rival * terms * terms..(rival + 1) * terms * terms];
            for (i, a) in row.iter().enumerate() {
                for (j, b) in row[..=i].iter().enumerate() {
                    products[i * terms + j] += weight * a * b;
                }
                self.moments[rival * terms + i] += weight * a * value;
            }
            self.squares[rival] += weight * value * value;
            self.weights[rival] += weight;
        }
    }

    fn solve(&mut self, rival: usize) {
        let terms = self.terms();
        let mut matrix = self.products[rival * terms * terms..(rival + 1) * terms * terms].to_vec();
        for i in 0..terms {
            // The constant is not held to zero, but must be solvable.
            matrix[i * terms + i] += if i + 1 < terms { RIDGE } else { 1e-9 };
        }
        let moments = &self.moments[rival * terms..(rival + 1) * terms];
        let mut x = moments.to_vec();
        if self.weights[rival] <= 0.0 || !factor(&mut matrix, terms, 0.0) {
            // A rival nobody measured is taken to be as slow as can be.
            x.fill(0.0);
            x[terms - 1] = SLOWEST_LOG2;
        } else {
            substitute(&matrix, terms, &mut x);
        }
        let explained: f64 = x.iter().zip(moments).map(|(x, moment)| x * moment).sum();
        let error = (self.squares[rival] - explained).max(0.0);
        self.spread[rival] = (error / self.weights[rival].max(1.0)).sqrt();
        let coefficients = &mut self.coefficients[rival * terms..(rival + 1) * terms];
        let mut constant = x[terms - 1];
        for i in 0..terms - 1 {
            coefficients[i] = x[i] * self.scale[i];
            constant -= coefficients[i] * self.centre[i];
        }
        coefficients[terms - 1] = constant;
    }

    /// What is expected of each rival.
    fn means(&self, at: &[f64], log2: &mut [f64]) {
        for (rival, slot) in log2.iter_mut().enumerate().take(self.rivals) {
            *slot = self.value(rival, at);
        }
    }
}

impl Model for Ridge {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn fit(&mut self, table: &Table) {
        let (width, rivals) = (table.width(), table.rivals());
        let terms = width + 1;
        let (centre, scale) = table.centre_and_scale(|row| table.weight(row));
        *self = Ridge {
            axes: table.axes().clone(),
            rivals,
            scale,
            centre,
            products: vec![0.0; rivals * terms * terms],
            moments: vec![0.0; rivals * terms],
            squares: vec![0.0; rivals],
            weights: vec![0.0; rivals],
            coefficients: vec![0.0; rivals * terms],
            spread: vec![0.0; rivals],
        };
        for row in 0..table.len() {
            self.add(table.at(row), table.told(row), table.weight(row));
        }
        for rival in 0..rivals {
            self.solve(rival);
        }
    }

    fn observe(&mut self, at: &[f64], told: &[f64], weight: f64) -> bool {
        self.add(at, told, weight);
        for (rival, value) in told.iter().enumerate().take(self.rivals) {
            if !value.is_nan() {
                self.solve(rival);
            }
        }
        self.rivals > 0
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
        self.means(at, log2);
        words::copy(&self.spread, spread);
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        let log2: Vec<f64> = (0..self.rivals.min(rivals.len())).map(|rival| self.value(rival, at)).collect();
        let mut lines = vec![format!("linear: {}", words::ranking(&log2, rivals))];
        if let Some((first, second)) = words::best_two(&log2) {
            let terms = self.terms();
            let part = |axis: usize| {
                let of = |rival: usize| self.coefficients[rival * terms + axis];
                (axis, (of(second) - of(first)) * (at[axis] - self.centre[axis]))
            };
            let parts = (0..at.len().min(terms - 1)).map(part).collect();
            lines.extend(words::reasons(&self.axes, parts, rivals[first], rivals[second]));
        }
        lines
    }
}
