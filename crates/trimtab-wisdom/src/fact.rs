//! What is remembered: facts, verdicts, and the filter that names some of them. Plain data, no IO.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use trimtab_core::{Condition, FailureKind, Patience};

/// What a fact is about. Texts are compared byte by byte and never used as a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FactKey {
    /// Fingerprint of the device, driver included.
    pub device: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Version of the kernel's code or of the library behind it.
    pub version: String,
    /// The problem's text form.
    pub problem: String,
    /// The settings by axis name and value.
    pub point: String,
    /// How the fact was learned: what the machine was like, or which sort of call it was.
    pub condition: Condition,
}

/// Times of one key in a form that merges: two summaries add up to the summary of all samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// How many samples; at least 1.
    pub n: u64,
    /// Sum of the samples' times of one launch.
    pub sum_ns: f64,
    /// Sum of their squares.
    pub sum_sq_ns: f64,
    /// The shortest.
    pub min_ns: f64,
    /// Least energy of one launch in microjoules, where it could be read. The least, because what disturbs a
    /// reading only adds to it, and because a minimum merges without a count of its own.
    pub energy_uj: Option<f64>,
}

impl Stats {
    /// The summary of one sample.
    pub fn single(ns: f64) -> Stats {
        Stats { n: 1, sum_ns: ns, sum_sq_ns: ns * ns, min_ns: ns, energy_uj: None }
    }

    /// The summary of these samples; `None` without any.
    pub fn of(samples_ns: &[f64]) -> Option<Stats> {
        samples_ns.iter().map(|&ns| Stats::single(ns)).reduce(|all, one| all.merge(&one))
    }

    /// The mean time of one launch.
    pub fn mean(&self) -> f64 {
        self.sum_ns / self.n.max(1) as f64
    }

    /// The sample variance of that time; `None` with fewer than two samples.
    pub fn variance(&self) -> Option<f64> {
        let n = self.n as f64;
        (self.n > 1).then(|| ((self.sum_sq_ns - self.sum_ns * self.sum_ns / n) / (n - 1.0)).max(0.0))
    }

    /// The summary of both lots of samples.
    pub fn merge(&self, other: &Stats) -> Stats {
        Stats {
            n: self.n.saturating_add(other.n),
            sum_ns: self.sum_ns + other.sum_ns,
            sum_sq_ns: self.sum_sq_ns + other.sum_sq_ns,
            min_ns: self.min_ns.min(other.min_ns),
            energy_uj: match (self.energy_uj, other.energy_uj) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
        }
    }

    /// What they count after that many milliseconds beside newer ones: half as many samples after [`HALF_LIFE_MS`], the shortest
    /// as much nearer to the mean. Nothing once less than half a sample is left.
    pub(crate) fn aged(&self, age_ms: u64) -> Option<Stats> {
        let weight = (-(age_ms as f64) / HALF_LIFE_MS as f64).exp2();
        let n = (self.n as f64 * weight).round();
        if age_ms == 0 || n < 1.0 {
            return (age_ms == 0).then_some(*self);
        }
        let (mean, share) = (self.mean(), n / self.n.max(1) as f64);
        Some(Stats {
            n: n as u64,
            sum_ns: mean * n,
            sum_sq_ns: self.sum_sq_ns * share,
            min_ns: mean - (mean - self.min_ns) * weight,
            energy_uj: self.energy_uj,
        })
    }

    /// Why no measurement can have given these numbers.
    pub(crate) fn impossible(&self) -> Option<&'static str> {
        let numbers = [self.sum_ns, self.sum_sq_ns, self.min_ns, self.energy_uj.unwrap_or(0.0)];
        if self.n == 0 {
            Some("it holds no samples")
        } else if !numbers.iter().all(|number| number.is_finite() && *number >= 0.0) {
            Some("a time or an energy is negative or not a number")
        } else if self.min_ns > self.mean() * (1.0 + 1e-6) {
            Some("its shortest time is above its mean")
        } else {
            None
        }
    }
}

/// After so long beside newer ones, times count half: seven days.
pub const HALF_LIFE_MS: u64 = 7 * DAY_MS;
/// Times that one process adds up age by whole days.
pub(crate) const DAY_MS: u64 = 24 * 3600 * 1000;

/// Whether facts of that condition come from live calls: they age, and are kept in a smaller number.
pub(crate) fn is_live(condition: &str) -> bool {
    matches!(condition, "live" | "explored" | "chosen")
}

/// How a key's runs ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// They were timed.
    Timed(Stats),
    /// They failed; the point should not be tried again.
    Failed {
        /// Which way.
        kind: FailureKind,
        /// What was seen, with the numbers.
        message: String,
    },
}

impl Outcome {
    /// The times, if it was timed.
    pub fn stats(&self) -> Option<&Stats> {
        match self {
            Outcome::Timed(stats) => Some(stats),
            Outcome::Failed { .. } => None,
        }
    }
}

