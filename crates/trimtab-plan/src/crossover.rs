//! From which size on one device is faster than another, and how sure that is.

use std::fmt;
use trimtab_core::RandomNumbers;
use trimtab_model::{Profile, Rung};

/// Places looked at per step of a ladder.
const PLACES: f64 = 16.0;
/// Draws of the repeats a crossover's uncertainty is taken from, and where the generator starts.
const DRAWS: usize = 200;
const SEED: u64 = 0x7472_696d;
/// The share of draws outside the stated range, on each side.
const OUTSIDE: f64 = 0.05;

/// From which size on a device is faster than the processor.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum Crossover {
    /// From this size on; nine draws in ten say between `low` and `high`.
    At { size: u64, low: u64, high: u64 },
    /// Slower at every size tried, the largest of which this is.
    NeverUpTo(u64),
    /// Faster at every size tried.
    Always,
    /// Repeats disagree by more than a step of the ladder, or the devices take turns: nothing is concluded.
    Unstable { low: u64, high: u64 },
}

impl Crossover {
    /// One word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Crossover::At { .. } => "at",
            Crossover::NeverUpTo(_) => "never",
            Crossover::Always => "always",
            Crossover::Unstable { .. } => "unstable",
        }
    }
}

impl fmt::Display for Crossover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Crossover::At { size, low, high } => write!(f, "from {size} on ({low} to {high})"),
            Crossover::NeverUpTo(size) => write!(f, "never up to {size}"),
            Crossover::Always => f.write_str("at every size tried"),
            Crossover::Unstable { low, high } => {
                write!(f, "unstable ({low} to {high}), default kept")
            }
        }
    }
}

/// From which size on `other` is faster than `host`, by times of the same ladder whose sizes grow by `step`. `None` if they share no
/// size.
pub fn crossover(host: &[Rung], other: &[Rung], step: f64) -> Option<Crossover> {
    let shared: Vec<(&Rung, &Rung)> = host
        .iter()
        .filter_map(|host| Some((host, other.iter().find(|other| other.size == host.size)?)))
        .filter(|(host, other)| host.time().is_some() && other.time().is_some())
        .collect();
    let least = shared.iter().map(|(host, _)| host.size).min()?;
    let most = shared.iter().map(|(host, _)| host.size).max()?;
    let places = places(least, most, step);
    let (hosts, others): (Vec<Rung>, Vec<Rung>) =
        shared.iter().map(|&(host, other)| (host.clone(), other.clone())).unzip();
    let seen = crossing(&hosts, &others, &places, step)?;
    let mut dice = RandomNumbers::new(SEED);
    let mut drawn: Vec<f64> = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let (host, other) = (draw(&hosts, &mut dice), draw(&others, &mut dice));
        drawn.extend(crossing(&host, &other, &places, step).map(|crossing| crossing.0));
    }
    drawn.sort_by(f64::total_cmp);
    let quantile = |share: f64| drawn.get((drawn.len() as f64 * share) as usize).copied().unwrap_or(seen.0);
    let (low, high) = (quantile(OUTSIDE).min(seen.0), quantile(1.0 - OUTSIDE).max(seen.0));
    let within = |size: f64| (size.round() as u64).clamp(least, most);
    Some(match seen {
        _ if high > low * step => Crossover::Unstable { low: within(low), high: within(high) },
        (_, Some(first)) if seen.0 > first * step => {
            Crossover::Unstable { low: within(first), high: within(high) }
        }
        (size, _) if size > most as f64 => Crossover::NeverUpTo(most),
        (size, _) if size < least as f64 => Crossover::Always,
        (size, _) => {
            let size = size.ceil() as u64;
            Crossover::At { size, low: within(low).min(size), high: within(high).max(size) }
        }
    })
}

