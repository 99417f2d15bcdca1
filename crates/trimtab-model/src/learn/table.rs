//! Measured problems as models see them: where each lies, and how much longer than the best each rival took.

use super::LONGEST_NS;

/// A rival is told to be slower than the best by at most this many doublings: beyond, nobody would choose it, and fitting
/// by how much would cost accuracy where it matters.
pub const SLOWEST_LOG2: f64 = 3.0;

/// What the numbers that describe a problem are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axes {
    /// Their names, for explanations.
    pub names: Vec<String>,
    /// So many of the first are coordinates: log2 of sizes, between which distances make sense.
    pub near: usize,
}

/// Problems with the times of their rivals.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    axes: Axes,
    rivals: usize,
    at: Vec<f64>,
    told: Vec<f64>,
    weights: Vec<f64>,
}

impl Table {
    /// An empty table of so many rivals.
    pub fn new(axes: Axes, rivals: usize) -> Table {
        Table { axes, rivals, ..Table::default() }
    }

    /// Adds a problem: where it lies, each rival's time in nanoseconds (not a number where it was not measured), and how
    /// much it counts, one for a fresh measurement. False, and nothing is added, if there is no usable time or a number
    /// that describes the problem is not finite.
    pub fn push(&mut self, at: &[f64], ns: &[f64], weight: f64) -> bool {
        let mut told = vec![f64::NAN; self.rivals];
        let fits = at.len() == self.width() && ns.len() == self.rivals && weight > 0.0 && weight.is_finite();
        if !fits || !at.iter().all(|value| value.is_finite()) || !relative(ns, &mut told) {
            return false;
        }
        self.at.extend_from_slice(at);
        self.told.extend_from_slice(&told);
        self.weights.push(weight);
        true
    }

    /// Adds a problem nobody has measured: see [`next`](super::next). False if its description does not fit.
    pub fn want(&mut self, at: &[f64]) -> bool {
        let fits = at.len() == self.width() && at.iter().all(|value| value.is_finite());
        if fits {
            self.at.extend_from_slice(at);
            self.told.resize(self.told.len() + self.rivals, f64::NAN);
            self.weights.push(1.0);
        }
        fits
    }

    /// What the numbers that describe a problem are.
    pub fn axes(&self) -> &Axes {
        &self.axes
    }

    /// Numbers that describe a problem.
    pub fn width(&self) -> usize {
        self.axes.names.len()
    }

    /// Rivals.
    pub fn rivals(&self) -> usize {
        self.rivals
    }

    /// Problems.
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Whether there is no problem.
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Where a problem lies.
    pub fn at(&self, row: usize) -> &[f64] {
        &self.at[row * self.width()..(row + 1) * self.width()]
    }

    /// log2 of each rival's time over the best's; not a number where it was not measured.
    pub fn told(&self, row: usize) -> &[f64] {
        &self.told[row * self.rivals..(row + 1) * self.rivals]
    }

    /// How much a problem counts.
    pub fn weight(&self, row: usize) -> f64 {
        self.weights[row]
    }

    /// The typical error of each rival's prediction; `predict` says what is expected of a problem.
    pub(super) fn typical_errors(&self, mut predict: impl FnMut(&[f64], &mut [f64])) -> Vec<f64> {
        let mut log2 = vec![0.0; self.rivals];
        let mut sums = vec![(0.0, 0.0); self.rivals];
        for row in 0..self.len() {
            predict(self.at(row), &mut log2);
            for ((sum, told), value) in sums.iter_mut().zip(self.told(row)).zip(&log2) {
                if !told.is_nan() {
                    *sum = (sum.0 + (told - value).powi(2), sum.1 + 1.0);
                }
            }
        }
        sums.iter().map(|(squares, count)| (squares / f64::max(*count, 1.0)).sqrt()).collect()
    }

    /// The mean of each number and one over its deviation, zero where there is none. `weight` says how much a problem counts.
    pub(super) fn centre_and_scale(&self, weight: impl Fn(usize) -> f64) -> (Vec<f64>, Vec<f64>) {
        let total = (0..self.len()).map(&weight).sum::<f64>().max(1e-9);
        let mean =
            |of: &dyn Fn(usize) -> f64| (0..self.len()).map(|row| of(row) * weight(row)).sum::<f64>() / total;
        let centre: Vec<f64> = (0..self.width()).map(|axis| mean(&|row| self.at(row)[axis])).collect();
        let deviation = |axis: usize| mean(&|row| (self.at(row)[axis] - centre[axis]).powi(2)).sqrt();
        let inverse = |deviation: f64| if deviation > 1e-6 { 1.0 / deviation } else { 0.0 };
        let scale = (0..self.width()).map(deviation).map(inverse).collect();
        (centre, scale)
    }

    /// These problems alone.
    pub fn part(&self, rows: &[usize]) -> Table {
        let mut part = Table::new(self.axes.clone(), self.rivals);
        for &row in rows {
            part.at.extend_from_slice(self.at(row));
            part.told.extend_from_slice(self.told(row));
            part.weights.push(self.weights[row]);
        }
        part
    }
}

/// log2 of each time over the least, at most [`SLOWEST_LOG2`]; false if no time is usable.
pub fn relative(ns: &[f64], told: &mut [f64]) -> bool {
    let usable = |time: f64| time > 0.0 && time <= LONGEST_NS;
    let best = ns.iter().copied().filter(|&time| usable(time)).fold(f64::INFINITY, f64::min);
    for (told, &time) in told.iter_mut().zip(ns) {
        *told = if usable(time) { (time / best).log2().min(SLOWEST_LOG2) } else { f64::NAN };
    }
    best.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_doublings_over_the_best_and_unusable_rows_are_refused() {
        let axes = Axes { names: vec!["m".to_string()], near: 1 };
        let mut table = Table::new(axes, 4);
        assert!(table.push(&[3.0], &[40.0, 10.0, f64::NAN, 1e6], 1.0));
        assert_eq!(table.told(0)[..2], [2.0, 0.0]);
        assert!(table.told(0)[2].is_nan() && table.told(0)[3] == SLOWEST_LOG2);
        assert!(!table.push(&[3.0], &[0.0, -1.0, f64::NAN, f64::INFINITY], 1.0));
        assert!(!table.push(&[f64::NAN], &[1.0; 4], 1.0));
        assert!(!table.push(&[1.0], &[1.0; 4], 0.0));
        assert!(!table.push(&[1.0], &[1.0; 3], 1.0));
        assert_eq!((table.len(), table.part(&[0, 0]).len()), (1, 2));
    }
}
