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
    /// Opens kernels that are less accurate than the element type allows, up to this. Without it none of them answers.
    pub tolerance: Option<Tolerance>,
}

/// How far an element of a product or a convolution may be off, as a share of the sizes of the terms that were added up for it:
/// `|found − exact| ≤ tolerance · Σ|aᵢ·bᵢ|`. Terms that cancel leave a small result with the error of large terms.
///
/// f32 has 1.2e-7 of a term; operands cut to bf16 7.8e-3. Compared and hashed by its bits.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance(pub f64);

impl PartialEq for Tolerance {
    fn eq(&self, other: &Tolerance) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}
impl Eq for Tolerance {}
impl Hash for Tolerance {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// Terms that say nothing, or the opposite of what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WrongTerms {
    /// Weights by which nothing is best.
    #[error(
        "the weights time {}, memory {}, energy {} do not say what is best; use numbers from 0 up, at least one of them above 0",
        .0.time, .0.memory, .0.energy
    )]
    Weights(Objective),
    /// A tolerance that no error keeps, or every error.
    #[error("a tolerance of {} says nothing; use a number above 0 and below 1, such as 1e-2", .0.0)]
    Tolerance(Tolerance),
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
        if work.error > 0.0 {
            // Rounded up: said again as a tolerance, it opens the kernel.
            let digits = 10f64.powi(1 - work.error.log10().floor() as i32);
            let least = (work.error * digits).ceil() / digits;
            let error = format!("may be off by {least:.1e} of what is added up");
            match self.tolerance {
                None => return Some(format!("{error}; a tolerance of that opens it")),
                Some(Tolerance(most)) if work.error > most => {
                    return Some(format!("{error}, tolerance {most:e}"));
                }
                Some(_) => (),
            }
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
/// them above 0: see [`Terms::check`].
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

impl Terms {
    /// Whether they say what is wanted: weights are numbers from 0 up, at least one of them above 0; a tolerance lies between 0 and 1.
    pub fn check(&self) -> Result<(), WrongTerms> {
        let weights = [self.objective.time, self.objective.memory, self.objective.energy];
        let usable = weights.iter().all(|weight| weight.is_finite() && *weight >= 0.0);
        if !usable || weights.iter().all(|weight| *weight == 0.0) {
            return Err(WrongTerms::Weights(self.objective));
        }
        match self.constraints.tolerance {
            Some(tolerance) if !(tolerance.0 > 0.0 && tolerance.0 < 1.0) => {
                Err(WrongTerms::Tolerance(tolerance))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Terms {
    /// Stable text, the key in wisdom; `default` when nothing is asked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let Constraints { memory_max, threads_max, latency_max, tolerance } = self.constraints;
        parts.extend(memory_max.map(|max| format!("memory<={}", max.0)));
        parts.extend(threads_max.map(|max| format!("threads<={max}")));
        parts.extend(latency_max.map(|max| format!("latency_ns<={}", max.0)));
        parts.extend(tolerance.map(|most| format!("tolerance<={:e}", most.0)));
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
            ..Constraints::default()
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
    fn a_tolerance_opens_what_keeps_it_and_nothing_else() {
        let rough = Work { error: 7.8e-3, ..Work::default() };
        let with = |most| Constraints { tolerance: Some(Tolerance(most)), ..Constraints::default() };
        let told = Constraints::default().excludes(&rough, None).unwrap();
        assert_eq!(told, "may be off by 7.8e-3 of what is added up; a tolerance of that opens it");
        let told = with(1e-3).excludes(&rough, None).unwrap();
        assert_eq!(told, "may be off by 7.8e-3 of what is added up, tolerance 1e-3");
        assert_eq!(with(1e-2).excludes(&rough, None), None);
        assert_eq!(with(1e-9).excludes(&Work::default(), None), None);
        let terms = |most| Terms { constraints: with(most), ..Terms::default() };
        for wrong in [0.0, -1e-3, 1.0, f64::NAN, f64::INFINITY] {
            let error = terms(wrong).check().unwrap_err().to_string();
            assert!(error.contains("above 0 and below 1"), "{error}");
        }
        assert_eq!(terms(1e-2).check(), Ok(()));
    }

    #[test]
    fn weights_are_the_same_if_their_bits_are() {
        let odd = Objective { energy: f64::NAN, ..Objective::default() };
        assert_eq!(odd, odd);
        assert_ne!(Objective { memory: -0.0, ..Objective::default() }, Objective::default());
    }

    #[test]
    fn weights_that_say_nothing_are_refused_in_words() {
        let of = |time, memory, energy| Terms {
            objective: Objective { time, memory, energy },
            ..Terms::default()
        };
        for right in [Terms::default(), of(0.0, 0.0, 1.0), of(0.5, 2.0, 0.0)] {
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
            constraints: Constraints {
                threads_max: Some(1),
                tolerance: Some(Tolerance(0.01)),
                ..Constraints::default()
            },
            objective: Objective { memory: 0.25, ..Objective::default() },
        };
        assert_eq!(terms.to_string(), "threads<=1,tolerance<=1e-2,weights=1/0.25/0");
    }
}
