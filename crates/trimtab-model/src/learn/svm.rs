//! `svm`: support vector regression with a Gaussian kernel, solved coordinate by coordinate.
//!
//! Our own rather than a crate's: smartcore's allocates to predict and has one target at a time. Without a constant (the mean is
//! taken off instead) each coordinate has a closed solution, and the whole is a page.

use super::{Axes, Model, SLOWEST_LOG2, Table, k_centre, words};

/// Errors below this many doublings do not count.
const TUBE: f64 = 0.03;
/// The most one problem may pull.
const PULL: f64 = 3.0;
/// Passes over all coordinates.
const PASSES: usize = 40;
/// Measured problems that are used at most, spread widely: bounds a prediction to microseconds.
const MOST: usize = 160;

/// One function a rival, made of bumps around measured problems.
#[derive(Clone, Debug, Default)]
pub struct Svm {
    axes: Axes,
    rivals: usize,
    centre: Vec<f64>,
    /// What a number is multiplied with, the width of the kernel included.
    scale: Vec<f64>,
    /// Scaled numbers of the problems that are used.
    places: Vec<f64>,
    /// Per problem that is used, how much it pulls each rival.
    pulls: Vec<f64>,
    averages: Vec<f64>,
    spread: Vec<f64>,
}

impl Svm {
    /// A model that has learned nothing.
    pub fn new() -> Svm {
        Svm::default()
    }

    /// The kernel between a problem and one that is used.
    #[inline]
    fn near(&self, place: &[f64], at: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (((place, value), centre), scale) in place.iter().zip(at).zip(&self.centre).zip(&self.scale) {
            let apart = (value - centre) * scale - place;
            sum += apart * apart;
        }
        (-sum).exp()
    }

    /// What is expected of each rival.
    fn means(&self, at: &[f64], log2: &mut [f64]) {
        words::copy(&self.averages, log2);
        let places = self.places.chunks_exact(self.centre.len().max(1));
        for (place, pulls) in places.zip(self.pulls.chunks_exact(self.rivals.max(1))) {
            let near = self.near(place, at);
            for (slot, pull) in log2.iter_mut().zip(pulls) {
                *slot += near * pull;
            }
        }
        log2.iter_mut().for_each(|value| *value = value.clamp(0.0, SLOWEST_LOG2));
    }
}

impl Model for Svm {
    fn name(&self) -> &'static str {
        "svm"
    }

    fn fit(&mut self, table: &Table) {
        let (width, rivals) = (table.width(), table.rivals());
        let (centre, scale) = table.centre_and_scale(|_| 1.0);
        // A distance of one deviation in every number is one width of the kernel.
        let scale = scale.iter().map(|scale| scale / (2.0 * width as f64).sqrt()).collect();
        let rows = if table.len() > MOST { k_centre(table, &[], MOST) } else { (0..table.len()).collect() };
        *self = Svm { axes: table.axes().clone(), rivals, centre, scale, ..Svm::default() };
        for &row in &rows {
            let scaled = table.at(row).iter().zip(&self.centre).zip(&self.scale);
            self.places.extend(scaled.map(|((value, centre), scale)| (value - centre) * scale));
        }
        let n = rows.len();
        let mut kernel = vec![1.0; n * n];
        for (i, &row) in rows.iter().enumerate() {
            for j in 0..i {
                let value = self.near(&self.places[j * width..(j + 1) * width], table.at(row));
                (kernel[i * n + j], kernel[j * n + i]) = (value, value);
            }
        }
        self.pulls = vec![0.0; n * rivals];
        for rival in 0..rivals {
            let told: Vec<f64> = rows.iter().map(|&row| table.told(row)[rival]).collect();
            let known: Vec<usize> = (0..n).filter(|&i| !told[i].is_nan()).collect();
            let mean = known.iter().map(|&i| told[i]).sum::<f64>() / known.len().max(1) as f64;
            let mut sums = vec![0.0; n];
            let mut pulls = vec![0.0; n];
            for _ in 0..PASSES {
                for &i in &known {
                    let alone = told[i] - mean - (sums[i] - pulls[i]);
                    let most = PULL * table.weight(rows[i]);
                    let pull = (alone.abs() - TUBE).max(0.0).copysign(alone).clamp(-most, most);
                    let change = pull - pulls[i];
                    if change.abs() > 1e-6 {
                        pulls[i] = pull;
                        sums.iter_mut()
                            .zip(&kernel[i * n..(i + 1) * n])
                            .for_each(|(sum, k)| *sum += change * k);
                    }
                }
            }
            for (i, pull) in pulls.into_iter().enumerate() {
                self.pulls[i * rivals + rival] = pull;
            }
            let error = known.iter().map(|&i| (told[i] - mean - sums[i]).powi(2)).sum::<f64>();
            self.spread.push((error / known.len().max(1) as f64).sqrt().max(TUBE));
            self.averages.push(if known.is_empty() { SLOWEST_LOG2 } else { mean });
        }
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
        self.means(at, log2);
        words::copy(&self.spread, spread);
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        let mut log2 = vec![0.0; rivals.len()];
        self.means(at, &mut log2);
        let mut lines = vec![format!("support vectors: {}", words::ranking(&log2, rivals))];
        let Some((first, second)) = words::best_two(&log2) else { return lines };
        let width = self.centre.len().max(1);
        let mut parts: Vec<(f64, usize)> = Vec::new();
        for (row, place) in self.places.chunks_exact(width).enumerate() {
            let pull = |rival: usize| self.pulls[row * self.rivals + rival];
            parts.push((self.near(place, at) * (pull(second) - pull(first)), row));
        }
        parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then(a.1.cmp(&b.1)));
        for (part, row) in parts.into_iter().take(3) {
            let near: Vec<f64> = (0..self.axes.near)
                .map(|axis| {
                    let scale = self.scale[axis];
                    self.centre[axis]
                        + if scale > 0.0 { self.places[row * width + axis] / scale } else { 0.0 }
                })
                .collect();
            let winner = if part > 0.0 { rivals[first] } else { rivals[second] };
            let place = words::place(&self.axes, &near);
            lines.push(format!(
                "what was measured at {place} speaks for {winner} by {:.2} doublings",
                part.abs()
            ));
        }
        lines
    }
}
