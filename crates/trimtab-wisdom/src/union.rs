//! The union of everything read and recorded: a merge that is commutative, associative and idempotent. No IO, no clock.
//!
//! Per (key, origin) the newest fact counts, per key the newest [`MAX_ORIGINS`] origins, per race the newest verdict,
//! and whatever a forget line covers does not count. A forget line looks only at keys and times, so it covers the
//! older facts of a key whenever it covers a newer one: that is why cutting to eight origins commutes with it.

use crate::fact::{DAY_MS, Fact, FactKey, Filter, MERGED, MeasuredOn, Outcome, Stats, Verdict, is_live};
use crate::line::{Forget, Intent, Line};
use crate::wall::MAX_MS;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use trimtab_core::Condition;

/// The most origins whose facts count for one key.
pub const MAX_ORIGINS: usize = 8;
/// The most facts, counted per key and origin; the oldest go first.
pub const MAX_FACTS: usize = 200_000;
/// The most of them that come from live calls; the oldest go first, so that they never push out what was raced.
pub const MAX_LIVE_FACTS: usize = 50_000;
/// The most verdicts; the oldest go first.
pub const MAX_VERDICTS: usize = 50_000;
/// The most intents, discharged ones included; those go first.
pub const MAX_INTENTS: usize = 4096;
/// The most forget lines; the oldest go first.
pub const MAX_FORGETS: usize = 256;

/// A key within its device and problem.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    kernel: String,
    version: String,
    point: String,
    condition: Condition,
}

/// What one origin saw.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    origin: String,
    at_ms: u64,
    outcome: Outcome,
}

impl Seen {
    /// A total order in which the newest is greatest; within one millisecond a failure, then the larger sample.
    fn rank(&self) -> (u64, bool, u64, [u64; 4], &str) {
        match &self.outcome {
            Outcome::Timed(Stats { n, sum_ns, sum_sq_ns, min_ns, energy_uj }) => {
                let bits = [*sum_ns, *sum_sq_ns, *min_ns, energy_uj.unwrap_or(0.0)].map(f64::to_bits);
                (self.at_ms, false, *n, bits, "")
            }
            Outcome::Failed { kind, message } => (self.at_ms, true, *kind as u64, [0; 4], message),
        }
    }
}

type Slots = BTreeMap<Slot, Vec<Seen>>;
type IntentKey = (String, String, String, String, String);

/// What taking a line in changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Its key was not known.
    New,
    /// Its key was known and now says something else.
    Updated,
    /// Nothing new was learned.
    Unchanged,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Union {
    /// By device, then problem, then the rest of the key; ordered, so that every answer has a fixed order.
    facts: BTreeMap<String, BTreeMap<String, Slots>>,
    /// Facts counted per key and origin.
    entries: usize,
    /// Those of them that come from live calls.
    live: usize,
    /// By race, then winner: forgetting one kernel must not depend on whether another's verdict came before it.
    verdicts: BTreeMap<(String, String, String), BTreeMap<String, Verdict>>,
    verdict_count: usize,
    /// By origin, device, kernel, version, point: when, and whether it is discharged.
    intents: BTreeMap<IntentKey, (u64, bool)>,
    forgets: BTreeMap<Filter, u64>,
}

impl Union {
    /// Takes a line in.
    pub fn insert(&mut self, line: Line) -> Change {
        match line {
            Line::Fact(fact) => self.insert_fact(fact),
            Line::Verdict(verdict) => self.insert_verdict(verdict),
            Line::Intent(intent) => self.insert_intent(intent),
            Line::Forget(forget) => self.insert_forget(forget),
        }
    }

