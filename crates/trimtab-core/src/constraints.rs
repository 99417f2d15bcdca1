//! What the caller asks beside the problem: limits, weights, and how much effort planning may take.

use crate::{Bytes, Nanos, Work};
use std::fmt;
use std::hash::{Hash, Hasher};

/// Limits a plan must keep. They filter before anything is weighed and are part of the plan's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Constraints {
    /// Most scratch memory beside the operands.
    pub memory_max: Option<Bytes>,
    /// Most threads, the caller's included.
    pub threads_max: Option<u32>,
    /// Longest time a call may take; rivals expected to take longer are excluded, and a call with less time than a race
    /// may cost measures nothing.
    pub latency_max: Option<Nanos>,
}

impl Constraints {
    /// Why a rival doing this work in this expected time breaks a limit, or `None` if it keeps them all.
    pub fn excludes(&self, work: &Work, time: Option<Nanos>) -> Option<String> {
        if let Some(max) = self.memory_max.filter(|&max| work.scratch > max) {
            return Some(format!("needs {} of scratch memory, limit {max}", work.scratch));
        }
        if let Some(max) = self.threads_max.filter(|&max| work.threads > max) {
            return Some(format!("uses {} threads, limit {max}", work.threads));
        }
        match (self.latency_max, time) {
            (Some(max), Some(time)) if time > max => Some(format!("expected to take {time}, limit {max}")),
            _ => None,
        }
    }
}

/// What "best" means: a weighted sum of log2 quantities. The default is time alone.
///
/// A weight says how many doublings of time one doubling of that quantity is worth. Weights are numbers from 0 up, at least one of
/// them above 0: see [`Objective::check`].
#[derive(Clone, Copy, Debug)]
pub struct Objective {
    /// Weight of time.
    pub time: f64,
    /// Weight of scratch memory.
    pub memory: f64,
    /// Weight of energy. Where it cannot be read, the other weights decide; where those are zero, time does.
    pub energy: f64,
}

impl Default for Objective {
    fn default() -> Self {
        Objective { time: 1.0, memory: 0.0, energy: 0.0 }
    }
}

/// Weights that say nothing, or the opposite of what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error(
    "the weights time {}, memory {}, energy {} do not say what is best; use numbers from 0 up, at least one of them above 0",
    .0.time, .0.memory, .0.energy
)]
pub struct WrongWeights(pub Objective);

impl Eq for WrongWeights {}

impl Objective {
    /// The score in log2 units; smaller is better. Scores with and without energy do not compare.
    pub fn score(&self, time_ns: f64, scratch: Bytes, energy_uj: Option<f64>) -> f64 {
        // One page is the unit of memory, so that "no scratch" and "a few bytes" weigh the same.
        let pages = 1.0 + scratch.0 as f64 / 4096.0;
        let time = time_ns.max(1e-3).log2();
        let rest = self.time * time + self.memory * pages.log2();
        match energy_uj {
            Some(energy) => rest + self.energy * energy.max(1e-3).log2(),
            // Whoever asks for energy alone still wants something to be chosen, and the same each time.
            None if self.time == 0.0 && self.memory == 0.0 => self.energy * time,
            None => rest,
        }
    }

    /// Whether the weights say what is best: numbers from 0 up, at least one of them above 0.
    pub fn check(&self) -> Result<(), WrongWeights> {
        let weights = [self.time, self.memory, self.energy];
        let usable = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if usable && weights.iter().any(|weight| *weight > 0.0) { Ok(()) } else { Err(WrongWeights(*self)) }
    }

    fn bits(&self) -> [u64; 3] {
        [self.time, self.memory, self.energy].map(f64::to_bits)
    }
}

// Weights are compared and hashed by their bits: terms with the same weights, NaN too, share plans.
impl PartialEq for Objective {
    fn eq(&self, other: &Objective) -> bool {
        self.bits() == other.bits()
    }
}
impl Eq for Objective {}
impl Hash for Objective {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bits().hash(state);
    }
}

/// Constraints and objective together: the part of a plan's key beside the problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Terms {
    /// What a plan must keep.
    pub constraints: Constraints,
    /// What a plan should minimise.
    pub objective: Objective,
}

impl fmt::Display for Terms {
    /// Stable text, the key in wisdom; `default` when nothing is asked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let Constraints { memory_max, threads_max, latency_max } = self.constraints;
        parts.extend(memory_max.map(|max| format!("memory<={}", max.0)));
        parts.extend(threads_max.map(|max| format!("threads<={max}")));
        parts.extend(latency_max.map(|max| format!("latency_ns<={}", max.0)));
        if self.objective != Objective::default() {
            let Objective { time, memory, energy } = self.objective;
            parts.push(format!("weights={time}/{memory}/{energy}"));
        }
        f.write_str(if parts.is_empty() { "default".to_string() } else { parts.join(",") }.as_str())
    }
}

