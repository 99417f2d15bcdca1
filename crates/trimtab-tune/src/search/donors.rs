//! What other devices or problems taught about the same kernel: points by axis name and value, with their times there.

use super::tried::Tried;
use super::{SearchSpace, Seen, exact_math};

/// A point that was measured elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct DonorPoint {
    /// Axis names and values, in any order.
    pub values: Vec<(String, u32)>,
    /// Its time there, in that donor's unit; `None` if it failed there.
    pub time: Option<f64>,
}

/// Everything one other device or problem knows of this kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Donor {
    /// Its points, in any order.
    pub points: Vec<DonorPoint>,
}

/// The donors' knowledge mapped to a space.
#[derive(Clone, Debug)]
pub(crate) struct Advice {
    /// Per donor and point: log2(time / the donor's best), doublings beyond the first squeezed.
    pub(crate) slowdowns: Vec<Vec<f32>>,
    /// Points by promise: all donors' favourites, each donor's own best among the first.
    pub(crate) ranked: Vec<usize>,
}

/// A failure elsewhere counts as this many doublings slower than the best.
const FAILED_DOUBLINGS: f32 = 4.0;
/// Slower than this counts as this.
const SLOWEST_DOUBLINGS: f32 = 6.0;
/// What a donor is assumed to think of a point it does not know, in doublings above its best.
const UNKNOWN_DOUBLINGS: f32 = 1.5;
/// What doublings beyond the first count.
const SQUEEZED: f32 = 0.3;
/// Donors' best points that are mapped to the nearest legal point if they are not legal here.
const MAPPED: usize = 10;
/// Values of axes the donor does not have, combined, up to which its point stands for all of them.
const MAX_COMBINATIONS: usize = 64;
/// Donors listened to: those that know most of the space.
const MAX_DONORS: usize = 8;
/// How surely all donors are equally right, in observations, and the most that one is believed.
const SHARE_PRIOR: f64 = 4.0;
const MAX_SHARE: f64 = 1.2;
/// Points kept in the ranked list.
const RANKED: usize = 400;

impl Advice {
    /// Maps donors to the space; `None` if nothing they know is of use.
    ///
    /// At first every donor counts the same; what is measured then tells which to listen to. Weighing them by the share of
    /// this space they know was worse: of two donors, the one of another maker with the same axes misled.
    pub(crate) fn new(space: &SearchSpace, donors: &[Donor]) -> Option<Advice> {
        let mut mapped: Vec<Mapped> = donors.iter().filter_map(|donor| Mapped::new(space, donor)).collect();
        // The sort is stable: donors that know equally much stay in the order given.
        mapped.sort_by_key(|donor| std::cmp::Reverse(donor.known.len()));
        if mapped.is_empty() {
            return None;
        }
        mapped.truncate(MAX_DONORS);
        let mut slowdowns = Vec::with_capacity(mapped.len());
        let mut anyone = Tried::new(space.len());
        for donor in &mapped {
            let mut slowdown = vec![squeeze(UNKNOWN_DOUBLINGS); space.len()];
            for &(at, doublings) in &donor.known {
                slowdown[at] = squeeze(doublings);
                anyone.add(at);
            }
            slowdowns.push(slowdown);
        }
        let sum = |at: usize| slowdowns.iter().map(|slowdown| slowdown[at]).sum::<f32>();
        let mut agreed: Vec<(f32, usize)> =
            (0..space.len()).filter(|at| anyone.has(*at)).map(|at| (sum(at), at)).collect();
        agreed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        agreed.truncate(RANKED);
        let agreed = agreed.into_iter().map(|(_, at)| at).collect();
        Some(Advice { ranked: interleave(space, agreed, &mapped), slowdowns })
    }

    /// What the donors, each with its weight, say of a point.
    pub(crate) fn expects(&self, at: usize, weights: &[f64]) -> f64 {
        weights.iter().zip(&self.slowdowns).map(|(weight, donor)| weight * f64::from(donor[at])).sum()
    }

