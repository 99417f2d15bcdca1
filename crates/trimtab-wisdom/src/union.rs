//! The union of everything read and recorded: a merge that is commutative, associative and idempotent. No IO, no clock.
//!
//! Per (key, origin) the newest fact counts, per key the newest [`MAX_ORIGINS`] origins, per race the newest verdict,
//! and whatever a forget line covers does not count. A forget line looks only at keys and times, so it covers the
//! older facts of a key whenever it covers a newer one: that is why cutting to eight origins commutes with it.

use crate::fact::{DAY_MS, Fact, FactKey, Filter, MERGED, MeasuredOn, Outcome, Stats, Verdict, is_live};
use crate::line::{FactLine, Forget, Intent, Line};
use crate::names::{Name, Names};
use crate::seen::{Seen, SeenBy};
use crate::verdicts::{Verdicts, WonRace};
use crate::wall::MAX_MS;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use trimtab_core::Condition;

mod read;

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

/// A fact's key: numbers instead of texts, so that a fact takes about 200 bytes however long its names are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NamedKey {
    device: Name,
    problem: Name,
    kernel: Name,
    version: Name,
    point: Name,
    condition: Name,
}

impl NamedKey {
    fn names(&self) -> [Name; 6] {
        [self.device, self.problem, self.kernel, self.version, self.point, self.condition]
    }
}

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
#[derive(Clone, Debug, Default)]
pub(crate) struct Union {
    names: Names,
    /// Facts of a device are next to each other, and so are those of a problem on it.
    facts: BTreeMap<NamedKey, SeenBy>,
    /// Facts counted per key and origin.
    entries: usize,
    /// Those of them that come from live calls.
    live: usize,
    verdicts: Verdicts,
    /// By origin, device, kernel, version, point: when, and whether it is discharged.
    intents: BTreeMap<IntentKey, (u64, bool)>,
    forgets: BTreeMap<Filter, u64>,
}

impl Union {
    /// Takes a line in.
    pub fn insert(&mut self, line: Line) -> Change {
        match line {
            Line::Fact(fact) => self.insert_fact(FactLine::of(&fact), fact.outcome.clone()),
            Line::Verdict(verdict) => self.insert_verdict(verdict),
            Line::Intent(intent) => self.insert_intent(intent),
            Line::Forget(forget) => self.insert_forget(forget),
        }
    }

    /// Takes a fact in that may still be text.
    pub fn insert_fact(&mut self, line: FactLine<'_>, outcome: Outcome) -> Change {
        let FactLine { device, kernel, version, problem, point, condition, origin, at_ms } = line;
        if at_ms <= self.forgotten_until(device, kernel, Some(problem)) {
            return Change::Unchanged;
        }
        let texts = [device, problem, kernel, version, point, condition, origin];
        let [device, problem, kernel, version, point, condition, origin] =
            texts.map(|text| self.names.name(text));
        let key = NamedKey { device, problem, kernel, version, point, condition };
        self.insert_named(key, Seen { origin, at_ms, outcome })
    }

    fn insert_named(&mut self, key: NamedKey, seen: Seen) -> Change {
        let (names, condition, origin) = (&self.names, key.condition, seen.origin);
        let mut place = match self.facts.entry(key) {
            Entry::Occupied(place) => place,
            Entry::Vacant(place) => {
                place.insert(SeenBy::One(seen));
                self.entries += 1;
                self.live += usize::from(is_live(names.text(condition)));
                return Change::New;
            }
        };
        let seen_by = place.get_mut();
        let has_room = seen_by.as_slice().len() < MAX_ORIGINS;
        match seen_by.as_mut_slice().iter_mut().find(|old| old.origin == origin) {
            Some(old) if old.rank() >= seen.rank() => return Change::Unchanged,
            Some(old) => *old = seen,
            None if has_room => {
                seen_by.push(seen);
                self.entries += 1;
                self.live += usize::from(is_live(names.text(condition)));
            }
            None => {
                // The list is full: the oldest of the nine goes.
                let age = |seen: &Seen| (seen.at_ms, names.text(seen.origin).to_string());
                match seen_by.as_mut_slice().iter_mut().min_by_key(|old| age(old)) {
                    Some(oldest) if age(oldest) < age(&seen) => *oldest = seen,
                    _ => return Change::Unchanged,
                }
            }
        }
        // One order whatever the order of arrival: the sums below are then the same to the last bit.
        seen_by.as_mut_slice().sort_by(|a, b| names.text(a.origin).cmp(names.text(b.origin)));
        Change::Updated
    }

