//! `mlp`: a small neural network, two layers of 32, trained from a fixed seed.

use super::{Axes, Model, SLOWEST_LOG2, Table, words};
use trimtab_core::RandomNumbers;

/// Neurons of each hidden layer.
const HIDDEN: usize = 32;
/// Problems shown in one step.
const BATCH: usize = 16;
/// Problems shown in all, however many there are: bounds the time of a fit to 40 ms. Six times as many lost as much on unseen shapes
/// from 60 measured ones on.
const SHOWN: usize = 8_000;
/// Step size at the start; falls to zero along half a cosine.
const STEP: f32 = 0.01;
/// How much weights shrink, as a share of the step.
const DECAY: f32 = 0.02;
/// Numbers further from the mean than this many deviations count as this far: beyond, a network guesses.
const FAREST: f32 = 3.0;
/// Memory of the steps (Adam's two means) and what keeps a division from failing.
const MEMORY: (f32, f32, f32) = (0.9, 0.99, 1e-6);

/// A network from the numbers of a problem to a number a rival.
#[derive(Clone, Debug, Default)]
pub struct Mlp {
    seed: u64,
    axes: Axes,
    rivals: usize,
    centre: Vec<f32>,
    scale: Vec<f32>,
    first: Layer,
    second: Layer,
    last: Layer,
    spread: Vec<f64>,
}

/// Weights by output, then input, the constants last.
#[derive(Clone, Debug, Default)]
struct Layer {
    inputs: usize,
    outputs: usize,
    weights: Vec<f32>,
    slope: Vec<f32>,
    mean: Vec<f32>,
    square: Vec<f32>,
}

impl Layer {
    fn new(inputs: usize, outputs: usize, dice: &mut RandomNumbers) -> Layer {
        let size = (2.0 / inputs.max(1) as f64).sqrt();
        let count = (inputs + 1) * outputs;
        let weights = (0..count)
            .map(|at| if at < inputs * outputs { (size * dice.normal()) as f32 } else { 0.0 })
            .collect();
        Layer {
            inputs,
            outputs,
            weights,
            slope: vec![0.0; count],
            mean: vec![0.0; count],
            square: vec![0.0; count],
        }
    }

    #[inline]
    fn output(&self, output: usize, input: &[f32]) -> f32 {
        let row = &self.weights[output * self.inputs..(output + 1) * self.inputs];
        let mut sums = [0.0f32; 8];
        let (rows, inputs) = (row.chunks_exact(8), input.chunks_exact(8));
        let rest: f32 = rows.remainder().iter().zip(inputs.remainder()).map(|(a, b)| a * b).sum();
        for (row, input) in rows.zip(inputs) {
            for ((sum, a), b) in sums.iter_mut().zip(row).zip(input) {
                *sum += a * b;
            }
        }
        sums.iter().sum::<f32>() + rest + self.weights[self.inputs * self.outputs + output]
    }

    /// All outputs of a hidden layer.
    #[inline]
    fn rectified(&self, input: &[f32]) -> [f32; HIDDEN] {
        let mut outputs = [0.0; HIDDEN];
        for (output, value) in outputs.iter_mut().enumerate() {
            *value = self.output(output, input).max(0.0);
        }
        outputs
    }

    /// Adds to the slopes what these output slopes ask for, and passes them on to the inputs.
    fn back(&mut self, input: &[f32], slopes: &[f32], to_input: &mut [f32]) {
        to_input.fill(0.0);
        for (output, &slope) in slopes.iter().enumerate().filter(|(_, slope)| **slope != 0.0) {
            let span = output * self.inputs..(output + 1) * self.inputs;
            let rows = self.slope[span.clone()].iter_mut().zip(&self.weights[span]);
            for (((sum, weight), value), to) in rows.zip(input).zip(to_input.iter_mut()) {
                *sum += slope * value;
                *to += slope * weight;
            }
            self.slope[self.inputs * self.outputs + output] += slope;
        }
    }

    fn step(&mut self, size: f32, nth: i32) {
        let (keep, keep_square, least) = MEMORY;
        let (mean_scale, square_scale) = (1.0 / (1.0 - keep.powi(nth)), 1.0 / (1.0 - keep_square.powi(nth)));
        let parts = self.weights.iter_mut().zip(&mut self.slope).zip(&mut self.mean).zip(&mut self.square);
        for (((weight, slope), mean), square) in parts {
            let now = *slope / BATCH as f32;
            *mean = keep * *mean + (1.0 - keep) * now;
            *square = keep_square * *square + (1.0 - keep_square) * now * now;
            *weight -=
                size * (*mean * mean_scale / ((*square * square_scale).sqrt() + least) + DECAY * *weight);
            *slope = 0.0;
        }
    }
}

impl Mlp {
    /// A network of that seed that has learned nothing.
    pub fn new(seed: u64) -> Mlp {
        Mlp { seed, ..Mlp::default() }
    }

    #[inline]
    fn input(&self, axis: usize, value: f64) -> f32 {
        ((value as f32 - self.centre[axis]) * self.scale[axis]).clamp(-FAREST, FAREST)
    }