crate::named! {
    /// How much effort a new problem may cost, least first.
    #[derive(Default)]
    pub enum Patience {
        /// Nothing is measured or estimated anew: what is remembered, else the default. Reproducible.
        Off = "off",
        /// The model decides; nothing is measured.
        Estimate = "estimate",
        /// The model's leaders are raced within the budget.
        #[default]
        Measure = "measure",
        /// Every legal point of every kernel is raced within the budget.
        Exhaustive = "exhaustive",
    }
}

/// A word that names no patience.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tuning mode; use one of: off (also 0, false), estimate, measure, exhaustive")]
pub struct UnknownPatience(pub String);

impl std::str::FromStr for Patience {
    type Err = UnknownPatience;

    /// Case does not matter; `0` and `false` mean off.
    fn from_str(text: &str) -> Result<Patience, UnknownPatience> {
        let word = text.trim().to_ascii_lowercase();
        if matches!(word.as_str(), "0" | "false" | "no") {
            return Ok(Patience::Off);
        }
        Patience::ALL.into_iter().find(|level| level.name() == word).ok_or(UnknownPatience(text.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_has_many_spellings_and_a_wrong_word_lists_the_right_ones() {
        for word in ["off", "Off", "OFF", "0", "false", " False "] {
            assert_eq!(word.parse(), Ok(Patience::Off), "{word}");
        }
        assert_eq!("Exhaustive".parse(), Ok(Patience::Exhaustive));
        let error = "fast".parse::<Patience>().unwrap_err().to_string();
        assert!(error.contains("`fast`") && error.contains("estimate, measure, exhaustive"), "{error}");
    }

    #[test]
    fn constraints_say_which_limit_is_broken() {
        let limits = Constraints {
            memory_max: Some(Bytes(1024)),
            threads_max: Some(1),
            latency_max: Some(Nanos(1000)),
        };
        let work = Work { scratch: Bytes(2048), threads: 2, ..Work::default() };
        assert_eq!(limits.excludes(&work, None).unwrap(), "needs 2.00 KiB of scratch memory, limit 1.00 KiB");
        let work = Work { threads: 2, ..Work::default() };
        assert_eq!(limits.excludes(&work, None).unwrap(), "uses 2 threads, limit 1");
        let late = limits.excludes(&Work::default(), Some(Nanos(2000)));
        assert_eq!(late.unwrap(), "expected to take 2.00 µs, limit 1.00 µs");
        assert_eq!(limits.excludes(&Work::default(), Some(Nanos(1000))), None);
    }

    #[test]
    fn weights_are_the_same_if_their_bits_are() {
        let odd = Objective { energy: f64::NAN, ..Objective::default() };
        assert_eq!(odd, odd);
        assert_ne!(Objective { memory: -0.0, ..Objective::default() }, Objective::default());
    }

    #[test]
    fn weights_that_say_nothing_are_refused_in_words() {
        let of = |time, memory, energy| Objective { time, memory, energy };
        for right in [Objective::default(), of(0.0, 0.0, 1.0), of(0.5, 2.0, 0.0)] {
            assert_eq!(right.check(), Ok(()));
        }
        let nan = f64::NAN;
        for wrong in [of(-1.0, 0.0, 0.0), of(1.0, nan, 0.0), of(1.0, 0.0, f64::INFINITY), of(0.0, 0.0, 0.0)] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains("from 0 up") && error.contains("above 0"), "{error}");
        }
    }

    #[test]
    fn where_energy_cannot_be_read_the_rest_decides() {
        let (fast, slow) =
            (|of: Objective| of.score(1e3, Bytes(0), None), |of: Objective| of.score(1e6, Bytes(0), None));
        for of in [
            Objective { time: 0.0, memory: 0.0, energy: 1.0 },
            Objective { time: 0.5, memory: 0.5, energy: 1.0 },
        ] {
            assert!(fast(of) < slow(of), "{of:?}");
        }
    }

    #[test]
    fn terms_have_stable_text() {
        assert_eq!(Terms::default().to_string(), "default");
        let terms = Terms {
            constraints: Constraints { threads_max: Some(1), ..Constraints::default() },
            objective: Objective { memory: 0.25, ..Objective::default() },
        };
        assert_eq!(terms.to_string(), "threads<=1,weights=1/0.25/0");
    }
}
