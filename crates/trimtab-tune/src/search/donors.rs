//! What other devices or problems taught about the same kernel: points by axis name and value, with their times there.

use super::{SearchSpace, exact_math};
use std::collections::HashSet;

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
    /// Per point: mean over donors of log2(time / the donor's best), and how many donors know it.
    pub(crate) slowdown: Vec<f32>,
    /// Points by promise: all donors' favourites, each donor's own best among the first.
    pub(crate) ranked: Vec<usize>,
}

/// A failure elsewhere counts as this many doublings slower than the best.
const FAILED_DOUBLINGS: f32 = 4.0;
/// Slower than this counts as this.
const SLOWEST_DOUBLINGS: f32 = 6.0;
/// What a donor that does not know a point is assumed to think of it, in doublings above its best.
const UNKNOWN_DOUBLINGS: f32 = 1.5;
/// Donors' best points that are mapped to the nearest legal point if they are not legal here.
const MAPPED: usize = 10;
/// Values of axes the donor does not have, combined, up to which its point stands for all of them.
const MAX_COMBINATIONS: usize = 64;
/// Points kept in the ranked list.
const RANKED: usize = 400;

impl Advice {
    /// Maps donors to the space; `None` if nothing they know is of use.
    pub(crate) fn new(space: &SearchSpace, donors: &[Donor]) -> Option<Advice> {
        let mut sums = vec![(0f32, 0u8); space.len()];
        let mut heads: Vec<Vec<usize>> = Vec::new();
        let mut useful = 0;
        for donor in donors {
            let mut points: Vec<(f32, &DonorPoint)> = Vec::with_capacity(donor.points.len());
            let best = donor.points.iter().filter_map(|point| point.time).fold(f64::INFINITY, f64::min);
            if !best.is_finite() {
                continue;
            }
            for point in &donor.points {
                let slowdown = point.time.map_or(FAILED_DOUBLINGS, |time| exact_math::log2(time / best) as f32);
                points.push((slowdown.clamp(0.0, SLOWEST_DOUBLINGS), point));
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut head = Vec::new();
            let mut known: HashSet<usize> = HashSet::new();
            let mut found = Vec::new();
            for (rank, (slowdown, point)) in points.iter().enumerate() {
                found.clear();
                legal(space, point, &mut found);
                if found.is_empty() && rank < MAPPED {
                    let named: Vec<(&str, u32)> = point.values.iter().map(|(n, v)| (n.as_str(), *v)).collect();
                    head.extend(space.nearest(&named));
                }
                for &at in &found {
                    if known.insert(at) {
                        sums[at].0 += slowdown;
                        sums[at].1 = sums[at].1.saturating_add(1);
                    }
                }
                if rank < MAPPED {
                    head.extend(&found);
                }
            }
            useful += usize::from(!head.is_empty() || !known.is_empty());
            heads.push(head);
        }
        if useful == 0 {
            return None;
        }
        let slowdown: Vec<f32> = sums
            .iter()
            .map(|(sum, count)| {
                let missing = (useful - usize::from(*count).min(useful)) as f32;
                (sum + missing * UNKNOWN_DOUBLINGS) / useful as f32
            })
            .collect();
        let mut order: Vec<usize> = (0..space.len()).filter(|at| sums[*at].1 > 0).collect();
        order.sort_by(|a, b| slowdown[*a].total_cmp(&slowdown[*b]).then(a.cmp(b)));
        order.truncate(RANKED);
        let ranked = interleave(order, &heads);
        Some(Advice { slowdown, ranked })
    }
}

/// Alternates what all agree on with each donor's own favourites in turn: diversity, for where they disagree.
fn interleave(agreed: Vec<usize>, heads: &[Vec<usize>]) -> Vec<usize> {
    let mut own = Vec::new();
    for rank in 0..heads.iter().map(Vec::len).max().unwrap_or(0) {
        own.extend(heads.iter().filter_map(|head| head.get(rank)));
    }
    let mut ranked = Vec::with_capacity(agreed.len() + own.len());
    let mut known = HashSet::new();
    let (mut agreed, mut own) = (agreed.into_iter(), own.into_iter());
    loop {
        let next = [agreed.next(), own.next()];
        if next == [None, None] {
            return ranked;
        }
        ranked.extend(next.into_iter().flatten().filter(|at| known.insert(*at)));
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
    let combinations = free.iter().fold(1usize, |all, &place| all.saturating_mul(space.axes()[place].values.len()));
    if free.len() == digits.len() || combinations > MAX_COMBINATIONS {
        return;
    }
    loop {
        found.extend(space.find(&digits));
        let mut carried = true;
        for &place in &free {
            digits[place] += 1;
            if usize::from(digits[place]) < space.axes()[place].values.len() {
                carried = false;
                break;
            }
            digits[place] = 0;
        }
        if carried {
            return;
        }
    }
}
