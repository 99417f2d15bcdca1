//! `analytic`: what the roofline says, unlearned: the prior's numbers among the description of the problem.

use super::{Axes, Model, SLOWEST_LOG2, Table, words};

/// The analytic prior as a model: the last numbers of a problem are log2 of each rival's estimated time.
#[derive(Clone, Debug, Default)]
pub struct Prior {
    axes: Axes,
    rivals: usize,
    /// The typical error, one for all rivals: an analytic model is wrong about all of them alike.
    spread: f64,
}

impl Prior {
    /// A model that has not looked at its errors yet.
    pub fn new() -> Prior {
        Prior::default()
    }

    /// What is expected of each rival.
    fn means(&self, at: &[f64], log2: &mut [f64]) {
        log2.fill(0.0);
        if self.axes.prior != self.rivals || at.len() < self.rivals {
            return;
        }
        let prior = &at[at.len() - self.rivals..];
        let best = prior.iter().copied().fold(f64::INFINITY, f64::min);
        for (slot, value) in log2.iter_mut().zip(prior) {
            *slot = (value - best).clamp(0.0, SLOWEST_LOG2);
        }
    }
}

impl Model for Prior {
    fn name(&self) -> &'static str {
        "analytic"
    }

    fn fit(&mut self, table: &Table) {
        *self = Prior { axes: table.axes().clone(), rivals: table.rivals(), spread: SLOWEST_LOG2 };
        let mut log2 = vec![0.0; self.rivals];
        let (mut squares, mut count) = (0.0, 0.0);
        for row in 0..table.len() {
            self.means(table.at(row), &mut log2);
            for (told, value) in table.told(row).iter().zip(&log2).filter(|(told, _)| !told.is_nan()) {
                squares += (told - value).powi(2) * table.weight(row);
                count += table.weight(row);
            }
        }
        if count > 0.0 {
            self.spread = (squares / count).sqrt();
        }
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
        self.means(at, log2);
        spread.fill(self.spread);
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        if self.axes.prior == 0 {
            return vec!["no analytic estimate was given".to_string()];
        }
        let mut log2 = vec![0.0; rivals.len()];
        self.means(at, &mut log2);
        vec![format!("counted work against measured rates: {}", words::ranking(&log2, rivals))]
    }
}
