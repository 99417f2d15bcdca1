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
    /// Per point: weighted mean over donors of log2(time / the donor's best).
    pub(crate) slowdown: Vec<f32>,
    /// Points by promise: all donors' favourites, each donor's own best among the first.
    pub(crate) ranked: Vec<usize>,
}

/// A failure elsewhere counts as this many doublings slower than the best.
const FAILED_DOUBLINGS: f32 = 4.0;
/// Slower than this counts as this.
const SLOWEST_DOUBLINGS: f32 = 6.0;
/// What is assumed of a point nobody knows, in doublings above the best.
const UNKNOWN_DOUBLINGS: f32 = 1.5;
/// And what that counts, in donors that know the whole space.
const UNKNOWN_WEIGHT: f32 = 0.1;
/// What doublings beyond the first count.
const SQUEEZED: f32 = 0.3;
/// Donors' best points that are mapped to the nearest legal point if they are not legal here.
const MAPPED: usize = 10;
/// Values of axes the donor does not have, combined, up to which its point stands for all of them.
const MAX_COMBINATIONS: usize = 64;
/// Points kept in the ranked list.
const RANKED: usize = 400;

impl Advice {
    /// Maps donors to the space; `None` if nothing they know is of use.
    ///
    /// A donor counts by the share of this space it knows: the same kernel with other axes or values is a weaker hint.
    pub(crate) fn new(space: &SearchSpace, donors: &[Donor]) -> Option<Advice> {
        let mut mapped: Vec<Mapped> = donors.iter().filter_map(|donor| Mapped::new(space, donor)).collect();
        // The sort is stable: donors that know equally much stay in the order given.
        mapped.sort_by_key(|donor| std::cmp::Reverse(donor.known.len()));
        if mapped.is_empty() {
            return None;
        }
        let mut sums = vec![(UNKNOWN_WEIGHT * UNKNOWN_DOUBLINGS, UNKNOWN_WEIGHT); space.len()];
        let mut anyone = Tried::new(space.len());
        for donor in &mapped {
            let weight = donor.known.len() as f32 / space.len() as f32;
            for &(at, slowdown) in &donor.known {
                sums[at].0 += weight * slowdown;
                sums[at].1 += weight;
                anyone.add(at);
            }
        }
        // Doublings beyond the first count less, as they do for times measured here.
        let squeeze = |mean: f32| if mean > 1.0 { 1.0 + SQUEEZED * (mean - 1.0) } else { mean };
        let slowdown: Vec<f32> = sums.iter().map(|(sum, weight)| squeeze(sum / weight)).collect();
        let mut agreed: Vec<usize> = (0..space.len()).filter(|at| anyone.has(*at)).collect();
        agreed.sort_by(|a, b| slowdown[*a].total_cmp(&slowdown[*b]).then(a.cmp(b)));
        agreed.truncate(RANKED);
        Some(Advice { slowdown, ranked: interleave(space, agreed, &mapped) })
    }
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
