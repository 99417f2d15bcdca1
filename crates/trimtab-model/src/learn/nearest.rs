//! `nearest`: what the nearest measured problems say.

use super::{Axes, Model, SLOWEST_LOG2, Table, words};

/// Neighbours asked.
const NEAREST: usize = 4;
/// Softens distances, in squared doublings: problems within a third of a doubling count alike.
const SOFT: f64 = 0.1;
/// Problems whose distances are computed at once, so that the compiler makes vectors of them.
const BLOCK: usize = 64;
/// Coordinates at most: distances look at the first ones.
const MOST_NEAR: usize = 8;

/// Measured problems by place, each with a number a rival.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    near: usize,
    rivals: usize,
    len: usize,
    /// Coordinates in blocks: of each block first all first coordinates, then all second ones.
    blocks: Vec<f64>,
    values: Vec<f64>,
    weights: Vec<f64>,
}

/// The nearest problems with their squared distances, nearest first; infinitely far where there are fewer.
pub(super) type Neighbours = [(f64, usize); NEAREST];

impl Places {
    pub(super) fn new(near: usize, rivals: usize) -> Places {
        Places { near: near.min(MOST_NEAR), rivals, ..Places::default() }
    }

    /// Adds a problem with its values; those that are not numbers say nothing.
    pub(super) fn push(&mut self, at: &[f64], values: impl Iterator<Item = f64>, weight: f64) {
        let slot = self.len % BLOCK;
        if slot == 0 {
            self.blocks.resize(self.blocks.len() + self.near * BLOCK, f64::INFINITY);
        }
        let first = self.len / BLOCK * self.near * BLOCK;
        for (axis, value) in at.iter().enumerate().take(self.near) {
            self.blocks[first + axis * BLOCK + slot] = *value;
        }
        self.values.extend(values);
        self.weights.push(weight);
        self.len += 1;
    }

    pub(super) fn nearest(&self, at: &[f64]) -> Neighbours {
        let mut nearest = [(f64::INFINITY, 0); NEAREST];
        for (block, coordinates) in self.blocks.chunks_exact((self.near * BLOCK).max(1)).enumerate() {
            let mut distances = [0.0; BLOCK];
            for (lane, &here) in coordinates.chunks_exact(BLOCK).zip(at) {
                for (distance, value) in distances.iter_mut().zip(lane) {
                    *distance += (value - here) * (value - here);
                }
            }
            for (slot, &distance) in distances.iter().enumerate() {
                if distance < nearest[NEAREST - 1].0 {
                    let mut place = NEAREST - 1;
                    while place > 0 && distance < nearest[place - 1].0 {
                        nearest[place] = nearest[place - 1];
                        place -= 1;
                    }
                    nearest[place] = (distance, block * BLOCK + slot);
                }
            }
        }
        nearest
    }

    /// The neighbours' mean of one rival and their spread; `silence` counts as a neighbour of that weight that says zero.
    #[inline]
    pub(super) fn mean(&self, neighbours: &Neighbours, rival: usize, silence: f64) -> Option<(f64, f64)> {
        let (mut weights, mut sum, mut squares) = (silence, 0.0, 0.0);
        for &(distance, row) in neighbours.iter().filter(|neighbour| neighbour.0.is_finite()) {
            let value = self.values[row * self.rivals + rival];
            if !value.is_nan() {
                let weight = self.weights[row] / (distance + SOFT);
                weights += weight;
                sum += weight * value;
                squares += weight * value * value;
            }
        }
        let mean = sum / weights;
        (weights > 0.0).then(|| (mean, (squares / weights - mean * mean).max(0.0).sqrt()))
    }

    /// In words, where the neighbours lie and what `said` makes of each one's values.
    pub(super) fn explain(&self, axes: &Axes, at: &[f64], said: impl Fn(&[f64]) -> String) -> Vec<String> {
        let found = self.nearest(at).into_iter().filter(|neighbour| neighbour.0.is_finite());
        found
            .map(|(distance, row)| {
                let first = row / BLOCK * self.near * BLOCK + row % BLOCK;
                let near: Vec<f64> = (0..self.near).map(|axis| self.blocks[first + axis * BLOCK]).collect();
                let values = &self.values[row * self.rivals..(row + 1) * self.rivals];
                let away = distance.sqrt();
                format!(
                    "measured at {} ({away:.2} doublings away): {}",
                    words::place(axes, &near),
                    said(values)
                )
            })
            .collect()
    }
}

/// The mean of the four nearest measured problems, by distance.
#[derive(Clone, Debug, Default)]
pub struct Nearest {
    axes: Axes,
    places: Places,
}

impl Nearest {
    /// A model that has learned nothing.
    pub fn new() -> Nearest {
        Nearest::default()
    }
}

impl Model for Nearest {
    fn name(&self) -> &'static str {
        "nearest"
    }

    fn fit(&mut self, table: &Table) {
        self.axes = table.axes().clone();
        self.places = Places::new(self.axes.near, table.rivals());
        for row in 0..table.len() {
            self.places.push(table.at(row), table.told(row).iter().copied(), table.weight(row));
        }
    }

    fn observe(&mut self, at: &[f64], told: &[f64], weight: f64) -> bool {
        let fits = told.len() == self.places.rivals;
        if fits {
            self.places.push(at, told.iter().copied(), weight);
        }
        fits
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], opinions: &mut [f64]) {
        let nearest = self.places.nearest(at);
        let rivals = self.places.rivals;
        for ((_, row), opinion) in
            nearest.iter().zip(opinions.chunks_exact_mut(rivals.max(1))).take(self.members())
        {
            for (slot, value) in opinion.iter_mut().zip(&self.places.values[row * rivals..]) {
                *slot = if value.is_nan() { SLOWEST_LOG2 } else { *value };
            }
        }
        for (rival, (log2, spread)) in log2.iter_mut().zip(spread).enumerate().take(rivals) {
            (*log2, *spread) = self.places.mean(&nearest, rival, 0.0).unwrap_or((SLOWEST_LOG2, SLOWEST_LOG2));
        }
    }

    fn members(&self) -> usize {
        NEAREST.min(self.places.len)
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        self.places.explain(&self.axes, at, |told| words::ranking(told, rivals))
    }
}
