//! What was decided, why, and what came of it: the last decisions of a runtime, for reports.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_core::{Estimate, Nanos};
use trimtab_plan::{Decision, Reason, Rival, Standing, Why};

/// Decisions kept; the oldest go first.
pub const MAX_ENTRIES: usize = 1024;

/// What launches of a decision took.
#[derive(Debug, Default)]
pub(crate) struct Happened {
    runs: AtomicU64,
    total_ns: AtomicU64,
}

impl Happened {
    pub(crate) fn note(&self, took: Nanos) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(took.0, Ordering::Relaxed);
    }
}

/// One decision.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Counts from zero since the runtime was built.
    pub number: u64,
    /// What was decided about: the problem's text.
    pub what: String,
    /// How many operations of the caller it is.
    pub operations: usize,
    /// The device it runs on, by its short name.
    pub device: String,
    /// What tipped the scales.
    pub why: Why,
    /// What the processor was expected to take for it, operands in place; absent where it cannot or may not.
    pub processor: Option<Estimate>,
    /// The best of the other devices and what it was expected to take, operands in place.
    pub other: Option<(String, Estimate)>,
    /// The same with a launch for each operation, on the device chosen; absent for a single operation.
    pub apart: Option<Nanos>,
    /// What else there is to say, for people.
    pub note: String,
    pub(crate) happened: Arc<Happened>,
}

impl Entry {
    /// Launches since, where they are counted: those of expressions.
    pub fn runs(&self) -> u64 {
        self.happened.runs.load(Ordering::Relaxed)
    }

    /// What they took on average, moves included, by the processor's clock; nothing before the first.
    pub fn mean(&self) -> Option<Nanos> {
        self.happened.total_ns.load(Ordering::Relaxed).checked_div(self.runs()).map(Nanos)
    }
}

impl fmt::Display for Entry {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} ({})", self.what, self.device, self.why)?;
        if let Some(estimate) = self.processor {
            write!(f, ", processor {} {}", estimate.time, estimate.basis)?;
        }
        if let Some((name, estimate)) = &self.other {
            write!(f, ", {name} {} {}", estimate.time, estimate.basis)?;
        }
        if let Some(apart) = self.apart {
            write!(f, ", {} operations apart {apart}", self.operations)?;
        }
        if !self.note.is_empty() {
            write!(f, "; {}", self.note)?;
        }
        match self.mean() {
            Some(mean) => write!(f, "; {} runs of {mean}", self.runs()),
            None => Ok(()),
        }
    }
}

impl Entry {
    /// The entry of a decision about one operation.
    pub(crate) fn of(decision: &Decision) -> Entry {
        let is_here = |rival: &&Rival| &*rival.device_id == "cpu";
        let best = |here: bool| {
            let rivals = decision.rivals.iter().filter(|rival| is_here(rival) == here);
            let known = rivals.filter_map(|rival| Some((rival, rival.estimate()?)));
            known.min_by_key(|(rival, _)| rival.call_time())
        };
        let winner = decision.winner();
        let measured = !matches!(decision.reason, Reason::Estimated | Reason::Learned | Reason::DefaultOrder);
        let plain = if measured { Why::Measured } else { Why::Model };
        // Where no other device was in the running, that is why.
        let others =
            || decision.rivals.iter().filter(|rival| winner.is_some_and(|own| own.device != rival.device));
        let out = others().next().filter(|_| others().all(|rival| rival.estimate().is_none()));
        let (why, note) = match out.map(|rival| (&rival.standing, rival.out_because().unwrap_or_default())) {
            Some((Standing::Declined(_), note)) => (Why::Unsupported, note),
            Some((Standing::Excluded(_), note)) => (Why::Constraint, note),
            Some((Standing::Overruled(_), note)) => (decision.overruled.unwrap_or(plain), note),
            Some((_, note)) => (plain, note),
            None => (decision.overruled.unwrap_or(plain), String::new()),
        };
        Entry {
            number: 0,
            what: decision.problem.to_string(),
            operations: 1,
            device: winner.map_or_else(String::new, |winner| winner.device_id.to_string()),
            why,
            processor: best(true).map(|(_, estimate)| estimate),
            other: best(false).map(|(rival, estimate)| (rival.device_id.to_string(), estimate)),
            apart: None,
            note,
            happened: Arc::default(),
        }
    }
}

/// The last decisions of a runtime.
#[derive(Debug, Default)]
pub struct Journal {
    kept: Mutex<VecDeque<Entry>>,
    written: AtomicU64,
}

impl Journal {
    /// Notes a decision; its number is given here.
    pub(crate) fn note(&self, mut entry: Entry) {
        entry.number = self.written.fetch_add(1, Ordering::Relaxed);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_ENTRIES {
            kept.pop_front();
        }
        kept.push_back(entry);
    }

    /// The decisions kept, oldest first: at most [`MAX_ENTRIES`].
    pub fn entries(&self) -> Vec<Entry> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Decisions made since the runtime was built, those no longer kept included.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_go_first_and_numbers_go_on() {
        let journal = Journal::default();
        let entry = |what: usize| Entry {
            number: 0,
            what: what.to_string(),
            operations: 1,
            device: "cpu".to_string(),
            why: Why::Model,
            processor: None,
            other: None,
            apart: None,
            note: String::new(),
            happened: Arc::default(),
        };
        (0..MAX_ENTRIES + 3).for_each(|what| journal.note(entry(what)));
        let entries = journal.entries();
        assert_eq!((entries.len(), journal.written()), (MAX_ENTRIES, MAX_ENTRIES as u64 + 3));
        assert!(entries.iter().all(|entry| entry.what == entry.number.to_string() && entry.number >= 3));
        assert!(entries[0].mean().is_none());
        entries[0].happened.note(Nanos(10));
        assert_eq!(journal.entries()[0].mean(), Some(Nanos(10)));
    }
}
