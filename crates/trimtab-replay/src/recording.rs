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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Every legal point has a row.
    Everything,
    /// Only some legal points have one.
    Sample,
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
#[derive(Clone, Debug, PartialEq)]
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
    /// The problem's sizes.
    pub sizes: Vec<u64>,
    /// Arithmetic operations of one launch, where they are known.
    pub flops: u64,
    /// Bytes moved by one launch, where they are known.
    pub bytes: u64,
    /// The axes.
    pub axes: Vec<Axis>,
    /// What holds for legal points.
    pub constraints: Vec<Expression>,
    /// Whether every legal point has a row.
    pub completeness: Completeness,
    /// The rows.
    pub rows: Vec<Row>,
    /// Repeats of all rows one after the other, in ten-thousandths of the row's mean.
    pub(crate) repeats: Vec<u32>,
    /// Where the repeats of a row begin; one more entry than rows, or empty without repeats.
    pub(crate) repeats_from: Vec<u32>,
}

/// Repeats are kept in this share of the mean.
const REPEAT_UNIT: f64 = 1e-4;

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

    /// Whether every constraint holds for these values.
    pub fn is_legal(&self, values: &[u32]) -> bool {
        self.constraints.iter().all(|constraint| constraint.holds(values))
    }

    /// How many points of all combinations of values are legal.
    pub fn count_legal(&self) -> u64 {
        if self.axes.is_empty() || self.axes.len() > MAX_AXES || self.axes.iter().any(|a| a.values.is_empty())
        {
            return 0;
        }
        let mut positions = vec![0usize; self.axes.len()];
        let mut values: Vec<u32> = self.axes.iter().map(|axis| axis.values[0]).collect();
        let mut legal = 0;
        loop {
            legal += u64::from(self.is_legal(&values));
            let mut axis = self.axes.len();
            loop {
                if axis == 0 {
                    return legal;
                }
                axis -= 1;
                positions[axis] = (positions[axis] + 1) % self.axes[axis].values.len();
                values[axis] = self.axes[axis].values[positions[axis]];
                if positions[axis] != 0 {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Twelve points of two axes; one fails; times 1 to 12 ms, two repeats each, 10 % apart.
    pub(crate) fn small() -> Recording {
        let mut rows = Vec::new();
        for a in 1..=4u32 {
            for b in [1, 2, 4] {
                let time = f64::from(a * 3 + b) * 0.5;
                let timing = Timing { mean_ms: time, min_ms: time * 0.9, median_ms: time };
                let failed = a == 4 && b == 4;
                let outcome =
                    if failed { Outcome::Failed(FailureKind::Compile) } else { Outcome::Ran(timing) };
                rows.push(Row { point: Point::new(&[a, b]), outcome, compile_ms: Some(7.0) });
            }
        }
        Recording {
            name: "small__nothing".into(),
            kernel: "small".into(),
            variant: "v".into(),
            device: "nothing".into(),
            device_name: "Nothing 1".into(),
            api: "none".into(),
            sizes: vec![64, 32],
            flops: 1000,
            bytes: 2000,
            axes: vec![
                Axis { name: "a".into(), values: vec![1, 2, 3, 4] },
                Axis { name: "b".into(), values: vec![1, 2, 4] },
            ],
            constraints: vec![Expression::parse("a * b <= 16", &["a".into(), "b".into()], &[]).unwrap()],
            completeness: Completeness::Everything,
            repeats: [9000, 11_000].repeat(rows.len()),
            repeats_from: (0..=rows.len() as u32).map(|row| row * 2).collect(),
            rows,
        }
    }

    #[test]
    fn repeats_come_in_recorded_order_and_begin_again() {
        let recording = small();
        assert_eq!(recording.repeat_count(0), 2);
        let repeats: Vec<f64> = (0..3).filter_map(|repeat| recording.repeat_ms(0, repeat)).collect();
        assert_eq!(repeats, [1.8, 2.2, 1.8]);
        assert_eq!(recording.repeat_ms(11, 0), None);
        assert_eq!((recording.repeat_ms(99, 0), recording.repeat_count(99)), (None, 0));
        let without = Recording { repeats: vec![], repeats_from: vec![], ..recording };
        assert_eq!(without.repeat_ms(0, 5), Some(2.0));
    }

    #[test]
    fn legal_points_are_counted_over_all_combinations() {
        let mut recording = small();
        assert_eq!((recording.count_legal(), recording.optimum_ms()), (12, Some(2.0)));
        let axes = ["a".to_string(), "b".to_string()];
        recording.constraints.push(Expression::parse("a != b", &axes, &[]).unwrap());
        assert_eq!(recording.count_legal(), 9);
        recording.axes.clear();
        assert_eq!(recording.count_legal(), 0);
    }
}
