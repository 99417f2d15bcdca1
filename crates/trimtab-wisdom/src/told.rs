//! What was written last of live facts, and whether they say something new since.

use crate::fact::{DAY_MS, FactKey, Stats};
use crate::union::MAX_LIVE_FACTS;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// A fact whose samples became so many times as many is written again,
const MORE: u64 = 2;
/// and so is one whose time moved by this share of it,
const MOVED: f64 = 0.05;
/// but not before so long after it was written last.
const REST_MS: u64 = 60 * 1000;

/// What was written last, by a hash of its key: with 64 bits drawn anew in each process no two keys meet.
#[derive(Debug, Default)]
pub(crate) struct Told {
    hasher: RandomState,
    last: HashMap<u64, Last>,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    n: u64,
    mean_ns: f64,
    min_ns: f64,
    at_ms: u64,
}

impl Told {
    /// Whether a live fact says something new. What a day says is: readers count times less the older they look.
    pub fn is_news(&self, key: &FactKey, stats: &Stats, at_ms: u64) -> bool {
        let Some(last) = self.last.get(&self.hasher.hash_one(key)) else { return true };
        let moved = |now: f64, then: f64| (now - then).abs() > MOVED * then;
        stats.n >= last.n.saturating_mul(MORE)
            || at_ms / DAY_MS != last.at_ms / DAY_MS
            || (at_ms >= last.at_ms.saturating_add(REST_MS)
                && (moved(stats.mean(), last.mean_ns) || moved(stats.min_ns, last.min_ns)))
    }

    /// Whether exactly this was written.
    pub fn is_told(&self, key: &FactKey, stats: &Stats) -> bool {
        let last = self.last.get(&self.hasher.hash_one(key));
        last.is_some_and(|last| last.n == stats.n && last.mean_ns == stats.mean())
    }

    /// Notes what is written now.
    pub fn tell(&mut self, key: &FactKey, stats: &Stats, at_ms: u64) {
        if self.last.len() >= MAX_LIVE_FACTS {
            // Each is written once more than need be, and there is room again.
            self.last.clear();
        }
        let last = Last { n: stats.n, mean_ns: stats.mean(), min_ns: stats.min_ns, at_ms };
        self.last.insert(self.hasher.hash_one(key), last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_fact_is_news_when_it_has_twice_the_samples_or_moved_a_minute_later_or_on_another_day() {
        let (key, mut told) = (FactKey::default(), Told::default());
        let at = 10 * DAY_MS;
        let of = |n: usize, ns: f64| Stats::of(&vec![ns; n]).unwrap();
        assert!(told.is_news(&key, &of(1, 100.0), at));
        told.tell(&key, &of(10, 100.0), at);
        assert!(told.is_told(&key, &of(10, 100.0)) && !told.is_told(&key, &of(11, 100.0)));
        assert!(!told.is_news(&key, &of(19, 100.0), at + REST_MS), "neither more nor moved");
        assert!(told.is_news(&key, &of(20, 100.0), at));
        assert!(!told.is_news(&key, &of(19, 110.0), at + REST_MS - 1), "too soon");
        assert!(told.is_news(&key, &of(19, 110.0), at + REST_MS));
        assert!(!told.is_news(&key, &of(19, 104.0), at + REST_MS), "not by much");
        assert!(told.is_news(&key, &of(19, 100.0), at + DAY_MS));
        let other = FactKey { kernel: "k".into(), ..FactKey::default() };
        assert!(told.is_news(&other, &of(1, 100.0), at));
    }

    #[test]
    fn what_was_told_is_bounded() {
        let mut told = Told::default();
        for number in 0..MAX_LIVE_FACTS + 10 {
            told.tell(&FactKey { kernel: number.to_string(), ..FactKey::default() }, &Stats::single(1.0), 1);
        }
        assert!(told.last.len() <= MAX_LIVE_FACTS);
    }
}
