//! What wisdom says of rivals on one problem: the most believable fact of each, and where processes died.

use crate::bans::is_over;
use crate::plan::Rival;
use rustc_hash::FxHashMap;
use trimtab_core::{
    Basis, Condition, Device, Estimate, FailureKind, KernelId, KernelInfo, Nanos, VariantClass,
};
use trimtab_wisdom::{CRASHES, Death, Fact, Outcome, Stats, Wisdom};

/// Conditions of facts in the order they are believed.
const CONDITIONS: [Condition; 3] = [Condition::Quiet, Condition::Busy, Condition::Live];
/// Conditions of facts that are not races: their times lift no failure.
const BESIDE: [Condition; 6] = [
    Condition::Live,
    Condition::Compile,
    Condition::Explored,
    Condition::Chosen,
    Condition::Drifted,
    Condition::Checked,
];

/// Facts of one problem by kernel, version and point.
type FactsByRival = FxHashMap<(String, String, String), Vec<Fact>>;

/// What wisdom knows of a device's rivals on one problem.
pub(crate) struct Remembered {
    now_ms: u64,
    facts: FactsByRival,
    deaths: FxHashMap<KernelId, Vec<Death>>,
}

impl Remembered {
    pub(crate) fn new(wisdom: &Wisdom, device: &dyn Device, problem: &str) -> Remembered {
        let fingerprint = &device.facts().fingerprint.0;
        let mut facts: FactsByRival = FxHashMap::default();
        for fact in wisdom.facts(fingerprint, problem) {
            let key = (fact.key.kernel.to_string(), fact.key.version.to_string(), fact.key.point.to_string());
            facts.entry(key).or_default().push(fact);
        }
        Remembered { facts, deaths: deaths(wisdom, device), now_ms: wisdom.now_ms() }
    }

    pub(crate) fn of(&self, rival: &Rival) -> &[Fact] {
        let key = (rival.name.to_string(), rival.version.to_string(), rival.point_name.clone());
        self.facts.get(&key).map_or(&[][..], Vec::as_slice)
    }

    pub(crate) fn believed(&self, rival: &Rival) -> Option<Believed<'_>> {
        believed(self.of(rival), Some(self.now_ms))
    }

    /// How a rival failed so long ago that it is tried again.
    pub(crate) fn forgiven(&self, rival: &Rival) -> Option<String> {
        let out = |now_ms| match believed(self.of(rival), now_ms) {
            Some(Err((kind, message))) => Some(format!("{}: {message}", kind.name())),
            _ => None,
        };
        out(None).filter(|_| out(Some(self.now_ms)).is_none())
    }

    /// Why so many processes died of a rival that it is out: at its point or, of a user's kernel, at any.
    pub(crate) fn crashed(&self, rival: &Rival) -> Option<String> {
        let deaths = self.deaths.get(&rival.kernel)?;
        let count = |any: bool| -> usize {
            let counted = deaths.iter().filter(|death| any || death.point == rival.point_name);
            counted.map(|death| death.count).sum()
        };
        let (here, all) = (count(false), count(true));
        let (died, what) = match rival.class {
            VariantClass::Custom if all > here => (all, "its kernel"),
            _ => (here, "it"),
        };
        let advice = format!("`trimtab wisdom forget --kernel {}` lifts this", rival.name);
        (died >= CRASHES).then(|| format!("{died} processes died while {what} ran; {advice}"))
    }
}

/// Where processes died on a device, by kernel as it is now.
fn deaths(wisdom: &Wisdom, device: &dyn Device) -> FxHashMap<KernelId, Vec<Death>> {
    let mut by_kernel: FxHashMap<KernelId, Vec<Death>> = FxHashMap::default();
    let now_ms = wisdom.now_ms();
    let counts = |death: &Death| {
        let its = death.device == device.facts().fingerprint.0;
        its && !is_over(FailureKind::Crashed, death.last_ms, now_ms)
    };
    for death in wisdom.deaths().into_iter().filter(counts) {
        let its = |info: &KernelInfo| info.name == death.kernel && *info.version.0 == *death.version;
        if let Some(at) = device.kernels().iter().position(its) {
            by_kernel.entry(KernelId(at as u32)).or_default().push(death);
        }
    }
    by_kernel
}