    /// How far each donor's ratios hold here: a regression of the values on them, drawn towards equal shares.
    ///
    /// Values have mean zero; `scale` brings doublings to their unit.
    pub(crate) fn weights(&self, places: &[usize], values: &[f64], scale: f64) -> Vec<f64> {
        let donors = self.slowdowns.len();
        let centred: Vec<Vec<f64>> = self
            .slowdowns
            .iter()
            .map(|slowdown| {
                let told: Vec<f64> = places.iter().map(|at| f64::from(slowdown[*at]) * scale).collect();
                let mean = told.iter().sum::<f64>() / told.len().max(1) as f64;
                told.into_iter().map(|told| told - mean).collect()
            })
            .collect();
        let product = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
        let mut rows: Vec<Vec<f64>> = Vec::with_capacity(donors);
        for (at, told) in centred.iter().enumerate() {
            let mut row: Vec<f64> = centred.iter().map(|other| product(told, other)).collect();
            row[at] += SHARE_PRIOR;
            row.push(product(told, values) + SHARE_PRIOR / donors as f64);
            rows.push(row);
        }
        solve(rows).into_iter().map(|weight| weight.clamp(0.0, MAX_SHARE) * scale).collect()
    }
}

/// Doublings beyond the first count less, as they do for times measured here.
fn squeeze(doublings: f32) -> f32 {
    if doublings > 1.0 { 1.0 + SQUEEZED * (doublings - 1.0) } else { doublings }
}

/// Solves a symmetric positive system, each row with its right side at the end, by elimination.
fn solve(mut rows: Vec<Vec<f64>>) -> Vec<f64> {
    let count = rows.len();
    for pivot in 0..count {
        let (done, rest) = rows.split_at_mut(pivot + 1);
        let row = &done[pivot];
        for other in rest {
            let factor = other[pivot] / row[pivot];
            for (value, known) in other.iter_mut().zip(row).skip(pivot) {
                *value -= factor * known;
            }
        }
    }
    let mut solution = vec![0.0; count];
    for at in (0..count).rev() {
        let known: f64 = (at + 1..count).map(|other| rows[at][other] * solution[other]).sum();
        solution[at] = (rows[at][count] - known) / rows[at][at];
    }
    solution
}

/// One donor's knowledge in terms of the space.
struct Mapped {
    /// Points it measured that are legal here, and log2(time / its best).
    known: Vec<(usize, f32)>,
    /// Its best points, or the nearest legal ones.
    head: Vec<usize>,
}

impl Mapped {
    fn new(space: &SearchSpace, donor: &Donor) -> Option<Mapped> {
        let times = donor.points.iter().filter_map(|point| Seen::Time(point.time?).time());
        let best = times.min_by(f64::total_cmp)?;
        let mut points: Vec<(f32, &DonorPoint)> = Vec::with_capacity(donor.points.len());
        for point in &donor.points {
            let time = point.time.and_then(|time| Seen::Time(time).time());
            let slowdown = time.map_or(FAILED_DOUBLINGS, |time| exact_math::log2(time / best) as f32);
            points.push((slowdown.min(SLOWEST_DOUBLINGS), point));
        }
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut mapped = Mapped { known: Vec::new(), head: Vec::new() };
        let mut seen = Tried::new(space.len());
        let mut found = Vec::new();
        for (rank, (slowdown, point)) in points.iter().enumerate() {
            found.clear();
            legal(space, point, &mut found);
            mapped.known.extend(found.iter().filter(|at| seen.add(**at)).map(|at| (*at, *slowdown)));
            if rank < MAPPED {
                if found.is_empty() {
                    let named: Vec<(&str, u32)> =
                        point.values.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                    found.extend(space.nearest(&named));
                }
                mapped.head.extend(&found);
            }
        }
        (!mapped.known.is_empty() || !mapped.head.is_empty()).then_some(mapped)
    }
}

/// Alternates what all agree on with each donor's own favourites in turn: diversity, for where they disagree.
fn interleave(space: &SearchSpace, agreed: Vec<usize>, donors: &[Mapped]) -> Vec<usize> {
    let mut own = Vec::new();
    for rank in 0..donors.iter().map(|donor| donor.head.len()).max().unwrap_or(0) {
        own.extend(donors.iter().filter_map(|donor| donor.head.get(rank)));
    }
    let mut ranked = Vec::with_capacity(agreed.len() + own.len());
    let mut known = Tried::new(space.len());
    let (mut agreed, mut own) = (agreed.into_iter(), own.into_iter());
    loop {
        let next = [agreed.next(), own.next()];
        if next == [None, None] {
            return ranked;
        }
        ranked.extend(next.into_iter().flatten().filter(|at| known.add(*at)));
    }
}

