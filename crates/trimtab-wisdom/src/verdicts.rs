//! Who won each race, with numbers instead of texts: by the size of its fields a verdict takes about 150 bytes beside the text of its problem.

use crate::fact::{Extent, Verdict};
use crate::names::{Name, Names};
use crate::union::Change;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// By race, then winner: forgetting one kernel must not depend on whether another's verdict came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WonRace {
    pub device: Name,
    pub problem: Name,
    terms: Name,
    pub kernel: Name,
}

impl WonRace {
    fn race(&self) -> [Name; 3] {
        [self.device, self.problem, self.terms]
    }
}

/// What a verdict says beside that.
#[derive(Clone, Debug)]
struct Won {
    at_ms: u64,
    origin: Name,
    on: Name,
    version: Name,
    point: Name,
    extent: Extent,
    candidates: u64,
}

/// See the module. Texts are the union's, whose names every question brings along.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdicts(BTreeMap<WonRace, Won>);

impl Verdicts {
    pub fn insert(&mut self, names: &mut Names, verdict: Verdict) -> Change {
        let mut name = |text: &str| names.name(text);
        let [device, problem, terms, kernel] =
            [&verdict.device, &verdict.problem, &verdict.terms, &verdict.kernel].map(|text| name(text));
        let [origin, on, version, point] =
            [&verdict.origin, &verdict.on, &verdict.version, &verdict.point].map(|text| name(text));
        let key = WonRace { device, problem, terms, kernel };
        let is_first = self.of_race(key.race()).next().is_none();
        let won = Won {
            at_ms: verdict.last_seen_ms,
            origin,
            on,
            version,
            point,
            extent: verdict.extent,
            candidates: verdict.candidates,
        };
        match self.0.get(&key) {
            Some(known) if order(names, (&key, known), (&key, &won)).is_ge() => return Change::Unchanged,
            _ => self.0.insert(key, won),
        };
        if is_first { Change::New } else { Change::Updated }
    }

    /// The winners of a race.
    fn of_race(&self, [device, problem, terms]: [Name; 3]) -> impl Iterator<Item = (&WonRace, &Won)> {
        let key = |kernel| WonRace { device, problem, terms, kernel };
        self.0.range(key(Name::default())..=key(Name::LAST))
    }

    /// The verdict that counts of a race: the newest.
    pub fn last(&self, names: &Names, device: &str, problem: &str, terms: &str) -> Option<Verdict> {
        let race = [names.get(device)?, names.get(problem)?, names.get(terms)?];
        let (key, won) = self.of_race(race).max_by(|a, b| order(names, *a, *b))?;
        Some(told(names, key, won))
    }

    /// The verdicts for every kernel that ever won, in the order of their texts.
    pub fn iter<'a>(&'a self, names: &'a Names) -> impl Iterator<Item = Verdict> + 'a {
        self.ordered(names).into_iter().map(|(key, won)| told(names, key, won))
    }

    /// The one that counts of every race, in the same order.
    pub fn last_of_all<'a>(&'a self, names: &'a Names) -> impl Iterator<Item = Verdict> + 'a {
        let mut last: Vec<(&WonRace, &Won)> = Vec::new();
        for next in self.ordered(names) {
            match last.last_mut().filter(|before| before.0.race() == next.0.race()) {
                Some(before) if order(names, *before, next).is_lt() => *before = next,
                Some(_) => {}
                None => last.push(next),
            }
        }
        last.into_iter().map(|(key, won)| told(names, key, won))
    }

    fn ordered(&self, names: &Names) -> Vec<(&WonRace, &Won)> {
        let ranks = names.ranks();
        let mut all: Vec<_> = self.0.iter().collect();
        all.sort_by_key(|(key, _)| {
            [key.device, key.problem, key.terms, key.kernel].map(|name| ranks.of(name))
        });
        all
    }

    /// Keeps those for which `keep` says so of their key and time, and says whether any went.
    pub fn retain(&mut self, mut keep: impl FnMut(&WonRace, u64) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|key, won| keep(key, won.at_ms));
        self.0.len() < before
    }

    /// When each was decided.
    pub fn times(&self) -> impl Iterator<Item = (&WonRace, u64)> {
        self.0.iter().map(|(key, won)| (key, won.at_ms))
    }

    /// Every name they use.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        self.0.iter().flat_map(|(key, won)| {
            [key.device, key.problem, key.terms, key.kernel, won.origin, won.on, won.version, won.point]
        })
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Of the same race: the newest is the greatest; among equally new ones their texts decide, so that everyone decides alike.
fn order(names: &Names, one: (&WonRace, &Won), other: (&WonRace, &Won)) -> Ordering {
    let texts = || told(names, one.0, one.1).cmp(&told(names, other.0, other.1));
    one.1.at_ms.cmp(&other.1.at_ms).then_with(texts)
}

fn told(names: &Names, key: &WonRace, won: &Won) -> Verdict {
    let text = |name: Name| names.text(name).to_string();
    Verdict {
        device: text(key.device),
        problem: text(key.problem),
        terms: text(key.terms),
        last_seen_ms: won.at_ms,
        origin: text(won.origin),
        on: text(won.on),
        kernel: text(key.kernel),
        version: text(won.version),
        point: text(won.point),
        extent: won.extent.clone(),
        candidates: won.candidates,
    }
}