    /// Both hidden layers of a problem.
    fn hidden(&self, at: &[f64]) -> ([f32; HIDDEN], [f32; HIDDEN]) {
        let mut one = [0.0; HIDDEN];
        // Inputs are scaled in the first layer's sums, so that there is no buffer of them.
        one.copy_from_slice(&self.first.weights[self.first.inputs * HIDDEN..]);
        for (axis, value) in at.iter().enumerate().take(self.first.inputs) {
            let input = self.input(axis, *value);
            for (output, sum) in one.iter_mut().enumerate() {
                *sum += input * self.first.weights[output * self.first.inputs + axis];
            }
        }
        one.iter_mut().for_each(|value| *value = value.max(0.0));
        (one, self.second.rectified(&one))
    }

    /// One problem shown: adds to the slopes of all layers.
    fn show(&mut self, input: &[f32], told: &[f64], weight: f32, slopes: &mut [f32], unused: &mut [f32]) {
        let one = self.first.rectified(input);
        let two = self.second.rectified(&one);
        for (rival, slope) in slopes.iter_mut().enumerate() {
            let told = told[rival];
            let error = if told.is_nan() { 0.0 } else { self.last.output(rival, &two) - told as f32 };
            *slope = error * weight;
        }
        let (mut to_two, mut to_one) = ([0.0; HIDDEN], [0.0; HIDDEN]);
        self.last.back(&two, slopes, &mut to_two);
        silence(&two, &mut to_two);
        self.second.back(&one, &to_two, &mut to_one);
        silence(&one, &mut to_one);
        self.first.back(input, &to_one, unused);
    }

    /// What is expected of each rival.
    fn means(&self, at: &[f64], log2: &mut [f64]) {
        let (_, two) = self.hidden(at);
        for (rival, slot) in log2.iter_mut().enumerate().take(self.rivals) {
            *slot = f64::from(self.last.output(rival, &two)).clamp(0.0, SLOWEST_LOG2);
        }
    }
}

/// Neurons that said nothing have no slope.
fn silence(values: &[f32; HIDDEN], slopes: &mut [f32; HIDDEN]) {
    for (slope, _) in slopes.iter_mut().zip(values).filter(|(_, value)| **value <= 0.0) {
        *slope = 0.0;
    }
}

impl Model for Mlp {
    fn name(&self) -> &'static str {
        "mlp"
    }

    fn fit(&mut self, table: &Table) {
        let (width, rivals, count) = (table.width(), table.rivals(), table.len());
        let mut dice = RandomNumbers::new(self.seed);
        let (centre, scale) = table.centre_and_scale(|_| 1.0);
        *self = Mlp {
            seed: self.seed,
            axes: table.axes().clone(),
            rivals,
            scale: scale.iter().map(|value| *value as f32).collect(),
            centre: centre.iter().map(|value| *value as f32).collect(),
            first: Layer::new(width, HIDDEN, &mut dice),
            second: Layer::new(HIDDEN, HIDDEN, &mut dice),
            last: Layer::new(HIDDEN, rivals, &mut dice),
            spread: vec![SLOWEST_LOG2; rivals],
        };
        if count == 0 {
            return;
        }
        let (mut slopes, mut unused, mut input) = (vec![0.0; rivals], vec![0.0; width], vec![0.0; width]);
        let steps = SHOWN / BATCH;
        let (mut order, mut next) = (dice.order(count), 0);
        for step in 0..steps {
            for _ in 0..BATCH {
                if next == count {
                    (order, next) = (dice.order(count), 0);
                }
                let row = order[next];
                next += 1;
                for (axis, value) in table.at(row).iter().enumerate() {
                    input[axis] = self.input(axis, *value);
                }
                let weight = table.weight(row) as f32;
                self.show(&input, table.told(row), weight, &mut slopes, &mut unused);
            }
            let size = STEP * 0.5 * (1.0 + (std::f32::consts::PI * step as f32 / steps as f32).cos());
            for layer in [&mut self.first, &mut self.second, &mut self.last] {
                layer.step(size, step as i32 + 1);
            }
        }
        self.spread = table.typical_errors(|at, log2| self.means(at, log2));
    }

    fn predict(&self, at: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
        self.means(at, log2);
        words::copy(&self.spread, spread);
    }

    fn explain(&self, at: &[f64], rivals: &[&str]) -> Vec<String> {
        let mut log2 = vec![0.0; rivals.len()];
        self.means(at, &mut log2);
        let mut lines = vec![format!("network: {}", words::ranking(&log2, rivals))];
        let Some((first, second)) = words::best_two(&log2) else { return lines };
        // What each number says: how the lead changes when it is put back to its mean.
        let lead = log2[second] - log2[first];
        let mut parts = Vec::new();
        for axis in 0..at.len().min(self.centre.len()) {
            let mut usual = at.to_vec();
            usual[axis] = f64::from(self.centre[axis]);
            self.means(&usual, &mut log2);
            parts.push((axis, lead - (log2[second] - log2[first])));
        }
        lines.extend(words::reasons(&self.axes, parts, rivals[first], rivals[second]));
        lines
    }
}
