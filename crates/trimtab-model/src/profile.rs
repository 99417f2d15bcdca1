//! What whole calls of one class of operations take on a device, by size: a start and a cost a unit, fitted to relative errors.
//!
//! The line is what people compare; where sizes were measured, what was seen there corrects it, so that a cache that ends does not
//! make a line lie.

/// The longest time that is believed, in nanoseconds: an hour.
const LONGEST_NS: f64 = 3.6e12;
/// Sizes whose spread is below this share of them count as equal.
const EQUAL: f64 = 1e-6;
/// The least and the greatest spread a profile claims, in doublings.
const SPREAD: (f64, f64) = (0.03, 2.0);
/// The spread of a profile nothing speaks for or against, in doublings; counts as much as one size.
const SPREAD_PRIOR: f64 = 0.5;

/// Times of one size, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rung {
    /// Elements, or arithmetic operations.
    pub size: u64,
    /// What each repeat took, in the order they were made.
    pub ns: Vec<f64>,
}

impl Rung {
    /// The time this size is taken to need: the least, as everywhere here.
    pub fn time(&self) -> Option<f64> {
        let usable = self.ns.iter().copied().filter(|ns| *ns > 0.0 && *ns <= LONGEST_NS);
        usable.min_by(f64::total_cmp)
    }
}

/// What had to be assumed because the times did not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumed {
    /// One size only: the line goes through the origin.
    NoStart,
    /// All sizes are equal: every size takes the same.
    Constant,
    /// Larger sizes took less: every size takes the same.
    NoGrowth,
    /// The start would be negative: the line goes through the origin.
    StartAtZero,
}

impl std::fmt::Display for Assumed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Assumed::NoStart => "one measurement only: taken as proportional to size",
            Assumed::Constant => "all sizes are equal: taken as the same for every size",
            Assumed::NoGrowth => "larger sizes took less: taken as the same for every size",
            Assumed::StartAtZero => "the start would be negative: taken as proportional to size",
        })
    }
}

/// A cost model of one class of operations on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What a call of no size takes, in nanoseconds.
    pub start_ns: f64,
    /// What one element or arithmetic operation adds, in nanoseconds.
    pub unit_ns: f64,
    /// How many times it rests on.
    pub samples: u32,
    /// What had to be assumed.
    pub assumed: Option<Assumed>,
    /// One standard deviation between sizes that were measured, in doublings.
    pub spread_log2: f64,
    /// Sizes in ascending order with log2 of what was seen over the line.
    seen: Vec<(f64, f64)>,
}

impl Profile {
    /// A profile of these times; `None` without a usable one.
    pub fn fit(steps: &[Rung]) -> Option<Profile> {
        let mut points: Vec<(f64, f64)> =
            steps.iter().filter_map(|step| Some((step.size.max(1) as f64, step.time()?))).collect();
        let usable = points.len();
        points.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // Of one size that was measured several times under different shapes, the geometric mean.
        let mut merged: Vec<(f64, f64, f64)> = Vec::new();
        for (size, ns) in points {
            match merged.last_mut() {
                Some(last) if last.0 == size => {
                    last.1 += ns.log2();
                    last.2 += 1.0;
                }
                _ => merged.push((size, ns.log2(), 1.0)),
            }
        }
        let points: Vec<(f64, f64)> =
            merged.into_iter().map(|(size, logs, count)| (size, (logs / count).exp2())).collect();
        let (start_ns, unit_ns, assumed) = line(&points, usable == 1)?;
        let mut profile = Profile {
            start_ns,
            unit_ns,
            samples: steps.iter().map(|step| step.ns.len() as u32).sum(),
            assumed,
            spread_log2: SPREAD_PRIOR,
            seen: Vec::new(),
        };
        profile.seen =
            points.iter().map(|&(size, ns)| (size.log2(), (ns / profile.line(size)).log2())).collect();
        profile.spread_log2 = profile.left_out_spread();
        Some(profile)
    }

    /// The line alone, in nanoseconds.
    pub fn line(&self, size: f64) -> f64 {
        (self.start_ns + self.unit_ns * size).clamp(1e-3, LONGEST_NS)
    }

    /// What a call of that size is expected to take, in nanoseconds: the line, corrected by what was seen near that size.
    pub fn at(&self, size: u64) -> f64 {
        let size = size.max(1) as f64;
        (self.line(size) * between(&self.seen, size.log2()).exp2()).clamp(1.0, LONGEST_NS)
    }

    /// The smallest and the greatest size that was measured.
    pub fn range(&self) -> (u64, u64) {
        let at = |seen: Option<&(f64, f64)>| seen.map_or(0, |(log, _)| log.exp2().round() as u64);
        (at(self.seen.first()), at(self.seen.last()))
    }

    /// How far sizes between their neighbours are from what those say, in doublings.
    fn left_out_spread(&self) -> f64 {
        let mut squares = SPREAD_PRIOR * SPREAD_PRIOR;
        let mut count = 1.0;
        for three in self.seen.windows(3) {
            let error = three[1].1 - between(&[three[0], three[2]], three[1].0);
            squares += error * error;
            count += 1.0;
        }
        (squares / count).sqrt().clamp(SPREAD.0, SPREAD.1)
    }
}