/// The legal points of a donor's values; an axis the donor does not have takes every value.
fn legal(space: &SearchSpace, point: &DonorPoint, found: &mut Vec<usize>) {
    let mut digits = vec![0u16; space.axes().len()];
    let mut free = Vec::new();
    for (place, axis) in space.axes().iter().enumerate() {
        match point.values.iter().find(|(name, _)| *name == axis.name) {
            Some((_, value)) => match axis.values.binary_search(value) {
                Ok(digit) => digits[place] = digit as u16,
                Err(_) => return,
            },
            None => free.push(place),
        }
    }
    let combinations =
        free.iter().fold(1usize, |all, &place| all.saturating_mul(space.axes()[place].values.len()));
    if free.len() == digits.len() || combinations > MAX_COMBINATIONS {
        return;
    }
    for nth in 0..combinations {
        // The digits of a number whose places are the free axes, the first one counting first.
        let mut rest = nth;
        for &place in &free {
            let count = space.axes()[place].values.len();
            digits[place] = (rest % count) as u16;
            rest /= count;
        }
        found.extend(space.find(&digits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::{Point, Space};

    fn space() -> SearchSpace {
        let points =
            (1..=4).flat_map(|a| (1..=4).map(move |b| Point::new(&[a, b]))).filter(|p| p.values() != [2, 2]);
        SearchSpace::new(&Space::new(vec!["a".into(), "b".into()], points.collect()))
    }

    fn donor(time: impl Fn(u32, u32) -> Option<f64>) -> Donor {
        let all = (1..=4).flat_map(|a| (1..=4).map(move |b| (a, b)));
        let point = |(a, b)| DonorPoint { values: vec![("b".into(), b), ("a".into(), a)], time: time(a, b) };
        Donor { points: all.map(point).collect() }
    }

    #[test]
    fn favourites_come_first_and_illegal_ones_are_replaced_by_the_nearest() {
        let space = space();
        // Best at (2, 2), which is not legal here, then (3, 2).
        let advice =
            Advice::new(&space, &[donor(|a, b| Some(f64::from(1 + a.abs_diff(2) * 2 + b.abs_diff(2) * 3)))])
                .unwrap();
        assert_eq!(advice.ranked[0], space.find(&[0, 1]).unwrap());
        assert!(space.digits(advice.ranked[1]).iter().zip([1, 1]).filter(|(a, b)| **a != *b).count() == 1);
        assert_eq!(advice.slowdowns[0][space.find(&[0, 1]).unwrap()], squeeze(f32::log2(3.0)));
    }

    #[test]
    fn an_axis_the_donor_does_not_have_takes_every_value() {
        let space = space();
        let half = Donor { points: vec![DonorPoint { values: vec![("a".into(), 3)], time: Some(1.0) }] };
        let advice = Advice::new(&space, &[half]).unwrap();
        let known = (0..space.len()).filter(|at| advice.slowdowns[0][*at] == 0.0);
        assert_eq!(known.map(|at| space.digits(at)[0]).collect::<Vec<_>>(), [2; 4]);
    }

    #[test]
    fn the_donor_that_is_right_gets_the_weight() {
        let space = space();
        let right = donor(|a, _| Some(f64::from(a)));
        let wrong = donor(|a, b| Some(f64::from(5 - a) + 0.01 * f64::from(b)));
        let advice = Advice::new(&space, &[wrong, right]).unwrap();
        let places: Vec<usize> = (0..space.len()).collect();
        let values: Vec<f64> = places.iter().map(|at| f64::from(space.digits(*at)[0]) - 1.5).collect();
        let weights = advice.weights(&places, &values, 1.0);
        assert!(weights[0] == 0.0 && weights[1] > 0.5, "{weights:?}");
    }

    #[test]
    fn donors_without_a_time_or_a_common_axis_are_ignored() {
        let foreign = Donor { points: vec![DonorPoint { values: vec![("c".into(), 1)], time: Some(1.0) }] };
        assert!(Advice::new(&space(), &[donor(|_, _| None), Donor::default(), foreign]).is_none());
        assert!(Advice::new(&space(), &[donor(|_, _| Some(f64::NAN))]).is_none());
    }

    #[test]
    fn small_systems_are_solved() {
        assert_eq!(solve(vec![vec![2.0, 0.0, 4.0], vec![0.0, 4.0, 2.0]]), [2.0, 0.5]);
        assert_eq!(solve(vec![vec![4.0, 2.0, 10.0], vec![2.0, 3.0, 9.0]]), [1.5, 2.0]);
    }
}
