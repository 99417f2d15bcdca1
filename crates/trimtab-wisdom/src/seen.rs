//! What one origin saw of a key, and what all of them did.

use crate::fact::{Outcome, Stats};
use crate::names::Name;

/// What one origin saw.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub origin: Name,
    pub at_ms: u64,
    pub outcome: Outcome,
}

/// What all origins saw of a key. Most keys have one, which then needs no memory of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SeenBy {
    One(Seen),
    Many(Vec<Seen>),
}

impl SeenBy {
    pub fn as_slice(&self) -> &[Seen] {
        match self {
            SeenBy::One(seen) => std::slice::from_ref(seen),
            SeenBy::Many(seen) => seen,
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [Seen] {
        match self {
            SeenBy::One(seen) => std::slice::from_mut(seen),
            SeenBy::Many(seen) => seen,
        }
    }

    pub fn push(&mut self, seen: Seen) {
        match self {
            SeenBy::One(only) => *self = SeenBy::Many(vec![only.clone(), seen]),
            SeenBy::Many(all) => all.push(seen),
        }
    }

    /// Keeps those and says how many there are; the last is not removed.
    pub fn retain(&mut self, mut keep: impl FnMut(&Seen) -> bool) -> usize {
        match self {
            SeenBy::One(seen) => usize::from(keep(seen)),
            SeenBy::Many(all) => {
                all.retain(keep);
                all.len()
            }
        }
    }
}

impl Seen {
    /// A total order in which the newest is greatest; within one millisecond a failure, then the larger sample.
    pub fn rank(&self) -> (u64, bool, u64, [u64; 4], &str) {
        match &self.outcome {
            Outcome::Timed(Stats { n, sum_ns, sum_sq_ns, min_ns, energy_uj }) => {
                let bits = [*sum_ns, *sum_sq_ns, *min_ns, energy_uj.unwrap_or(0.0)].map(f64::to_bits);
                (self.at_ms, false, *n, bits, "")
            }
            Outcome::Failed { kind, message } => (self.at_ms, true, *kind as u64, [0; 4], message),
        }
    }
}
