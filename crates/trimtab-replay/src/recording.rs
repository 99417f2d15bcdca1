//! What was recorded of one kernel on one device: its space, and the outcome of every point that was tried.

use crate::Expression;
use std::borrow::Cow;
use trimtab_core::{FailureKind, MAX_AXES, Point, Space};

/// A time in a recording: how long the point took over its repeats, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The mean over the repeats: the objective.
    pub mean_ms: f64,
    /// The fastest repeat.
    pub min_ms: f64,
    /// The middle repeat.
    pub median_ms: f64,
}

/// What came of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// It ran.
    Ran(Timing),
    /// It did not.
    Failed(FailureKind),
}

impl Outcome {
    /// The mean time in milliseconds, if it ran.
    pub fn mean_ms(&self) -> Option<f64> {
        match self {
            Outcome::Ran(timing) => Some(timing.mean_ms),
            Outcome::Failed(_) => None,
        }
    }
}

/// One point and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The settings, in the order of the recording's axes.
    pub point: Point,
    /// What came of them.
    pub outcome: Outcome,
    /// What building the kernel took, where it was recorded.
    pub compile_ms: Option<f64>,
}

/// Whether every legal point was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completeness {
    /// Every legal point has a row.
    Everything,
    /// Only some legal points have one.
    #[default]
    Sample,
}

impl Completeness {
    /// The word in the index of recordings.
    pub const fn name(self) -> &'static str {
        match self {
            Completeness::Everything => "bruteforce",
            Completeness::Sample => "uniform_random_sample",
        }
    }

    /// What that word means; anything but `bruteforce` promises nothing about points without a row.
    pub fn parse(name: &str) -> Completeness {
        match name {
            "bruteforce" => Completeness::Everything,
            _ => Completeness::Sample,
        }
    }
}

/// One axis: its name and every value it may take, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The name.
    pub name: String,
    /// The values, in the order of the recording.
    pub values: Vec<u32>,
}

/// A recording of one kernel on one device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The name of the recording.
    pub name: String,
    /// The kernel.
    pub kernel: String,
    /// The variant of the kernel's space.
    pub variant: String,
    /// The short name of the device.
    pub device: String,
    /// The name of the device shown to people.
    pub device_name: String,
    /// The API the device was reached through.
    pub api: String,
    /// The problem in words, or as trimtab writes it.
    pub op: String,
    /// The problem's sizes.
    pub sizes: Vec<u64>,
    /// Arithmetic operations of one launch, where they are known.
    pub flops: u64,
    /// Bytes moved by one launch, where they are known.
    pub bytes: u64,
    /// The axes.
    pub axes: Vec<Axis>,
    /// Names in constraints that have one value.
    pub fixed: Vec<(String, f64)>,
    /// What holds for legal points.
    pub constraints: Vec<Expression>,
    /// Whether every legal point has a row.
    pub completeness: Completeness,
    /// Where it comes from: who measured, when, with what.
    pub origin: String,
    /// The rows.
    pub rows: Vec<Row>,
    /// Repeats of all rows one after the other, in ten-thousandths of the row's mean.
    pub(crate) repeats: Vec<u32>,
    /// Where the repeats of a row begin; one more entry than rows, or empty without repeats.
    pub(crate) repeats_from: Vec<u32>,
}

/// Repeats are kept in this share of the mean.
const REPEAT_UNIT: f64 = 1e-4;

/// Whole numbers up to here are exact in constraints.
const EXACT: f64 = (1u64 << 53) as f64;

impl Recording {
    /// The space of the rows, in the order of the rows.
    pub fn space(&self) -> Space {
        let axes = self.axes.iter().map(|axis| Cow::Owned(axis.name.clone())).collect();
        Space::new(axes, self.rows.iter().map(|row| row.point).collect())
    }

    /// The shortest mean time of any row, in milliseconds.
    pub fn optimum_ms(&self) -> Option<f64> {
        self.rows.iter().filter_map(|row| row.outcome.mean_ms()).min_by(f64::total_cmp)
    }

    /// How many repeats of a row were recorded.
    pub fn repeat_count(&self, row: usize) -> usize {
        match (self.repeats_from.get(row), self.repeats_from.get(row + 1)) {
            (Some(from), Some(to)) => (to - from) as usize,
            _ => 0,
        }
    }