    fn insert_fact(&mut self, fact: Fact) -> Change {
        let Fact { key, origin, outcome, last_seen_ms: at_ms } = fact;
        if at_ms <= self.forgotten_until(&key.device, &key.kernel, Some(&key.problem)) {
            return Change::Unchanged;
        }
        let FactKey { device, kernel, version, problem, point, condition } = key;
        let live = is_live(&condition);
        let problems = self.facts.entry(device).or_default();
        let seen_by = problems.entry(problem).or_default();
        let seen_by = seen_by.entry(Slot { kernel, version, point, condition }).or_default();
        let seen = Seen { origin, at_ms, outcome };
        let change = if seen_by.is_empty() { Change::New } else { Change::Updated };
        let has_room = seen_by.len() < MAX_ORIGINS;
        match seen_by.iter_mut().find(|old| old.origin == seen.origin) {
            Some(old) if old.rank() >= seen.rank() => return Change::Unchanged,
            Some(old) => *old = seen,
            None if has_room => {
                seen_by.push(seen);
                self.entries += 1;
                self.live += usize::from(live);
            }
            None => {
                // The list is full: the oldest of the nine goes.
                let age = |seen: &Seen| (seen.at_ms, seen.origin.clone());
                match seen_by.iter_mut().min_by_key(|old| age(old)) {
                    Some(oldest) if age(oldest) < age(&seen) => *oldest = seen,
                    _ => return Change::Unchanged,
                }
            }
        }
        // One order whatever the order of arrival: the sums below are then the same to the last bit.
        seen_by.sort_by(|a, b| a.origin.cmp(&b.origin));
        change
    }

    fn insert_verdict(&mut self, verdict: Verdict) -> Change {
        let until = self.forgotten_until(&verdict.device, &verdict.kernel, Some(&verdict.problem));
        if verdict.last_seen_ms <= until {
            return Change::Unchanged;
        }
        let key = (verdict.device.clone(), verdict.problem.clone(), verdict.terms.clone());
        let winners = self.verdicts.entry(key).or_default();
        let change = if winners.is_empty() { Change::New } else { Change::Updated };
        match winners.entry(verdict.kernel.clone()) {
            Entry::Vacant(place) => {
                place.insert(verdict);
                self.verdict_count += 1;
                change
            }
            // The derived order starts with the key, then time, then origin: the newest is the greatest.
            Entry::Occupied(mut place) if *place.get() < verdict => {
                place.insert(verdict);
                Change::Updated
            }
            Entry::Occupied(_) => Change::Unchanged,
        }
    }

    fn insert_intent(&mut self, intent: Intent) -> Change {
        let Intent { device, kernel, version, point, origin, at_ms, done } = intent;
        if at_ms <= self.forgotten_until(&device, &kernel, None) {
            return Change::Unchanged;
        }
        match self.intents.entry((origin, device, kernel, version, point)) {
            Entry::Vacant(place) => {
                place.insert((at_ms, done));
                Change::New
            }
            // At the same time "done" is greater than "intended".
            Entry::Occupied(mut place) if *place.get() < (at_ms, done) => {
                place.insert((at_ms, done));
                Change::Updated
            }
            Entry::Occupied(_) => Change::Unchanged,
        }
    }

    fn insert_forget(&mut self, forget: Forget) -> Change {
        let Forget { filter, before_ms } = forget;
        let covers_all = filter == Filter::everything();
        if self.forgets.get(&filter).is_some_and(|&known| known >= before_ms)
            || self.forgets.get(&Filter::everything()).is_some_and(|&known| known >= before_ms)
        {
            return Change::Unchanged;
        }
        if covers_all {
            self.forgets.retain(|_, known| *known > before_ms);
        }
        let hides = |device: &str, kernel: &str, problem: Option<&str>, at_ms: u64| {
            at_ms <= before_ms && filter.matches(device, kernel, problem)
        };
        self.retain_facts(|device, problem, slot, seen| {
            !hides(device, &slot.kernel, Some(problem), seen.at_ms)
        });
        self.retain_verdicts(|old| !hides(&old.device, &old.kernel, Some(&old.problem), old.last_seen_ms));
        self.intents.retain(|(_, device, kernel, ..), (at_ms, _)| !hides(device, kernel, None, *at_ms));
        self.forgets.insert(filter, before_ms);
        while self.forgets.len() > MAX_FORGETS {
            let Some(oldest) =
                self.forgets.iter().min_by_key(|(_, at)| **at).map(|(filter, _)| filter.clone())
            else {
                break;
            };
            self.forgets.remove(&oldest);
        }
        Change::New
    }

    fn retain_facts(&mut self, mut keep: impl FnMut(&str, &str, &Slot, &Seen) -> bool) {
        let (mut entries, mut live) = (0, 0);
        self.facts.retain(|device, problems| {
            problems.retain(|problem, slots| {
                slots.retain(|slot, seen_by| {
                    seen_by.retain(|seen| keep(device, problem, slot, seen));
                    entries += seen_by.len();
                    live += if is_live(&slot.condition) { seen_by.len() } else { 0 };
                    !seen_by.is_empty()
                });
                !slots.is_empty()
            });
            !problems.is_empty()
        });
        (self.entries, self.live) = (entries, live);
    }

