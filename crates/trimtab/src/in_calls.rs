//! Foreign code in live calls: what ran when a process died, so that the next does not die of it too.
//!
//! Foreign are users' kernels, libraries' and whatever a driver runs. A file beside wisdom's tells what each thread runs, and which
//! signal ended it. Whoever opens the directory next reads what the dead left there, and puts out what they died of. An interruption
//! leaves nothing. The file is made, and signals are asked for, when foreign code first answers a call: a program that runs our own
//! kernels only keeps its signals to itself.

use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use trimtab_core::{Condition, FailureKind, Problem};
use trimtab_cpu::{Entry, Inside, Ran, Running};
use trimtab_plan::{MAX_NUMBER, Plan, Planner};
use trimtab_wisdom::{Fact, FactKey, Outcome, Wisdom};

/// How the files' names begin.
const NAME: &str = "running-";
/// Between the parts of a text.
const APART: char = '\u{1f}';
/// How long one death makes suspect: as long as a crash bars.
const SUSPECT_MS: u64 = 30 * 24 * 60 * 60 * 1000;
/// The number of a plan whose text cannot be written.
const UNWRITTEN: u32 = u32::MAX;

/// What runs in this process, where wisdom is kept in a directory.
pub(crate) struct InCalls {
    path: Option<PathBuf>,
    /// Made when it is first needed; nothing if it cannot be.
    notes: OnceLock<Option<Notes>>,
}

struct Notes {
    running: Running,
    /// The number of each plan's text, by the plan's number; zero for none yet.
    entries: Vec<AtomicU32>,
    texts: Mutex<FxHashMap<String, u32>>,
}

impl Notes {
    // What cannot be written costs what would have been known after a crash, nothing else.
    fn new(path: &Path) -> Option<Notes> {
        let running = Running::create(path).ok()?;
        let entries = (0..=MAX_NUMBER).map(|_| AtomicU32::new(0)).collect();
        Some(Notes { running, entries, texts: Mutex::default() })
    }

    #[inline]
    fn entry(&self, planner: &Planner, problem: &Problem, plan: &Plan) -> Option<Entry> {
        let number = self.entries.get(plan.number() as usize)?;
        match number.load(Ordering::Acquire) {
            0 => self.register(number, planner, problem, plan),
            known => Entry::of(known),
        }
    }

    #[cold]
    fn register(
        &self,
        number: &AtomicU32,
        planner: &Planner,
        problem: &Problem,
        plan: &Plan,
    ) -> Option<Entry> {
        let mut parts = planner.names(problem, plan)?.to_vec();
        parts.push(problem.to_string());
        let entry = self.write(parts.join(&APART.to_string()));
        // Plans without a number share a place in the list.
        if plan.number() > 0 {
            number.store(entry.map_or(UNWRITTEN, Entry::number), Ordering::Release);
        }
        entry
    }

    fn write(&self, text: String) -> Option<Entry> {
        let mut texts = self.texts.lock().ok()?;
        if let Some(known) = texts.get(&text) {
            return Entry::of(*known);
        }
        let entry = self.running.write(texts.len() as u32 + 1, &text)?;
        texts.insert(text, entry.number());
        Some(entry)
    }
}

impl InCalls {
    /// Tells what foreign code runs, once some does.
    pub(crate) fn beside(wisdom: &Wisdom) -> InCalls {
        let path = wisdom.dir().map(|dir| dir.join(format!("{NAME}{}", wisdom.origin())));
        InCalls { path, notes: OnceLock::new() }
    }

    #[inline]
    fn notes(&self) -> Option<&Notes> {
        let path = self.path.as_ref()?;
        self.notes.get_or_init(|| Notes::new(path)).as_ref()
    }