    /// The time of one repeat in milliseconds, in recorded order and from the start again after the last; the mean if no
    /// repeats were recorded. Absent if the row failed or does not exist.
    pub fn repeat_ms(&self, row: usize, repeat: usize) -> Option<f64> {
        let mean = self.rows.get(row)?.outcome.mean_ms()?;
        let count = self.repeat_count(row);
        if count == 0 {
            return Some(mean);
        }
        let at = self.repeats_from[row] as usize + repeat % count;
        Some(mean * f64::from(self.repeats[at]) * REPEAT_UNIT)
    }

    /// The same recording with these repeats in milliseconds, one list a row; rows that failed have none.
    pub fn with_repeats(mut self, repeats_ms: &[Vec<f64>]) -> Recording {
        (self.repeats, self.repeats_from) = (Vec::new(), vec![0]);
        for (row, known) in self.rows.iter().enumerate() {
            let mean_ms = known.outcome.mean_ms();
            for repeat_ms in mean_ms.and(repeats_ms.get(row)).into_iter().flatten() {
                let share = repeat_ms / mean_ms.unwrap_or(1.0) / REPEAT_UNIT;
                self.repeats.push(share.round() as u32);
            }
            self.repeats_from.push(self.repeats.len() as u32);
        }
        if self.repeats.is_empty() {
            self.repeats_from.clear();
        }
        self
    }

    /// Takes these points for all legal ones, which a constraint then says, and settles whether each has a row. Without a
    /// constraint that can say it (values too large to be told apart by one number) it is a sample.
    pub fn limit_to(mut self, legal: &[Point]) -> Recording {
        let everything = self.rows.len() == legal.len();
        self.completeness = if everything { Completeness::Everything } else { Completeness::Sample };
        self.constraints.clear();
        if self.combinations() == Some(legal.len() as u64) {
            return self;
        }
        let mut terms: Vec<(usize, u64)> = Vec::new();
        let mut stride = 1u64;
        for (axis, known) in self.axes.iter().enumerate().rev().filter(|(_, axis)| axis.values.len() > 1) {
            terms.push((axis, stride));
            let largest = known.values.iter().copied().max().unwrap_or(0);
            stride = stride.saturating_mul(u64::from(largest) + 1);
        }
        terms.reverse();
        let key = |point: &Point| {
            terms.iter().map(|&(axis, stride)| u64::from(point.values()[axis]) * stride).sum::<u64>()
        };
        let sum: Vec<String> = terms
            .iter()
            .map(|&(axis, stride)| match stride {
                1 => self.axes[axis].name.clone(),
                stride => format!("{} * {stride}", self.axes[axis].name),
            })
            .collect();
        let names: Vec<String> = self.axes.iter().map(|axis| axis.name.clone()).collect();
        let expression = (stride as f64 <= EXACT).then(|| {
            let keys: Vec<String> = legal.iter().map(|point| key(point).to_string()).collect();
            Expression::parse(&format!("{} in ({})", sum.join(" + "), keys.join(", ")), &names, &[])
        });
        match expression {
            Some(Ok(expression)) => self.constraints.push(expression),
            _ => self.completeness = Completeness::Sample,
        }
        self
    }

    /// Whether every constraint holds for these values.
    pub fn is_legal(&self, values: &[u32]) -> bool {
        self.constraints.iter().all(|constraint| constraint.holds(values))
    }

    /// How many combinations of values there are; absent beyond 2^64.
    pub fn combinations(&self) -> Option<u64> {
        self.axes.iter().try_fold(1u64, |product, axis| product.checked_mul(axis.values.len() as u64))
    }

    /// How many points of all combinations of values are legal.
    pub fn count_legal(&self) -> u64 {
        let fits = !self.axes.is_empty() && self.axes.len() <= MAX_AXES;
        let all = self.combinations().filter(|_| fits).unwrap_or(0);
        let mut values = vec![0u32; self.axes.len()];
        let is_legal = |nth: &u64| {
            // The digits of a number whose places are the axes, the last one counting first.
            let mut rest = *nth;
            for (value, axis) in values.iter_mut().zip(&self.axes).rev() {
                let count = axis.values.len() as u64;
                *value = axis.values[(rest % count) as usize];
                rest /= count;
            }
            self.is_legal(&values)
        };
        (0..all).filter(is_legal).count() as u64
    }
}