/// Rivals in the running at which a process died, which may have been an accident.
pub(crate) fn suspects(wisdom: &Wisdom, device: &dyn Device, rivals: &[Rival], at: u16) -> Vec<usize> {
    let deaths = deaths(wisdom, device);
    if deaths.is_empty() {
        return Vec::new();
    }
    let is_suspect = |rival: &Rival| {
        let mut its = deaths.get(&rival.kernel).into_iter().flatten();
        rival.device == at && rival.is_open() && its.any(|death| death.point == rival.point_name)
    };
    (0..rivals.len()).filter(|&index| is_suspect(&rivals[index])).collect()
}

/// A time with its energy, or how it failed.
pub(crate) type Believed<'a> = Result<(Estimate, Option<f64>), (FailureKind, &'a str)>;

/// The most believable fact: a time, or a failure that is as new as every time. Times of live calls do not lift a failure:
/// they are written down up to half a second later, that of the call that failed among them. With a time that is now, failures that
/// are long over do not count.
pub(crate) fn believed(facts: &[Fact], now_ms: Option<u64>) -> Option<Believed<'_>> {
    let over =
        |fact: &Fact, kind: FailureKind| now_ms.is_some_and(|now| is_over(kind, fact.last_seen_ms, now));
    let failed = |fact: &Fact| match fact.outcome {
        Outcome::Failed { kind, .. } => !is_suspect(fact) && !over(fact, kind),
        Outcome::Timed(_) => false,
    };
    let timed = |fact: &Fact| matches!(fact.outcome, Outcome::Timed(_)) && !is_beside(fact);
    let counts = |fact: &&Fact| failed(fact) || timed(fact);
    let newest = facts.iter().filter(counts).max_by_key(|fact| (fact.last_seen_ms, failed(fact)));
    if let Some(Fact { outcome: Outcome::Failed { kind, message }, .. }) = newest {
        return Some(Err((*kind, message)));
    }
    let timed = |condition: &Condition| {
        facts.iter().find_map(|fact| match &fact.outcome {
            Outcome::Timed(stats) if fact.key.condition == *condition => Some(stats),
            _ => None,
        })
    };
    let stats = CONDITIONS.iter().find_map(timed)?;
    Some(Ok((estimate_of(stats), stats.energy_uj)))
}

fn is_suspect(fact: &Fact) -> bool {
    fact.key.condition == Condition::Suspect
}

/// Whether another process saw a rival time out on this problem, and nobody timed it since.
pub(crate) fn timed_out_before(facts: &[Fact], rival: &Rival, origin: &str) -> bool {
    let its = |fact: &&Fact| {
        (&*fact.key.kernel, &*fact.key.version, &*fact.key.point)
            == (&*rival.name, &*rival.version.0, &*rival.point_name)
    };
    let is_late = |fact: &&Fact| matches!(fact.outcome, Outcome::Failed { kind: FailureKind::TimedOut, .. });
    let timed = facts.iter().filter(its).filter(|fact| fact.outcome.stats().is_some());
    let since = timed.map(|fact| fact.last_seen_ms).max().unwrap_or(0);
    let mut late = facts.iter().filter(its).filter(is_late);
    late.any(|fact| fact.origin != origin && fact.last_seen_ms > since)
}

pub(crate) fn is_beside(fact: &Fact) -> bool {
    BESIDE.contains(&fact.key.condition)
}

/// A measured estimate: the minimum, with the relative spread of the samples.
pub(crate) fn estimate_of(stats: &Stats) -> Estimate {
    let deviation = stats.variance().unwrap_or(0.0).max(0.0).sqrt();
    let relative = if stats.mean() > 0.0 { deviation / stats.mean() } else { 0.0 };
    Estimate {
        time: Nanos(stats.min_ns.max(1.0) as u64),
        spread_log2: (1.0 + relative).log2(),
        basis: Basis::Measured(u32::try_from(stats.n).unwrap_or(u32::MAX)),
    }
}

/// What a point did on a problem that puts it out on all.
pub(crate) fn mischief(kind: FailureKind, problem: &str, message: &str) -> String {
    let what = if kind == FailureKind::Crashed { "crashed" } else { "wrong result" };
    format!("{what} on {problem}: {message}")
}