    fn insert_verdict(&mut self, verdict: Verdict) -> Change {
        let until = self.forgotten_until(&verdict.device, &verdict.kernel, Some(&verdict.problem));
        if verdict.last_seen_ms <= until {
            return Change::Unchanged;
        }
        self.verdicts.insert(&mut self.names, verdict)
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
        self.retain_facts(|names, key, seen| {
            let [device, problem, kernel] =
                [key.device, key.problem, key.kernel].map(|name| names.text(name));
            !hides(device, kernel, Some(problem), seen.at_ms)
        });
        self.retain_verdicts(|names, key, at_ms| {
            let [device, problem, kernel] =
                [key.device, key.problem, key.kernel].map(|name| names.text(name));
            !hides(device, kernel, Some(problem), at_ms)
        });
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

    fn retain_facts(&mut self, mut keep: impl FnMut(&Names, &NamedKey, &Seen) -> bool) {
        let (mut entries, mut live) = (0, 0);
        let names = &self.names;
        self.facts.retain(|key, seen_by| {
            let kept = seen_by.retain(|seen| keep(names, key, seen));
            entries += kept;
            live += if is_live(names.text(key.condition)) { kept } else { 0 };
            kept > 0
        });
        let went = entries < self.entries;
        (self.entries, self.live) = (entries, live);
        if went {
            self.drop_unused_names();
        }
    }

    fn retain_verdicts(&mut self, mut keep: impl FnMut(&Names, &WonRace, u64) -> bool) {
        let names = &self.names;
        if self.verdicts.retain(|key, at_ms| keep(names, key, at_ms)) {
            self.drop_unused_names();
        }
    }

    fn drop_unused_names(&mut self) {
        let keys = self.facts.keys().flat_map(|key| key.names());
        let origins = self.facts.values().flat_map(SeenBy::as_slice).map(|seen| seen.origin);
        self.names.keep(keys.chain(origins).chain(self.verdicts.names()));
    }

    /// Until when what is known by these three was forgotten; lines up to then do not count.
    pub fn forgotten_until(&self, device: &str, kernel: &str, problem: Option<&str>) -> u64 {
        let matching = self.forgets.iter().filter(|(filter, _)| filter.matches(device, kernel, problem));
        // No line has time 0, so 0 forgets nothing.
        matching.map(|(_, before_ms)| *before_ms).max().unwrap_or(0)
    }

    /// What this origin saw of a key.
    pub fn seen(&self, key: &FactKey, origin: &str) -> Option<Fact> {
        let name = self.names.get(origin)?;
        let seen = self.seen_by(key).iter().find(|seen| seen.origin == name)?;
        let (outcome, last_seen_ms) = (seen.outcome.clone(), seen.at_ms);
        Some(Fact { key: key.clone(), origin: origin.to_string(), outcome, last_seen_ms })
    }

    /// The newest time of a key among the other origins.
    pub fn newest_of_others(&self, key: &FactKey, origin: &str) -> Option<u64> {
        let others = self.seen_by(key).iter().filter(|seen| self.names.text(seen.origin) != origin);
        others.map(|seen| seen.at_ms).max()
    }

    fn seen_by(&self, key: &FactKey) -> &[Seen] {
        let name = |text: &str| self.names.get(text);
        let key = || {
            Some(NamedKey {
                device: name(&key.device)?,
                problem: name(&key.problem)?,
                kernel: name(&key.kernel)?,
                version: name(&key.version)?,
                point: name(&key.point)?,
                condition: name(key.condition.name())?,
            })
        };
        key().and_then(|key| self.facts.get(&key)).map_or(&[], SeenBy::as_slice)
    }

    /// The facts of a device, or of one problem on it.
    fn within(&self, device: &str, problem: Option<&str>) -> impl Iterator<Item = (&NamedKey, &SeenBy)> {
        let names = || Some((self.names.get(device)?, problem.map(|text| self.names.get(text))));
        let range = names().and_then(|(device, problem)| {
            let (from, to) = match problem {
                None => (Name::default(), Name::LAST),
                Some(problem) => (problem?, problem?),
            };
            let key = |problem: Name, rest: Name| NamedKey {
                device,
                problem,
                kernel: rest,
                version: rest,
                point: rest,
                condition: rest,
            };
            Some(self.facts.range(key(from, Name::default())..=key(to, Name::LAST)))
        });
        range.into_iter().flatten()
    }

    /// In the order of their texts: every answer has a fixed order.
    fn ordered<'a>(
        &self,
        facts: impl Iterator<Item = (&'a NamedKey, &'a SeenBy)>,
    ) -> Vec<(&'a NamedKey, &'a SeenBy)> {
        let mut facts: Vec<_> = facts.collect();
        let ranks = self.names.ranks();
        let rank = |key: &NamedKey| {
            [key.device, key.problem, key.kernel, key.version, key.point].map(|name| ranks.of(name))
        };
        let condition = |key: &NamedKey| Condition::named(self.names.text(key.condition));
        facts.sort_by(|(a, _), (b, _)| rank(a).cmp(&rank(b)).then_with(|| condition(a).cmp(&condition(b))));
        facts
    }