    fn retain_verdicts(&mut self, mut keep: impl FnMut(&Verdict) -> bool) {
        self.verdicts.retain(|_, winners| {
            winners.retain(|_, verdict| keep(verdict));
            !winners.is_empty()
        });
        self.verdict_count = self.verdicts.values().map(BTreeMap::len).sum();
    }

    /// Until when what is known by these three was forgotten; lines up to then do not count.
    pub fn forgotten_until(&self, device: &str, kernel: &str, problem: Option<&str>) -> u64 {
        let matching = self.forgets.iter().filter(|(filter, _)| filter.matches(device, kernel, problem));
        // No line has time 0, so 0 forgets nothing.
        matching.map(|(_, before_ms)| *before_ms).max().unwrap_or(0)
    }

    /// What this origin saw of a key.
    pub fn seen(&self, key: &FactKey, origin: &str) -> Option<Fact> {
        let seen = self.seen_by(key).iter().find(|seen| seen.origin == origin)?;
        let (outcome, last_seen_ms) = (seen.outcome.clone(), seen.at_ms);
        Some(Fact { key: key.clone(), origin: origin.to_string(), outcome, last_seen_ms })
    }

    /// The newest time of a key among the other origins.
    pub fn newest_of_others(&self, key: &FactKey, origin: &str) -> Option<u64> {
        self.seen_by(key).iter().filter(|seen| seen.origin != origin).map(|seen| seen.at_ms).max()
    }

    fn seen_by(&self, key: &FactKey) -> &[Seen] {
        let slot = Slot {
            kernel: key.kernel.clone(),
            version: key.version.clone(),
            point: key.point.clone(),
            condition: key.condition.clone(),
        };
        let slots = self.facts.get(&key.device).and_then(|problems| problems.get(&key.problem));
        slots.and_then(|slots| slots.get(&slot)).map_or(&[], Vec::as_slice)
    }

    /// The merged facts of a device and a problem.
    pub fn facts(&self, device: &str, problem: &str) -> Vec<Fact> {
        let slots = self.facts.get(device).and_then(|problems| problems.get(problem));
        slots.into_iter().flatten().map(|(slot, seen_by)| merged(device, problem, slot, seen_by)).collect()
    }

    /// The merged facts of a device.
    pub fn device_facts(&self, device: &str) -> Vec<Fact> {
        let problems = self.facts.get(device).into_iter().flatten();
        problems
            .flat_map(|(problem, slots)| {
                slots.iter().map(move |(slot, seen)| merged(device, problem, slot, seen))
            })
            .collect()
    }

    /// The devices, problems and versions a kernel was measured on. Looks at the kernel's own facts only.
    pub fn places(&self, kernel: &str) -> Vec<MeasuredOn> {
        // Slots are ordered by kernel, then version.
        let first = || Slot {
            kernel: kernel.to_string(),
            version: String::new(),
            point: String::new(),
            condition: Condition::default(),
        };
        let mut places: Vec<MeasuredOn> = Vec::new();
        for (device, problems) in &self.facts {
            for (problem, slots) in problems {
                let mut last: Option<&str> = None;
                for slot in slots.range(first()..).map(|(slot, _)| slot).take_while(|s| s.kernel == kernel) {
                    if last != Some(&slot.version) {
                        last = Some(&slot.version);
                        let (device, problem) = (device.clone(), problem.clone());
                        places.push(MeasuredOn { device, problem, version: slot.version.clone() });
                    }
                }
            }
        }
        places
    }

    /// All merged facts.
    pub fn all_facts(&self) -> Vec<Fact> {
        self.facts.keys().flat_map(|device| self.device_facts(device)).collect()
    }

    /// The number of merged facts.
    pub fn len(&self) -> usize {
        self.facts.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum()
    }

    pub fn verdict(&self, device: &str, problem: &str, terms: &str) -> Option<&Verdict> {
        let winners = self.verdicts.get(&(device.to_string(), problem.to_string(), terms.to_string()))?;
        winners.values().max()
    }