/// What one process, or several merged, saw of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// What it is about.
    pub key: FactKey,
    /// Which process saw it; `merged` if several did.
    pub origin: String,
    /// What was seen.
    pub outcome: Outcome,
    /// When it was last seen, in milliseconds since 1970.
    pub last_seen_ms: u64,
}

/// Where a kernel was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasuredOn {
    /// The device's fingerprint.
    pub device: String,
    /// The problem's text form.
    pub problem: String,
    /// The kernel's version.
    pub version: String,
}

/// The origin of a fact that several processes contributed to.
pub const MERGED: &str = "merged";

/// How far the measuring behind a verdict went, and what ended it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extent {
    /// The effort that was asked for; absent in lines of older versions where something ended it, and in those nobody can read.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "patience_by_name")]
    pub patience: Option<Patience>,
    /// Whether the budget ended it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Whether the machine was busy meanwhile.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub busy: bool,
    /// Milliseconds of the tuning session it was part of, where the budget ended it; zero within a call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub session_ms: u64,
    /// The strategy that searched settings, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<String>,
    /// The number of points that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evals: Option<u32>,
    /// The share of the roofline's speed that ended it, in millionths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good_enough_ppm: Option<u32>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

mod patience_by_name {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use trimtab_core::Patience;

    pub(super) fn serialize<S: Serializer>(patience: &Option<Patience>, to: S) -> Result<S::Ok, S::Error> {
        patience.map(Patience::name).serialize(to)
    }

    /// A name nobody knows is no patience: whoever asks measures again.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Patience>, D::Error> {
        Ok(Option::<String>::deserialize(from)?.and_then(|name| name.parse().ok()))
    }
}

impl Extent {
    /// Everything that effort asks for was measured.
    pub fn whole(patience: Patience) -> Extent {
        Extent { patience: Some(patience), ..Extent::default() }
    }

    /// Whether something else than having measured everything ended it.
    pub fn is_limited(&self) -> bool {
        self.strategy.is_some() || self.evals.is_some() || self.good_enough_ppm.is_some()
    }

    /// A share in millionths.
    pub fn ppm(share: f64) -> u32 {
        (share * 1e6).round() as u32
    }

    /// What the text says that versions before this one wrote in one field: a mode, `search:STRATEGY:EVALS:SHARE` with a dash for
    /// what there was not, or `partial:MS` with perhaps a strategy behind it.
    pub(crate) fn of_text(text: &str) -> Extent {
        let mut parts = text.split(':').map(|part| Some(part).filter(|part| *part != "-"));
        let kind = parts.next().flatten();
        let mut next = || parts.next().flatten();
        match kind {
            Some("search") => Extent {
                strategy: next().map(str::to_string),
                evals: next().and_then(|evals| evals.parse().ok()),
                good_enough_ppm: next().and_then(|share| share.parse().ok()).map(Extent::ppm),
                ..Extent::default()
            },
            Some("partial") => Extent {
                partial: true,
                session_ms: next().and_then(|ms| ms.parse().ok()).unwrap_or(0),
                strategy: next().map(str::to_string),
                ..Extent::default()
            },
            _ => Extent { patience: text.parse().ok(), ..Extent::default() },
        }
    }

    /// The text of a race that measured everything, as versions before this one read it; nothing for others.
    pub(crate) fn text(&self) -> Option<&'static str> {
        self.patience.filter(|patience| *self == Extent::whole(*patience)).map(Patience::name)
    }
}

/// The outcome of a race: who won a problem under some terms, near-ties included.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verdict {
    /// Fingerprints of the devices that took part.
    pub device: String,
    /// The problem's text form.
    pub problem: String,
    /// The terms' text form.
    pub terms: String,
    /// When it was decided; filled in by [`Wisdom::decide`](crate::Wisdom::decide).
    pub last_seen_ms: u64,
    /// Which process decided; filled in by [`Wisdom::decide`](crate::Wisdom::decide).
    pub origin: String,
    /// The winner's device, where the machine has several; its fingerprint.
    pub on: String,
    /// The winner.
    pub kernel: String,
    /// The winner's version.
    pub version: String,
    /// The winner's settings.
    pub point: String,
    /// How far measuring went.
    pub extent: Extent,
    /// Hash of the rivals that took part.
    pub candidates: u64,
}

/// Names a part of wisdom: everything that is given must match. An empty filter matches nothing unless `all` is set,
/// so that a forgotten argument never forgets everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Filter {
    /// The device's fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The kernel's name, in any version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The problem's text form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The start of the problem's text up to a `:` or `.`: `reduce` or `reduce.sum`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Match even if nothing else is given.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
}

impl Filter {
    /// Matches everything.
    pub fn everything() -> Filter {
        Filter { all: true, ..Filter::default() }
    }

    /// Matches one device.
    pub fn device(device: impl Into<String>) -> Filter {
        Filter { device: Some(device.into()), ..Filter::default() }
    }

    /// Matches one kernel in all its versions.
    pub fn kernel(kernel: impl Into<String>) -> Filter {
        Filter { kernel: Some(kernel.into()), ..Filter::default() }
    }