    fn merged_all<'a>(&self, facts: impl Iterator<Item = (&'a NamedKey, &'a SeenBy)>) -> Vec<Fact> {
        let ordered = self.ordered(facts).into_iter();
        ordered.map(|(key, seen_by)| self.merged(key, seen_by.as_slice())).collect()
    }

    /// The merged facts of a device and a problem.
    pub fn facts(&self, device: &str, problem: &str) -> Vec<Fact> {
        let its = self.within(device, Some(problem));
        let mut facts: Vec<Fact> = its.map(|(key, seen_by)| self.merged(key, seen_by.as_slice())).collect();
        facts.sort_by(|a, b| a.key.cmp(&b.key));
        facts
    }

    /// The merged facts of a device.
    pub fn device_facts(&self, device: &str) -> Vec<Fact> {
        self.merged_all(self.within(device, None))
    }

    /// The devices, problems and versions a kernel was measured on.
    pub fn places(&self, kernel: &str) -> Vec<MeasuredOn> {
        let Some(kernel) = self.names.get(kernel) else { return Vec::new() };
        let places = self.facts.keys().filter(|key| key.kernel == kernel);
        let places: BTreeSet<[&str; 3]> = places
            .map(|key| [key.device, key.problem, key.version].map(|name| self.names.text(name)))
            .collect();
        let place = |texts: [&str; 3]| {
            let [device, problem, version] = texts.map(str::to_string);
            MeasuredOn { device, problem, version }
        };
        places.into_iter().map(place).collect()
    }

    /// All merged facts.
    pub fn all_facts(&self) -> Vec<Fact> {
        self.merged_all(self.facts.iter())
    }

    /// The number of merged facts.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    /// The verdict that counts of a race.
    pub fn verdict(&self, device: &str, problem: &str, terms: &str) -> Option<Verdict> {
        self.verdicts.last(&self.names, device, problem, terms)
    }

    /// The verdict that counts of every race.
    pub fn verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.verdicts.last_of_all(&self.names)
    }

    /// The verdicts for every kernel that ever won, for writing them out again.
    pub fn unmerged_verdicts(&self) -> impl Iterator<Item = Verdict> {
        self.verdicts.iter(&self.names)
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
        self.ordered(self.facts.iter()).into_iter().flat_map(|(key, seen_by)| {
            seen_by.as_slice().iter().map(|seen| Fact {
                key: self.key_of(key),
                origin: self.names.text(seen.origin).to_string(),
                outcome: seen.outcome.clone(),
                last_seen_ms: seen.at_ms,
            })
        })
    }

    /// The facts of one origin.
    pub fn of_origin(&self, origin: &str) -> impl Iterator<Item = (FactKey, &Outcome)> {
        let origin = self.names.get(origin);
        self.facts.iter().filter_map(move |(key, seen_by)| {
            let seen = seen_by.as_slice().iter().find(|seen| Some(seen.origin) == origin)?;
            Some((self.key_of(key), &seen.outcome))
        })
    }

    /// How much the filter matches, and the newest time of it.
    pub fn matching(&self, filter: &Filter) -> (usize, u64) {
        let mut newest = 0;
        let mut count = 0;
        for (key, seen_by) in &self.facts {
            let [device, kernel, problem] =
                [key.device, key.kernel, key.problem].map(|name| self.names.text(name));
            if filter.matches(device, kernel, Some(problem)) {
                count += 1;
                newest = seen_by.as_slice().iter().map(|seen| seen.at_ms).fold(newest, u64::max);
            }
        }
        for (key, at_ms) in self.verdicts.times() {
            let [device, kernel, problem] =
                [key.device, key.kernel, key.problem].map(|name| self.names.text(name));
            if filter.matches(device, kernel, Some(problem)) {
                count += 1;
                newest = newest.max(at_ms);
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
        for (key, seen_by) in self.within(device, Some(problem)) {
            for seen in seen_by.as_slice() {
                let text = |name| self.names.text(name);
                let line = FactLine {
                    device,
                    kernel: text(key.kernel),
                    version: text(key.version),
                    problem,
                    point: text(key.point),
                    condition: text(key.condition),
                    origin: text(seen.origin),
                    at_ms: seen.at_ms,
                };
                part.insert_fact(line, seen.outcome.clone());
            }
        }
        part
    }

    /// Drops the oldest facts from live calls above their bound, a tenth more than must go.
    pub fn trim_live(&mut self, live_max: usize) {
        if self.live <= live_max {
            return;
        }
        let live = self.facts.iter().filter(|(key, _)| is_live(self.names.text(key.condition)));
        let mut times: Vec<u64> =
            live.flat_map(|(_, seen_by)| seen_by.as_slice()).map(|seen| seen.at_ms).collect();
        let excess = (self.live - live_max + live_max / 10).min(times.len()).saturating_sub(1);
        let cut = *times.select_nth_unstable(excess).1;
        self.retain_facts(|names, key, seen| !is_live(names.text(key.condition)) || seen.at_ms > cut);
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
            self.retain_facts(|_, _, seen| {
                let goes = seen.at_ms < cut || (seen.at_ms == cut && at_cut > 0);
                at_cut -= usize::from(goes && seen.at_ms == cut);
                !goes
            });
            dropped += before - self.entries;
        }
        let before = self.verdicts.len();
        if before > MAX_VERDICTS {
            let mut times: Vec<u64> = self.verdicts.times().map(|(_, at_ms)| at_ms).collect();
            let excess = before - MAX_VERDICTS + MAX_VERDICTS / 10;
            let cut = *times.select_nth_unstable(excess).1;
            self.retain_verdicts(|_, _, at_ms| at_ms > cut);
            dropped += before - self.verdicts.len();
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

    /// Trims where more than so many times the bounds has come in: while a store is read, memory stays bounded whatever it holds.
    pub fn bound(&mut self, times: f64) -> usize {
        let above = |count: usize, most: usize| count as f64 > times * most as f64;
        let many = above(self.entries, MAX_FACTS)
            || above(self.verdicts.len(), MAX_VERDICTS)
            || above(self.intents.len(), MAX_INTENTS);
        if many { self.trim(MAX_FACTS) } else { 0 }
    }

    fn unmerged_times(&self) -> impl Iterator<Item = u64> {
        self.facts.values().flat_map(SeenBy::as_slice).map(|seen| seen.at_ms)
    }

    /// The number of facts, counted per key and origin.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// The number of verdicts, counted per race and winner.
    pub fn verdict_count(&self) -> usize {
        self.verdicts.len()
    }

    /// Forgets which intents were discharged before that time: they only shadow lines that are gone.
    pub fn drop_done_before(&mut self, at_ms: u64) {
        self.intents.retain(|_, &mut (at, done)| !done || at >= at_ms);
    }

    fn key_of(&self, key: &NamedKey) -> FactKey {
        let [device, problem, kernel, version, point, condition] =
            key.names().map(|name| self.names.text(name).to_string());
        FactKey { device, kernel, version, problem, point, condition: Condition::named(&condition) }
    }

    /// One fact of what several origins saw: a failure that is the newest, else all their times together.
    fn merged(&self, key: &NamedKey, seen_by: &[Seen]) -> Fact {
        let origin = |seen: &Seen| self.names.text(seen.origin);
        let live = is_live(self.names.text(key.condition));
        let last_seen_ms = seen_by.iter().map(|seen| seen.at_ms).max().unwrap_or(0);
        let newest = seen_by.iter().max_by(|a, b| (a.rank(), origin(a)).cmp(&(b.rank(), origin(b))));
        // Against the newest, not against the clock: the same facts are the same for ever.
        let age = |seen: &Seen| match last_seen_ms - seen.at_ms {
            // Races of one day are one measurement.
            age if live || age >= DAY_MS => age,
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
            [only] => origin(only).to_string(),
            _ => MERGED.to_string(),
        };
        Fact { key: self.key_of(key), origin, outcome, last_seen_ms }
    }
}

/// The time just after, staying within what a line may say.
pub(crate) fn just_after(at_ms: u64) -> u64 {
    at_ms.saturating_add(1).min(MAX_MS)
}

#[cfg(test)]
mod tests;