    /// The verdict that counts of every race.
    pub fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.values().filter_map(|winners| winners.values().max())
    }

    /// The verdicts for every kernel that ever won, for writing them out again.
    pub fn unmerged_verdicts(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.values().flat_map(BTreeMap::values)
    }

    /// The state of an intent: when, and whether it is discharged.
    pub fn intent(&self, key: &IntentKey) -> Option<(u64, bool)> {
        self.intents.get(key).copied()
    }

    /// The number of intents, discharged or not.
    pub fn intent_count(&self) -> usize {
        self.intents.len()
    }

    /// Every intent, discharged or not.
    pub fn intents(&self) -> impl Iterator<Item = Intent> {
        self.intents.iter().map(|((origin, device, kernel, version, point), &(at_ms, done))| Intent {
            device: device.clone(),
            kernel: kernel.clone(),
            version: version.clone(),
            point: point.clone(),
            origin: origin.clone(),
            at_ms,
            done,
        })
    }

    pub fn forgets(&self) -> impl Iterator<Item = Forget> {
        self.forgets.iter().map(|(filter, &before_ms)| Forget { filter: filter.clone(), before_ms })
    }

    /// When this filter forgot last.
    pub fn forget(&self, filter: &Filter) -> Option<u64> {
        self.forgets.get(filter).copied()
    }

    /// Facts of every origin, for writing them out again.
    pub fn unmerged(&self) -> impl Iterator<Item = Fact> {
        self.facts.iter().flat_map(|(device, problems)| {
            problems.iter().flat_map(move |(problem, slots)| {
                slots.iter().flat_map(move |(slot, seen_by)| {
                    seen_by.iter().map(move |seen| Fact {
                        key: key_of(device, problem, slot),
                        origin: seen.origin.clone(),
                        outcome: seen.outcome.clone(),
                        last_seen_ms: seen.at_ms,
                    })
                })
            })
        })
    }

    /// How much the filter matches, and the newest time of it.
    pub fn matching(&self, filter: &Filter) -> (usize, u64) {
        let mut newest = 0;
        let mut count = 0;
        for (device, problems) in &self.facts {
            for (problem, slots) in problems {
                for (slot, seen_by) in slots {
                    if filter.matches(device, &slot.kernel, Some(problem)) {
                        count += 1;
                        newest = seen_by.iter().map(|seen| seen.at_ms).fold(newest, u64::max);
                    }
                }
            }
        }
        for old in self.unmerged_verdicts() {
            if filter.matches(&old.device, &old.kernel, Some(&old.problem)) {
                count += 1;
                newest = newest.max(old.last_seen_ms);
            }
        }
        for ((_, device, kernel, ..), &(at_ms, done)) in &self.intents {
            if filter.matches(device, kernel, None) {
                count += usize::from(!done);
                newest = newest.max(at_ms);
            }
        }
        (count, newest)
    }

    /// The part about one device and problem, with everything that was forgotten: enough to try an import on.
    pub fn part(&self, device: &str, problem: &str) -> Union {
        let mut part = Union { forgets: self.forgets.clone(), ..Union::default() };
        if let Some(slots) = self.facts.get(device).and_then(|problems| problems.get(problem)) {
            part.entries = slots.values().map(Vec::len).sum();
            let live = slots.iter().filter(|(slot, _)| is_live(&slot.condition));
            part.live = live.map(|(_, seen_by)| seen_by.len()).sum();
            let problems = BTreeMap::from([(problem.to_string(), slots.clone())]);
            part.facts.insert(device.to_string(), problems);
        }
        part
    }

    /// Drops the oldest facts from live calls above their bound, a tenth more than must go.
    pub fn trim_live(&mut self, live_max: usize) {
        if self.live <= live_max {
            return;
        }
        let slots = self.facts.values().flat_map(BTreeMap::values).flatten();
        let live = slots.filter(|(slot, _)| is_live(&slot.condition));
        let mut times: Vec<u64> = live.flat_map(|(_, seen_by)| seen_by).map(|seen| seen.at_ms).collect();
        let excess = (self.live - live_max + live_max / 10).min(times.len()).saturating_sub(1);
        let cut = *times.select_nth_unstable(excess).1;
        self.retain_facts(|_, _, slot, seen| !is_live(&slot.condition) || seen.at_ms > cut);
    }

    /// The number of facts from live calls, counted per key and origin.
    pub fn live_entries(&self) -> usize {
        self.live
    }

    /// Drops the oldest above the bounds and says how many facts and verdicts that were.
    pub fn trim(&mut self, facts_max: usize) -> usize {
        let mut dropped = 0;
        if self.entries > facts_max {
            let mut times: Vec<u64> = self.unmerged_times().collect();
            // A tenth more goes than must, so that the next fact does not start this again.
            let excess = (self.entries - facts_max + facts_max / 10).min(times.len()).saturating_sub(1);
            let (_, cut, _) = times.select_nth_unstable(excess);
            let cut = *cut;
            let before = self.entries;
            let mut at_cut = excess + 1 - times.iter().filter(|&&time| time < cut).count().min(excess + 1);
            self.retain_facts(|_, _, _, seen| {
                let goes = seen.at_ms < cut || (seen.at_ms == cut && at_cut > 0);
                at_cut -= usize::from(goes && seen.at_ms == cut);
                !goes
            });
            dropped += before - self.entries;
        }
        if self.verdict_count > MAX_VERDICTS {
            let mut times: Vec<u64> = self.unmerged_verdicts().map(|verdict| verdict.last_seen_ms).collect();
            let excess = self.verdict_count - MAX_VERDICTS + MAX_VERDICTS / 10;
            let (_, cut, _) = times.select_nth_unstable(excess);
            let cut = *cut;
            let before = self.verdict_count;
            self.retain_verdicts(|verdict| verdict.last_seen_ms > cut);
            dropped += before - self.verdict_count;
        }
        if self.intents.len() > MAX_INTENTS {
            let mut order: Vec<_> =
                self.intents.iter().map(|(key, &(at, done))| (!done, at, key.clone())).collect();
            order.sort();
            let excess = self.intents.len() - MAX_INTENTS + MAX_INTENTS / 10;
            for (_, _, key) in order.into_iter().take(excess) {
                self.intents.remove(&key);
            }
        }
        dropped
    }

    fn unmerged_times(&self) -> impl Iterator<Item = u64> {
        self.facts
            .values()
            .flat_map(BTreeMap::values)
            .flat_map(BTreeMap::values)
            .flatten()
            .map(|seen| seen.at_ms)
    }

    /// The number of facts, counted per key and origin.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The number of verdicts, counted per race and winner.
    pub fn verdict_count(&self) -> usize {
        self.verdict_count
    }

    /// Forgets which intents were discharged before that time: they only shadow lines that are gone.
    pub fn drop_done_before(&mut self, at_ms: u64) {
        self.intents.retain(|_, &mut (at, done)| !done || at >= at_ms);
    }
}