    /// Matches one problem.
    pub fn problem(problem: impl Into<String>) -> Filter {
        Filter { problem: Some(problem.into()), ..Filter::default() }
    }

    /// Matches one operation.
    pub fn operation(operation: impl Into<String>) -> Filter {
        Filter { operation: Some(operation.into()), ..Filter::default() }
    }

    /// Whether it matches what is known by these three; an intent has no problem, and a filter that asks for one
    /// does not match it.
    pub(crate) fn matches(&self, device: &str, kernel: &str, problem: Option<&str>) -> bool {
        let Filter { device: on, kernel: by, problem: of, operation, all } = self;
        let asks = *all || on.is_some() || by.is_some() || of.is_some() || operation.is_some();
        asks && on.as_ref().is_none_or(|wanted| wanted == device)
            && by.as_ref().is_none_or(|wanted| wanted == kernel)
            && of.as_ref().is_none_or(|wanted| problem == Some(wanted.as_str()))
            && operation.as_ref().is_none_or(|wanted| problem.is_some_and(|text| is_operation(text, wanted)))
    }
}

fn is_operation(problem: &str, operation: &str) -> bool {
    problem.strip_prefix(operation).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '.']))
}

/// The text cut to so many bytes at a character's boundary.
pub(crate) fn shortened(text: &str, bytes_max: usize) -> Cow<'_, str> {
    if text.len() <= bytes_max {
        return Cow::Borrowed(text);
    }
    let end = (0..=bytes_max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_summaries_add_up_to_the_summary_of_all_samples() {
        let merged = Stats::of(&[10.0, 14.0]).unwrap().merge(&Stats::of(&[12.0]).unwrap());
        assert_eq!(merged, Stats::of(&[10.0, 14.0, 12.0]).unwrap());
        assert_eq!((merged.mean(), merged.variance(), merged.min_ns), (12.0, Some(4.0), 10.0));
        assert_eq!(Stats::single(3.0).variance(), None);
        assert_eq!(Stats::of(&[]), None);
    }

    #[test]
    fn how_far_measuring_went_is_read_from_the_texts_of_versions_before() {
        let partial = |session_ms, strategy: Option<&str>| Extent {
            partial: true,
            session_ms,
            strategy: strategy.map(str::to_string),
            ..Extent::default()
        };
        let search = |strategy: Option<&str>, evals, good_enough_ppm| Extent {
            strategy: strategy.map(str::to_string),
            evals,
            good_enough_ppm,
            ..Extent::default()
        };
        for (text, extent) in [
            ("measure", Extent::whole(Patience::Measure)),
            ("exhaustive", Extent::whole(Patience::Exhaustive)),
            ("partial:35", partial(35, None)),
            ("partial:0", partial(0, None)),
            ("partial:1000:hill", partial(1000, Some("hill"))),
            ("search:hill:60:0.9", search(Some("hill"), Some(60), Some(900_000))),
            ("search:-:5:-", search(None, Some(5), None)),
            ("search:auto:-:-", search(Some("auto"), None, None)),
            ("nonsense", Extent::default()),
            ("", Extent::default()),
        ] {
            assert_eq!(Extent::of_text(text), extent, "{text}");
        }
    }

    #[test]
    fn a_week_halves_what_live_calls_count_and_a_fortnight_quarters_it() {
        let stats = Stats::of(&[80.0, 100.0, 120.0, 100.0].repeat(10)).unwrap();
        assert_eq!(stats.aged(0), Some(stats));
        let week = stats.aged(HALF_LIFE_MS).unwrap();
        assert_eq!((week.n, week.mean(), week.min_ns), (20, 100.0, 90.0));
        assert_eq!(stats.aged(2 * HALF_LIFE_MS).unwrap().n, 10);
        // Day by day is the same as at once, up to whole samples.
        let days = (0..7).try_fold(stats, |stats, _| stats.aged(DAY_MS)).unwrap();
        assert!(days.n.abs_diff(20) <= 1 && week.impossible().is_none() && days.impossible().is_none());
        assert_eq!(stats.aged(20 * HALF_LIFE_MS), None);
    }

    #[test]
    fn an_empty_filter_matches_nothing_and_an_operation_is_a_whole_word() {
        assert!(!Filter::default().matches("cpu", "k", Some("matmul:f32:1x1x1")));
        assert!(Filter::everything().matches("cpu", "k", None));
        let reduce = Filter::operation("reduce");
        assert!(reduce.matches("cpu", "k", Some("reduce.sum:f32:9")));
        assert!(!reduce.matches("cpu", "k", Some("reducer:f32:9")));
        assert!(!reduce.matches("cpu", "k", None));
        assert!(Filter::operation("reduce.sum").matches("cpu", "k", Some("reduce.sum:f32:9")));
        let both = Filter { kernel: Some("k".into()), ..Filter::device("gpu") };
        assert!(!both.matches("cpu", "k", None));
        assert!(both.matches("gpu", "k", None));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("ééé", 3), "é…");
        assert_eq!(shortened("abc", 3), "abc");
    }
}
