//! Warm start: what wisdom knows of the same kernel on other problems and other devices.

use crate::field::family_of;
use crate::plan::Rival;
use crate::remembered::believed;
use trimtab_core::Problem;
use trimtab_tune::search::{Donor, DonorPoint};
use trimtab_wisdom::{Fact, MeasuredOn, Wisdom};

/// Donors taken, each what is known of one problem on one device.
const MAX_DONORS: usize = 8;
/// How many doublings of sizes another device counts for: the same device on a problem four times as large is asked first.
const OTHER_DEVICE_DOUBLINGS: f64 = 2.0;

/// What is known of a rival's kernel elsewhere, nearest first: problems of the same family, on this device or on others.
/// Other versions of the kernel are asked only if this one was measured nowhere else.
pub(crate) fn donors(wisdom: &Wisdom, device: &str, problem: &Problem, rival: &Rival) -> Vec<Donor> {
    let (family, sizes) = (family_of(problem), sizes(problem));
    let far = |place: &MeasuredOn| {
        let other = Problem::parse(&place.problem).ok().filter(|other| family_of(other) == family)?;
        let is_here = place.device == device;
        let apart = apart(&sizes, &self::sizes(&other)) + if is_here { 0.0 } else { OTHER_DEVICE_DOUBLINGS };
        (!is_here || other != *problem).then_some(apart)
    };
    let places = wisdom.places(&rival.name).into_iter();
    let mut places: Vec<(f64, MeasuredOn)> = places.filter_map(|place| Some((far(&place)?, place))).collect();
    if places.iter().any(|(_, place)| place.version == rival.version.0) {
        places.retain(|(_, place)| place.version == rival.version.0);
    }
    // Stable: places come in a fixed order.
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let donors = places.iter().map(|(_, place)| donor(wisdom, place, &rival.name));
    donors.filter(|donor| donor.points.iter().any(|point| point.time.is_some())).take(MAX_DONORS).collect()
}

/// The kernel's points at one place.
fn donor(wisdom: &Wisdom, place: &MeasuredOn, kernel: &str) -> Donor {
    let mut facts = wisdom.facts(&place.device, &place.problem);
    facts.retain(|fact| fact.key.kernel == kernel && fact.key.version == place.version);
    // Facts come sorted by point, then condition.
    let points = facts.chunk_by(|a, b| a.key.point == b.key.point).filter_map(donor_point);
    Donor { points: points.collect() }
}

fn donor_point(facts: &[Fact]) -> Option<DonorPoint> {
    let time = match believed(facts, None)? {
        Ok((estimate, _)) => Some(estimate.time.0 as f64),
        Err(_) => None,
    };
    let axis = |part: &str| {
        let (name, value) = part.split_once('=')?;
        Some((name.to_string(), value.parse().ok()?))
    };
    let values = facts.first()?.key.point.split(',').map(axis).collect::<Option<Vec<_>>>()?;
    Some(DonorPoint { values, time })
}

/// The numbers in a problem's text: for problems of one family these are the sizes, and what is equal.
fn sizes(problem: &Problem) -> Vec<f64> {
    let text = problem.to_string();
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    numbers.filter_map(|digits| digits.parse().ok()).collect()
}

/// How many doublings lie between sizes, over all of them.
fn apart(sizes: &[f64], others: &[f64]) -> f64 {
    sizes.iter().zip(others).map(|(a, b)| (a.max(1.0).log2() - b.max(1.0).log2()).abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Standing;
    use trimtab_core::{KernelId, Nanos, Point, VariantClass, Work};
    use trimtab_wisdom::{FactKey, Outcome, Stats};

    fn rival() -> Rival {
        Rival {
            device: 0,
            device_id: "here".into(),
            kernel: KernelId(0),
            name: "k".into(),
            version: "1".into(),
            class: VariantClass::Tiled,
            point: Point::EMPTY,
            point_name: String::new(),
            work: Work::default(),
            transfer: Nanos(0),
            build: Nanos(0),
            energy_uj: None,
            implausible: None,
            standing: Standing::Unconsidered,
        }
    }

    fn record(wisdom: &Wisdom, device: &str, version: &str, problem: &str, point: &str, ns: f64) {
        let key = FactKey {
            device: device.into(),
            kernel: "k".into(),
            version: version.into(),
            problem: problem.into(),
            point: point.into(),
            condition: "quiet".into(),
        };
        wisdom.record(key, Outcome::Timed(Stats::single(ns)));
    }

    fn times(wisdom: &Wisdom) -> Vec<Option<f64>> {
        let problem = "matmul:f32:64x64x64".parse().unwrap();
        let donors = donors(wisdom, "here", &problem, &rival());
        donors.iter().map(|donor| donor.points[0].time).collect()
    }

    #[test]
    fn the_nearest_problems_come_first_and_other_devices_after_this_one() {
        let wisdom = Wisdom::in_memory();
        for (device, problem, ns) in [
            ("here", "matmul:f32:64x64x64", 1.0),
            ("here", "matmul:f32:1024x64x64", 5.0),
            ("here", "matmul:f32:128x64x64", 2.0),
            ("there", "matmul:f32:64x64x64", 3.0),
            ("there", "matmul:f32:128x64x128", 4.0),
            ("here", "matmul:f64:64x64x64", 9.0),
            ("here", "matmul:f32:1x64x64", 9.0),
        ] {
            record(&wisdom, device, "1", problem, "a=1,b=2", ns);
        }
        assert_eq!(times(&wisdom), [2.0, 3.0, 5.0, 4.0].map(Some));
    }

    #[test]
    fn another_version_is_asked_only_if_this_one_is_unknown() {
        let wisdom = Wisdom::in_memory();
        record(&wisdom, "there", "0", "matmul:f32:64x64x64", "a=1", 7.0);
        assert_eq!(times(&wisdom), [Some(7.0)]);
        record(&wisdom, "there", "1", "matmul:f32:999x64x64", "a=1", 8.0);
        assert_eq!(times(&wisdom), [Some(8.0)]);
    }

    #[test]
    fn failures_are_told_and_a_donor_without_a_time_or_settings_is_none() {
        let wisdom = Wisdom::in_memory();
        record(&wisdom, "there", "1", "matmul:f32:64x64x64", "a=2", 5.0);
        record(&wisdom, "elsewhere", "1", "matmul:f32:64x64x64", "-", 5.0);
        let key = |device: &str, point: &str| FactKey {
            device: device.into(),
            kernel: "k".into(),
            version: "1".into(),
            problem: "matmul:f32:64x64x64".into(),
            point: point.into(),
            condition: "quiet".into(),
        };
        let failed =
            || Outcome::Failed { kind: trimtab_core::FailureKind::Launch, message: "too large".into() };
        wisdom.record(key("there", "a=1"), failed());
        wisdom.record(key("nowhere", "a=1"), failed());
        let problem = "matmul:f32:64x64x64".parse().unwrap();
        let donors = donors(&wisdom, "here", &problem, &rival());
        assert_eq!(donors.len(), 1);
        let told: Vec<_> = donors[0].points.iter().map(|point| (point.values[0].1, point.time)).collect();
        assert_eq!(told, [(1, None), (2, Some(5.0))]);
    }

    #[test]
    fn there_are_eight_donors_at_most() {
        let wisdom = Wisdom::in_memory();
        for size in 2..40 {
            record(&wisdom, "here", "1", &format!("matmul:f32:{size}x64x64"), "a=1", 1.0);
        }
        assert_eq!(times(&wisdom).len(), MAX_DONORS);
    }
}