fn key_of(device: &str, problem: &str, slot: &Slot) -> FactKey {
    let Slot { kernel, version, point, condition } = slot.clone();
    FactKey { device: device.to_string(), kernel, version, problem: problem.to_string(), point, condition }
}

/// One fact of what several origins saw: a failure that is the newest, else all their times together.
fn merged(device: &str, problem: &str, slot: &Slot, seen_by: &[Seen]) -> Fact {
    let last_seen_ms = seen_by.iter().map(|seen| seen.at_ms).max().unwrap_or(0);
    let newest = seen_by.iter().max_by(|a, b| (a.rank(), &a.origin).cmp(&(b.rank(), &b.origin)));
    // Against the newest, not against the clock: the same facts are the same for ever.
    let age = |seen: &Seen| match last_seen_ms - seen.at_ms {
        // Races of one day are one measurement.
        age if is_live(&slot.condition) || age >= DAY_MS => age,
        _ => 0,
    };
    let times = || seen_by.iter().filter_map(|seen| seen.outcome.stats()?.aged(age(seen)));
    let outcome = match newest.map(|seen| &seen.outcome) {
        Some(failed @ Outcome::Failed { .. }) => failed.clone(),
        _ => Outcome::Timed(times().reduce(|all, one| all.merge(&one)).unwrap_or(Stats {
            n: 0,
            sum_ns: 0.0,
            sum_sq_ns: 0.0,
            min_ns: 0.0,
            energy_uj: None,
        })),
    };
    let origin = match seen_by {
        [only] => only.origin.clone(),
        _ => MERGED.to_string(),
    };
    Fact { key: key_of(device, problem, slot), origin, outcome, last_seen_ms }
}

/// The time just after, staying within what a line may say.
pub(crate) fn just_after(at_ms: u64) -> u64 {
    at_ms.saturating_add(1).min(MAX_MS)
}

#[cfg(test)]
mod tests;
