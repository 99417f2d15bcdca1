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
            op: "nothing in particular".into(),
            sizes: vec![64, 32],
            flops: 1000,
            bytes: 2000,
            axes: vec![
                Axis { name: "a".into(), values: vec![1, 2, 3, 4] },
                Axis { name: "b".into(), values: vec![1, 2, 4] },
            ],
            fixed: vec![],
            constraints: vec![Expression::parse("a * b <= 16", &["a".into(), "b".into()], &[]).unwrap()],
            completeness: Completeness::Everything,
            origin: "made up".into(),
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

    #[test]
    fn repeats_are_kept_as_shares_of_the_mean_and_failures_have_none() {
        let recording = small();
        let repeats: Vec<Vec<f64>> = recording
            .rows
            .iter()
            .map(|row| row.outcome.mean_ms().map_or(vec![1.0], |mean| vec![0.9 * mean, 1.1 * mean]))
            .collect();
        let again = recording.clone().with_repeats(&repeats);
        assert_eq!((again.repeat_count(10), again.repeat_count(11)), (2, 0));
        assert_eq!(again.repeat_ms(3, 1), recording.repeat_ms(3, 1));
        let without = recording.with_repeats(&[]);
        assert!(without.repeats.is_empty() && without.repeats_from.is_empty());
    }

    #[test]
    fn any_set_of_points_can_be_said_to_be_all_legal_ones() {
        let whole = small();
        let points: Vec<Point> = whole.rows.iter().map(|row| row.point).collect();
        let all = whole.clone().limit_to(&points);
        assert_eq!((all.constraints.len(), all.count_legal()), (0, 12));
        let mut some = whole.clone();
        some.rows = vec![whole.rows[0], whole.rows[5], whole.rows[10]];
        let some = some.limit_to(&[points[0], points[5], points[10]]);
        assert_eq!((some.count_legal(), some.completeness), (3, Completeness::Everything));
        assert_eq!(some.constraints[0].text(), "a * 5 + b in (6, 14, 22)");
        assert!(some.rows.iter().all(|row| some.is_legal(row.point.values())));
        let part = Recording { rows: some.rows[..2].to_vec(), ..some.clone() };
        let part = part.limit_to(&[points[0], points[5], points[10]]);
        assert_eq!((part.count_legal(), part.completeness), (3, Completeness::Sample));
        let mut huge = some.clone();
        huge.axes = (0..3).map(|axis| Axis { name: format!("x{axis}"), values: vec![1, u32::MAX] }).collect();
        let huge = huge.limit_to(&points[..3]);
        assert_eq!((huge.constraints.len(), huge.completeness), (0, Completeness::Sample));
    }
}