    /// A call of foreign code begins on this thread; it ends with what is returned.
    #[inline]
    pub(crate) fn enter(&self, planner: &Planner, problem: &Problem, plan: &Plan) -> Option<Inside<'_>> {
        self.inside(self.entry(planner, problem, plan)?)
    }

    /// The same on whatever thread runs it.
    #[inline]
    pub(crate) fn inside(&self, entry: Entry) -> Option<Inside<'_>> {
        self.notes()?.running.enter(entry)
    }

    /// What is entered when a plan's kernel runs.
    #[inline]
    pub(crate) fn entry(&self, planner: &Planner, problem: &Problem, plan: &Plan) -> Option<Entry> {
        self.notes()?.entry(planner, problem, plan)
    }

    /// The same for several that a device is given together.
    pub(crate) fn enter_all<'a>(
        &self,
        planner: &Planner,
        launches: impl Iterator<Item = (&'a Problem, &'a Plan)>,
    ) -> Option<Inside<'_>> {
        let notes = self.notes()?;
        let mut entries: Vec<Entry> =
            launches.filter_map(|(problem, plan)| notes.entry(planner, problem, plan)).collect();
        entries.sort_unstable_by_key(|entry| entry.number());
        entries.dedup();
        let entry = match entries[..] {
            [only] => Some(only),
            _ => notes.write(Entry::together(&entries)),
        };
        notes.running.enter(entry?)
    }

    /// What was entered before is waited for.
    pub(crate) fn enter_again(&self, entry: Option<Entry>) -> Option<Inside<'_>> {
        self.notes.get()?.as_ref()?.running.enter(entry?)
    }
}

impl Drop for InCalls {
    fn drop(&mut self) {
        // A forked child leaves its parent's file alone.
        if let (Some(path), Some(Some(notes))) = (&self.path, self.notes.get())
            && notes.running.is_here()
        {
            Running::remove(path);
        }
    }
}

/// Wisdom in a directory as a runtime opens it, with what earlier processes died of; no device is opened.
///
/// ```
/// # use trimtab::prelude::*;
/// # let dir = tempfile::tempdir()?;
/// let wisdom = trimtab::open_wisdom(dir.path());
/// assert!(wisdom.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn open_wisdom(dir: &Path) -> Wisdom {
    let wisdom = Wisdom::open(dir);
    note_the_dead(dir, &wisdom);
    wisdom
}

/// Remembers what processes died of that kept their wisdom in a directory. What was not certainly the reason is suspect; of the second
/// such death it is taken to be the reason.
pub(crate) fn note_the_dead(dir: &Path, wisdom: &Wisdom) {
    for path in Running::files(dir, NAME) {
        let Ok(Some(ran)) = Running::left_by_the_dead(&path) else { continue };
        let suspects = suspects(wisdom);
        for Ran { text, signal, is_certain } in ran {
            let [device, kernel, version, point, problem] = text.split(APART).collect::<Vec<_>>()[..] else {
                continue;
            };
            let [device, kernel, version, point, problem] =
                [device, kernel, version, point, problem].map(str::to_string);
            let suspect = FactKey { device, kernel, version, point, problem, condition: Condition::Suspect };
            let crashed = |message: String| Outcome::Failed { kind: FailureKind::Crashed, message };
            if is_certain {
                let message = format!("signal {signal} ended a process in a live call of it");
                wisdom.record(FactKey { condition: Condition::Quiet, ..suspect }, crashed(message));
            } else if suspects.iter().any(|other| is_same(other, &suspect)) {
                let message = format!("signal {signal} ended a second process while a live call of it ran");
                wisdom.record(FactKey { condition: Condition::Quiet, ..suspect }, crashed(message));
            } else {
                let message = format!("signal {signal} ended a process while a live call of it ran");
                wisdom.record(suspect, crashed(message));
            }
        }
        wisdom.flush();
        // Two processes may have read it: both know the same then.
        Running::remove(&path);
    }
}

/// What is suspect by now: it ran when a process died, at a time that still counts.
fn suspects(wisdom: &Wisdom) -> Vec<FactKey> {
    let now_ms = wisdom.now_ms();
    let is_suspect = |fact: &Fact| {
        fact.key.condition == Condition::Suspect
            && matches!(fact.outcome, Outcome::Failed { kind: FailureKind::Crashed, .. })
            && now_ms.saturating_sub(fact.last_seen_ms) < SUSPECT_MS
    };
    wisdom.all_facts().into_iter().filter(is_suspect).map(|fact| fact.key).collect()
}

/// Whether both are of one kernel at the same settings, whatever the problem.
fn is_same(one: &FactKey, other: &FactKey) -> bool {
    let what = |key: &FactKey| [&key.device, &key.kernel, &key.version, &key.point].map(String::clone);
    what(one) == what(other)
}
