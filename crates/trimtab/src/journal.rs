//! What was decided, why, and what came of it: the last decisions of a runtime, for reports.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use trimtab_core::{Estimate, Nanos};
use trimtab_plan::{Decision, Plan, Reason, Rival, Standing, Why, Witness};

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
        self.add(1, took);
    }

    fn add(&self, runs: u64, took: Nanos) {
        self.runs.fetch_add(runs, Ordering::Relaxed);
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
    /// Launches since that were timed: some are, so that timing costs nothing; those of single operations are taken in twice a
    /// second.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// rt.plan(&"reduce.sum:f32:1000".parse()?)?;
    /// assert_eq!(rt.journal().entries()[0].runs(), 0); // planned, and not called yet
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runs(&self) -> u64 {
        self.happened.runs.load(Ordering::Relaxed)
    }

    /// What they took on average; nothing before the first. Of expressions by the processor's clock, moves included; of single
    /// operations the kernel's own time.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// rt.plan(&"reduce.sum:f32:1000".parse()?)?;
    /// assert_eq!(rt.journal().entries()[0].mean(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    /// The entry of a decision about one operation: what [`Runtime::explain`](crate::Runtime::explain) knows, in the words of the
    /// journal. Nothing was counted for it.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::Entry;
    /// let entry = Entry::of(&*rt.explain(&"reduce.sum:f32:1000".parse()?)?);
    /// assert_eq!((entry.what.as_str(), entry.operations), ("reduce.sum:f32:1000", 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(decision: &Decision) -> Entry {
        let is_here = |rival: &&Rival| &*rival.device_id == "cpu";
        let best = |here: bool| {
            // What is chosen stands for its device, though another may be expected to be faster by something nobody measured.
            let chosen = decision.winner().filter(|winner| is_here(winner) == here);
            let rivals = decision.rivals.iter().filter(|rival| is_here(rival) == here);
            let rivals = rivals.filter(|rival| chosen.is_none_or(|chosen| std::ptr::eq(chosen, *rival)));
            // Nothing is known of one that was taken for its place in the order.
            let known = rivals.filter_map(|rival| Some((rival, rival.estimate()?)));
            let known = known.filter(|(_, estimate)| estimate.spread_log2.is_finite());
            known.min_by_key(|(rival, _)| rival.call_time())
        };
        let (here, elsewhere) = (best(true), best(false));
        let winner = decision.winner();
        let (why, mut note) = why(decision);
        if let Some((rival, _)) = elsewhere.filter(|(rival, _)| rival.transfer.0 > 0) {
            let apart = if note.is_empty() { "" } else { "; " };
            note.push_str(&format!("{apart}the transfer to {} takes {}", rival.device_id, rival.transfer));
        }
        Entry {
            number: 0,
            what: decision.problem.to_string(),
            operations: 1,
            device: winner.map_or_else(String::new, |winner| winner.device_id.to_string()),
            why,
            processor: here.map(|(_, estimate)| estimate),
            other: elsewhere.map(|(rival, estimate)| (rival.device_id.to_string(), estimate)),
            apart: None,
            note,
            happened: Arc::default(),
        }
    }
}

/// What tipped the scales, and a word about it.
fn why(decision: &Decision) -> (Why, String) {
    let winner = decision.winner();
    let plain = match decision.reason {
        Reason::Raced | Reason::Remembered | Reason::Explored => Why::Measured,
        _ => winner.and_then(Rival::estimate).map_or(Why::Model, |estimate| Why::of(estimate.basis)),
    };
    let mut others: Vec<&Rival> =
        decision.rivals.iter().filter(|rival| winner.is_some_and(|own| own.device != rival.device)).collect();
    // Kernels left out of a race between devices that was run all the same did not decide it.
    let rule = decision.overruled.filter(|why| *why != Why::Kernels);
    if others.iter().any(|rival| rival.estimate().is_some()) {
        return (rule.unwrap_or(plain), String::new());
    }
    // Where no other device was in the running, that is why: by what kept out those that could have done it.
    let rank = |rival: &&Rival| match rival.standing {
        Standing::Overruled(_) => 0,
        Standing::Excluded(_) => 1,
        Standing::Declined(_) => 3,
        _ => 2,
    };
    others.sort_by_key(rank);
    let Some(out) = others.first() else { return (rule.unwrap_or(plain), String::new()) };
    let why = match out.standing {
        Standing::Declined(_) => Why::Unsupported,
        Standing::Excluded(_) => Why::Constraint,
        Standing::Overruled(_) => decision.overruled.unwrap_or(plain),
        _ => plain,
    };
    let note = if out.standing == Standing::Unconsidered { None } else { out.out_because() };
    (why, note.unwrap_or_default())
}

/// The last decisions of a runtime: one for each launch of a new expression, one for each plan of an operation that was put in
/// force, and one for each that took its place since. Calls of known plans do not come here.
#[derive(Debug, Default)]
pub struct Journal {
    kept: Mutex<Kept>,
    written: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<(Entry, u32)>,
    /// What came of the last decision for a plan, by the plan's number; only of entries that are kept.
    live: FxHashMap<u32, Arc<Happened>>,
}

impl Journal {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a decision; its number is given here.
    pub(crate) fn note(&self, entry: Entry) {
        self.write(entry, 0);
    }

    /// Notes a decision that put a plan in force; its live calls are counted for it.
    pub(crate) fn decided(&self, plan: &Plan, decision: &Decision) {
        self.write(Entry::of(decision), plan.number());
    }

    fn write(&self, mut entry: Entry, plan: u32) {
        let mut kept = self.kept();
        entry.number = self.written.fetch_add(1, Ordering::Relaxed);
        while kept.entries.len() >= MAX_ENTRIES {
            let Some((oldest, number)) = kept.entries.pop_front() else { break };
            if kept.live.get(&number).is_some_and(|live| Arc::ptr_eq(live, &oldest.happened)) {
                kept.live.remove(&number);
            }
        }
        if plan != 0 {
            kept.live.insert(plan, Arc::clone(&entry.happened));
        }
        kept.entries.push_back((entry, plan));
    }

    /// The decisions kept, oldest first: at most [`MAX_ENTRIES`].
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// rt.plan(&"reduce.sum:f32:1000".parse()?)?;
    /// for entry in rt.journal().entries() {
    ///     println!("{entry}");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entries(&self) -> Vec<Entry> {
        self.kept().entries.iter().map(|(entry, _)| entry.clone()).collect()
    }

    /// Decisions made since the runtime was built, those no longer kept included.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// assert_eq!(rt.journal().written(), 0);
    /// rt.plan(&"reduce.sum:f32:1000".parse()?)?;
    /// assert!(rt.journal().written() >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

impl Witness for Journal {
    fn changed(&self, plan: &Plan, decision: &Decision) {
        self.decided(plan, decision);
    }

    fn ran(&self, plan: u32, calls: u64, total: Nanos) {
        if let Some(happened) = self.kept().live.get(&plan) {
            happened.add(calls, total);
        }
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