/// What lies between points in ascending order at a place; beyond the ends the last one's.
fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let after = points.partition_point(|(place, _)| *place < at);
    match (after.checked_sub(1).and_then(|before| points.get(before)), points.get(after)) {
        (Some(a), Some(b)) if b.0 > a.0 => a.1 + (b.1 - a.1) * (at - a.0) / (b.0 - a.0),
        (_, Some(b)) => b.1,
        (Some(a), None) => a.1,
        (None, None) => 0.0,
    }
}

/// Start and cost a unit by least squares of relative errors, and what had to be assumed.
fn line(points: &[(f64, f64)], is_alone: bool) -> Option<(f64, f64, Option<Assumed>)> {
    let (first, last) = (points.first()?, points.last()?);
    let mean = || {
        let logs: f64 = points.iter().map(|(_, ns)| ns.log2()).sum();
        (logs / points.len() as f64).exp2()
    };
    let through_origin = || {
        let logs: f64 = points.iter().map(|(size, ns)| (ns / size).log2()).sum();
        (logs / points.len() as f64).exp2()
    };
    if points.len() == 1 && is_alone {
        return Some((0.0, first.1 / first.0, Some(Assumed::NoStart)));
    }
    if last.0 - first.0 <= EQUAL * last.0 {
        return Some((mean(), 0.0, Some(Assumed::Constant)));
    }
    // Minimises the sum of ((a + b·size)/ns − 1)².
    let (mut aa, mut ab, mut bb, mut a1, mut b1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(size, ns) in points {
        let (a, b) = (1.0 / ns, size / ns);
        aa += a * a;
        ab += a * b;
        bb += b * b;
        a1 += a;
        b1 += b;
    }
    let determinant = aa * bb - ab * ab;
    let (start, unit) = ((a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant);
    Some(match (start, unit) {
        _ if !start.is_finite() || !unit.is_finite() => (mean(), 0.0, Some(Assumed::Constant)),
        (_, unit) if unit < 0.0 => (mean(), 0.0, Some(Assumed::NoGrowth)),
        (start, _) if start < 0.0 => (0.0, through_origin(), Some(Assumed::StartAtZero)),
        _ => (start, unit, None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(points: &[(u64, f64)]) -> Vec<Rung> {
        points.iter().map(|&(size, ns)| Rung { size, ns: vec![ns] }).collect()
    }

    fn of(points: &[(u64, f64)]) -> Profile {
        Profile::fit(&steps(points)).unwrap()
    }

    #[test]
    fn start_and_cost_are_recovered_over_six_decades() {
        let sizes = (0..7).map(|power| 10u64.pow(power));
        let points: Vec<(u64, f64)> = sizes.map(|size| (size, 5_000.0 + 0.25 * size as f64)).collect();
        let profile = of(&points);
        assert!((profile.start_ns - 5_000.0).abs() < 1e-6, "{profile:?}");
        assert!((profile.unit_ns - 0.25).abs() < 1e-9 && profile.assumed.is_none(), "{profile:?}");
        assert!((profile.at(30_000) - 12_500.0).abs() < 1.0, "{}", profile.at(30_000));
        assert_eq!((profile.range(), profile.samples), ((1, 1_000_000), 7));
    }

    #[test]
    fn what_the_times_do_not_say_is_assumed_and_said() {
        let one = of(&[(1_000, 500.0)]);
        assert_eq!((one.start_ns, one.unit_ns, one.assumed), (0.0, 0.5, Some(Assumed::NoStart)));
        assert_eq!(one.at(4_000), 2_000.0);
        let equal = of(&[(1_000, 400.0), (1_000, 900.0)]);
        assert_eq!((equal.unit_ns, equal.assumed), (0.0, Some(Assumed::Constant)));
        assert!((equal.at(7) - 600.0).abs() < 1e-9);
        let falling = of(&[(1_000, 800.0), (2_000, 400.0), (4_000, 200.0)]);
        assert_eq!((falling.unit_ns, falling.assumed), (0.0, Some(Assumed::NoGrowth)));
        assert!((falling.start_ns - 400.0).abs() < 1e-9);
        let steep = of(&[(1_000, 100.0), (2_000, 400.0), (4_000, 1_600.0)]);
        assert_eq!((steep.start_ns, steep.assumed), (0.0, Some(Assumed::StartAtZero)));
        assert_eq!(Profile::fit(&[]), None);
        assert_eq!(Profile::fit(&steps(&[(1_000, f64::NAN), (2_000, 0.0), (3_000, -1.0)])), None);
    }

    #[test]
    fn where_it_was_measured_a_profile_says_what_was_seen() {
        let points = [(1_000, 1_000.0), (4_000, 1_500.0), (16_000, 9_000.0), (64_000, 60_000.0)];
        let profile = of(&points);
        for (size, ns) in points {
            assert!((profile.at(size) / ns - 1.0).abs() < 1e-9, "{size}: {}", profile.at(size));
        }
        assert!(profile.at(8_000) > 1_500.0 && profile.at(8_000) < 9_000.0);
        assert!(profile.at(128_000) > 100_000.0, "beyond the last the line leads on");
        assert!(profile.spread_log2 > of(&[(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)]).spread_log2);
    }
}