/// Sizes to look at, evenly spread in doublings.
fn places(least: u64, most: u64, step: f64) -> Vec<f64> {
    let (from, to) = ((least.max(1) as f64).log2(), (most.max(1) as f64).log2());
    let count = ((to - from) / step.log2() * PLACES).round().max(0.0) as usize;
    let at = |nth: usize| (from + (to - from) * nth as f64 / count.max(1) as f64).exp2();
    (0..=count).map(at).collect()
}

/// The size from which on the other device is faster at every larger one: a step below the least if at all, a step above the
/// greatest if at none. And the smallest size from which on it is faster for a while.
fn crossing(host: &[Rung], other: &[Rung], places: &[f64], step: f64) -> Option<(f64, Option<f64>)> {
    let (host, other) = (Profile::fit(host)?, Profile::fit(other)?);
    let gain = |size: f64| (host.at(size.round() as u64) / other.at(size.round() as u64)).log2();
    let gains: Vec<f64> = places.iter().map(|&size| gain(size)).collect();
    let (least, most) = (*places.first()?, *places.last()?);
    let first = gains.iter().position(|gain| *gain > 0.0).map(|nth| places[nth]);
    let size = match gains.iter().rposition(|gain| *gain <= 0.0) {
        None => least / step,
        Some(last) if last + 1 == places.len() => most * step,
        Some(last) => {
            let (mut low, mut high) = (places[last], places[last + 1]);
            while high - low > 1.0 && high > low * (1.0 + 1e-6) {
                let middle = (low * high).sqrt();
                if gain(middle) > 0.0 { high = middle } else { low = middle }
            }
            high
        }
    };
    Some((size, first))
}

/// The same ladder with as many repeats of each size, drawn from those that were made.
fn draw(steps: &[Rung], dice: &mut RandomNumbers) -> Vec<Rung> {
    let one = |step: &Rung| {
        let count = step.ns.len();
        let ns = (0..count).filter_map(|_| step.ns.get(dice.below(count)).copied()).collect();
        Rung { size: step.size, ns }
    };
    steps.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(start: f64, unit: f64, noise: f64, seed: u64) -> Vec<Rung> {
        let mut dice = RandomNumbers::new(seed);
        let sizes = (0..8).map(|nth| 1024u64 << (2 * nth));
        let mut time = |size: u64| (start + unit * size as f64) * (1.0 + noise * dice.normal().abs());
        sizes.map(|size| Rung { size, ns: (0..4).map(|_| time(size)).collect() }).collect()
    }

    #[test]
    fn two_lines_cross_where_they_are_equal() {
        let (host, other) = (ladder(100.0, 1.0, 0.0, 0), ladder(100_000.0, 0.1, 0.0, 0));
        let Some(Crossover::At { size, low, high }) = crossover(&host, &other, 4.0) else { unreachable!() };
        assert!((size as f64 / 111_000.0 - 1.0).abs() < 0.15, "{size}");
        assert!(low <= size && size <= high && high - low <= 2, "{low} {size} {high}");
        assert_eq!(crossover(&other, &host, 4.0).map(Crossover::name), Some("unstable"), "wins small only");
    }

    #[test]
    fn a_device_that_never_wins_is_said_to_which_size() {
        let (host, slow) = (ladder(100.0, 1.0, 0.01, 1), ladder(30_000.0, 2.0, 0.01, 2));
        assert_eq!(crossover(&host, &slow, 4.0), Some(Crossover::NeverUpTo(1024 << 14)));
        assert_eq!(crossover(&slow, &host, 4.0), Some(Crossover::Always));
        assert_eq!(crossover(&slow[..2], &host[3..], 4.0), None);
    }

    #[test]
    fn what_repeats_do_not_agree_on_is_unstable() {
        let (host, other) = (ladder(1_000.0, 1.0, 0.8, 3), ladder(1_500.0, 1.0, 0.8, 4));
        let found = crossover(&host, &other, 4.0).map(Crossover::name);
        assert_eq!(found, Some("unstable"));
    }
}
