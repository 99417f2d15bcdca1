//! [`Wisdom`]: the memory everyone asks and the queue of what is still to be written. Never on the warm path.
//!
//! Two locks, always taken in this order: `view` for the store, `state` for memory. Asking takes only the second, and it
//! is never held while the store is touched, so a slow disk does not slow a question down.

use crate::compact::{MAX_BYTES, MAX_SEGMENTS, MAX_SEGMENTS_AT_OPEN};
use crate::directory::Directory;
use crate::fact::{DAY_MS, Fact, FactKey, Filter, MeasuredOn, Outcome, Verdict, is_live, shortened};
use crate::line::{Forget, Intent, Line, encode};
use crate::store::Store;
use crate::told::Told;
use crate::union::{MAX_FACTS, MAX_INTENTS, MAX_LIVE_FACTS, MAX_VERDICTS, Union, just_after};
use crate::view::{Scan, View};
use crate::wall;
use crate::warning::{Warning, WarningKind, Warnings};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The longest message of a failure that is kept.
pub const MAX_MESSAGE_BYTES: usize = 1024;
/// The most lines waiting to be written; while the store refuses, further ones live in memory only.
pub const MAX_QUEUED: usize = 200_000;
/// The most bytes handed to the system in one write.
const MAX_WRITE_BYTES: usize = 1024 * 1024;
/// What is read when a store is opened may grow to this many times the bounds before the oldest of it go: doing so takes time.
const HELD: f64 = 2.0;

/// Deaths of processes at one point that make it a crash.
pub const CRASHES: usize = 2;

/// That processes died while a point ran.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub struct Death {
    pub device: String,
    pub kernel: String,
    pub version: String,
    pub point: String,
    /// How many processes; from [`CRASHES`] on the point is out.
    pub count: usize,
    /// When the last of them had started it.
    pub last_ms: u64,
}

/// Something to be written: its name only, the line is made from memory when it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Queued {
    /// First, because a crash must not lose it.
    Intent {
        device: String,
        kernel: String,
        version: String,
        point: String,
    },
    Forget(Filter),
    Verdict {
        device: String,
        problem: String,
        terms: String,
    },
    Fact {
        key: FactKey,
        origin: String,
    },
}

/// What is in memory.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub union: Union,
    pub queue: BTreeSet<Queued>,
    /// Origins whose processes ran at the last look.
    pub alive: BTreeSet<String>,
    pub warnings: Warnings,
    /// What was written last of our live facts.
    told: Told,
    /// Whether there is a store to write to.
    persistent: bool,
    /// Whether this process is about to end for no fault of what it runs.
    withdrawn: bool,
}

impl State {
    pub fn enqueue(&mut self, queued: Queued) {
        if !self.persistent {
            return;
        }
        if self.queue.len() < MAX_QUEUED || self.queue.contains(&queued) {
            self.queue.insert(queued);
        } else {
            let message = format!(
                "{MAX_QUEUED} lines wait to be written and further ones will not outlive this process; \
                 make the place of wisdom writable"
            );
            self.warnings.add(Warning::new(WarningKind::Dropped, message));
        }
    }

    pub fn trim_live(&mut self) {
        self.union.trim_live(MAX_LIVE_FACTS);
    }

    /// Drops the oldest above the bounds, and says so with how many were dropped before.
    pub fn trim(&mut self, before: usize) {
        self.trim_live();
        let union = &mut self.union;
        let dropped = before + union.trim(MAX_FACTS);
        if dropped > 0 {
            let message = format!(
                "more than {MAX_FACTS} facts or {MAX_VERDICTS} verdicts: the oldest {dropped} were dropped; \
                 forget devices that are gone"
            );
            self.warnings.add(Warning::new(WarningKind::Dropped, message));
        }
    }

    /// The line of something queued; `None` if it was forgotten meanwhile.
    fn line(&self, queued: &Queued, origin: &str) -> Option<Line> {
        match queued.clone() {
            Queued::Fact { key, origin } => self.union.seen(&key, &origin).map(Line::Fact),
            Queued::Verdict { device, problem, terms } => {
                self.union.verdict(&device, &problem, &terms).map(Line::Verdict)
            }
            Queued::Forget(filter) => {
                let before_ms = self.union.forget(&filter)?;
                Some(Line::Forget(Forget { filter, before_ms }))
            }
            Queued::Intent { device, kernel, version, point } => {
                let origin = origin.to_string();
                let key = (origin.clone(), device.clone(), kernel.clone(), version.clone(), point.clone());
                let (at_ms, done) = self.union.intent(&key)?;
                Some(Line::Intent(Intent { device, kernel, version, point, origin, at_ms, done }))
            }
        }
    }
}

/// What is remembered, in memory and in the store it was opened on.
///
/// Nothing here fails: trouble with the store becomes a warning, and what could not be written is kept and tried again.
#[derive(Debug)]
pub struct Wisdom {
    view: Mutex<View>,
    state: Mutex<State>,
    origin: String,
    /// The process that writes: a forked child remembers what it learns for itself.
    process: u32,
    pub(crate) store: Option<Arc<dyn Store>>,
    dir: Option<PathBuf>,
    /// The time, where a test says what it is.
    #[cfg(test)]
    set_ms: Option<Arc<std::sync::atomic::AtomicU64>>,
}

impl Wisdom {
    /// Remembers until it is dropped, alone: nothing is written anywhere. Several that share what they remember are
    /// opened on one [`Memory`](crate::Memory).
    pub fn in_memory() -> Wisdom {
        Wisdom::over(None)
    }

    /// Remembers in a store. If that cannot be read or written, it is a warning.
    pub fn on(store: Arc<dyn Store>) -> Wisdom {
        Wisdom::over(Some(store)).begun()
    }

    /// Remembers in a directory, which is made if it is missing. If it cannot be read or written, that is a warning.
    pub fn open(dir: &Path) -> Wisdom {
        let directory = Directory::new(dir);
        let made = directory.make();
        let mut wisdom = Wisdom::over(Some(Arc::new(directory)));
        wisdom.dir = Some(dir.to_path_buf());
        if let Err(error) = made {
            let message = format!(
                "cannot make the directory {}: {error}; measurements are kept in memory only, name another directory",
                dir.display()
            );
            wisdom.state().warnings.add(Warning::new(WarningKind::NotWritable, message));
        }
        wisdom.begun()
    }

    fn over(store: Option<Arc<dyn Store>>) -> Wisdom {
        let view = View::new(store.clone());
        let origin = view.origin.clone();
        let state = State { persistent: store.is_some(), ..State::default() };
        Wisdom {
            view: Mutex::new(view),
            state: Mutex::new(state),
            origin,
            process: std::process::id(),
            store,
            dir: None,
            #[cfg(test)]
            set_ms: None,
        }
    }

    fn begun(self) -> Wisdom {
        self.reload();
        self.compact_if_needed(MAX_SEGMENTS_AT_OPEN, u64::MAX);
        self
    }

    /// Whether this process opened it. A forked child has the parent's file open and what waits to be written, and writes neither: the
    /// parent does.
    pub(crate) fn is_here(&self) -> bool {
        self.process == std::process::id()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory it was opened on.
    pub fn dir(&self) -> Option<PathBuf> {
        self.dir.clone()
    }

    /// Where it is kept, as people know it: a path, an address. `None` if it is not.
    pub fn place(&self) -> Option<String> {
        self.store.as_ref().map(|store| store.place())
    }

    /// The id of this process start in facts and file names.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// What went wrong so far, each once. Kept, not drained.
    pub fn warnings(&self) -> Vec<Warning> {
        self.state().warnings.list()
    }

    /// The merged facts about a problem on a device.
    pub fn facts(&self, device: &str, problem: &str) -> Vec<Fact> {
        self.state().union.facts(device, problem)
    }

    /// The merged facts about a device.
    pub fn device_facts(&self, device: &str) -> Vec<Fact> {
        self.state().union.device_facts(device)
    }

    /// The devices, problems and versions a kernel was measured on.
    pub fn places(&self, kernel: &str) -> Vec<MeasuredOn> {
        self.state().union.places(kernel)
    }

    /// All merged facts.
    pub fn all_facts(&self) -> Vec<Fact> {
        self.state().union.all_facts()
    }

    /// The number of merged facts.
    pub fn len(&self) -> usize {
        self.state().union.len()
    }

    /// Whether there is no fact.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Who won that race last.
    pub fn verdict(&self, device: &str, problem: &str, terms: &str) -> Option<Verdict> {
        self.state().union.verdict(device, problem, terms)
    }

    /// The last verdict of every race.
    pub fn verdicts(&self) -> Vec<Verdict> {
        self.state().union.verdicts().collect()
    }

    /// Remembers an outcome: at once in memory, with the next [`flush`](Wisdom::flush) in the store. Times of the same key
    /// add up; a failure replaces them, and a time after a failure starts anew.
    pub fn record(&self, key: FactKey, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Failed { kind, message } => {
                Outcome::Failed { kind, message: shortened(&message, MAX_MESSAGE_BYTES).into_owned() }
            }
            timed => timed,
        };
        let mut state = self.state();
        if let Some(why) = outcome.stats().and_then(|stats| stats.impossible()) {
            let kernel = shortened(&key.kernel, 80);
            let message = format!("a measurement of {kernel:?} is not remembered: {why}; correct its device");
            return state.warnings.add(Warning::new(WarningKind::Refused, message));
        }
        let mut at_ms = self.now_ms();
        // What is recorded last is the newest, even if this machine's clock is behind another's.
        at_ms =
            at_ms.max(just_after(state.union.forgotten_until(&key.device, &key.kernel, Some(&key.problem))));
        if let Some(others) = state.union.newest_of_others(&key, &self.origin) {
            at_ms = at_ms.max(just_after(others));
        }
        let mut known = false;
        let outcome = match (state.union.seen(&key, &self.origin), outcome) {
            (Some(Fact { outcome: Outcome::Timed(old), last_seen_ms, .. }), Outcome::Timed(new)) => {
                at_ms = at_ms.max(last_seen_ms);
                // Whole days: half a second at a time would round to no age at all.
                let days = at_ms / DAY_MS - last_seen_ms / DAY_MS;
                known = true;
                Outcome::Timed(old.aged(days * DAY_MS).map_or(new, |old| old.merge(&new)))
            }
            (Some(Fact { last_seen_ms, .. }), outcome) => {
                at_ms = at_ms.max(just_after(last_seen_ms));
                outcome
            }
            (None, outcome) => outcome,
        };
        // Calls go on for months: what they say is written again only when it is news.
        let stays = match &outcome {
            Outcome::Timed(stats) if known && state.persistent && is_live(key.condition.name()) => {
                !state.told.is_news(&key, stats, at_ms)
            }
            _ => false,
        };
        if let (Outcome::Timed(stats), false, true) = (&outcome, stays, is_live(key.condition.name())) {
            state.told.tell(&key, stats, at_ms);
        }
        let fact = Fact { key: key.clone(), origin: self.origin.clone(), outcome, last_seen_ms: at_ms };
        if self.take(&mut state, Line::Fact(fact)) && !stays {
            state.enqueue(Queued::Fact { key, origin: self.origin.clone() });
        }
    }

    /// Milliseconds since 1970, as facts are dated with. Only orders and ages what is remembered.
    pub fn now_ms(&self) -> u64 {
        #[cfg(test)]
        if let Some(set_ms) = &self.set_ms {
            return set_ms.load(std::sync::atomic::Ordering::Relaxed);
        }
        wall::now_ms()
    }

    /// Remembers who won a race: at once in memory, with the next flush in the store. Its origin and time are filled in.
    pub fn decide(&self, verdict: Verdict) {
        let mut state = self.state();
        let Verdict { device, problem, terms, .. } = verdict.clone();
        let mut at_ms = self.now_ms();
        at_ms = at_ms.max(just_after(state.union.forgotten_until(&device, &verdict.kernel, Some(&problem))));
        if let Some(last) = state.union.verdict(&device, &problem, &terms) {
            at_ms = at_ms.max(just_after(last.last_seen_ms));
        }
        let verdict = Verdict { origin: self.origin.clone(), last_seen_ms: at_ms, ..verdict };
        if self.take(&mut state, Line::Verdict(verdict)) {
            state.enqueue(Queued::Verdict { device, problem, terms });
        }
    }

    /// Takes a line of our own in if it can be written.
    fn take(&self, state: &mut State, line: Line) -> bool {
        if let Err(why) = encode(&line, &self.origin) {
            let message = format!("something is not remembered: {why}; use shorter names");
            state.warnings.add(Warning::new(WarningKind::Refused, message));
            return false;
        }
        state.union.insert(line);
        if state.union.live_entries() > MAX_LIVE_FACTS {
            state.trim_live();
        }
        if state.union.entries() > MAX_FACTS || state.union.verdict_count() > MAX_VERDICTS {
            state.trim(0);
        }
        true
    }

    /// Says that a point is about to run for the first time. Everything queued is handed to the system before this
    /// returns, so that a crash of the process loses nothing and names the point.
    pub fn intend(&self, device: &str, kernel: &str, version: &str, point: &str) {
        self.mark(device, kernel, version, point, false);
    }

    /// Says that it came back, however it ended.
    pub fn done(&self, device: &str, kernel: &str, version: &str, point: &str) {
        self.mark(device, kernel, version, point, true);
    }

    fn mark(&self, device: &str, kernel: &str, version: &str, point: &str, done: bool) {
        let [device, kernel, version, point] = [device, kernel, version, point].map(str::to_string);
        let key = (self.origin.clone(), device.clone(), kernel.clone(), version.clone(), point.clone());
        let mut state = self.state();
        if state.withdrawn && !done {
            return;
        }
        let mut at_ms = self.now_ms().max(just_after(state.union.forgotten_until(&device, &kernel, None)));
        if let Some((last, _)) = state.union.intent(&key) {
            at_ms = at_ms.max(just_after(last));
        }
        let queued = Queued::Intent {
            device: device.clone(),
            kernel: kernel.clone(),
            version: version.clone(),
            point: point.clone(),
        };
        let origin = self.origin.clone();
        if self.take(&mut state, Line::Intent(Intent { device, kernel, version, point, origin, at_ms, done }))
        {
            state.enqueue(queued);
            if state.union.intent_count() > MAX_INTENTS {
                state.trim(0);
            }
        }
        drop(state);
        self.write_queued();
    }

    /// Takes back every note of ours that a point is about to run, and takes no more: whatever ends this process now, it is not the
    /// point. Other threads go on meanwhile, and one of them may start the next.
    pub fn withdraw(&self) {
        let mut state = self.state();
        state.withdrawn = true;
        let open: Vec<Intent> =
            state.union.intents().filter(|intent| !intent.done && intent.origin == self.origin).collect();
        drop(state);
        open.iter()
            .for_each(|intent| self.done(&intent.device, &intent.kernel, &intent.version, &intent.point));
    }

    /// Where processes died, as of the last look at the store: points that ran when one ended without a word. One death
    /// may be anybody's fault, a power failure's or `kill -9`'s. Only forgetting the kernel or the device takes it back.
    pub fn deaths(&self) -> Vec<Death> {
        let state = self.state();
        let dead = |intent: &Intent| {
            !intent.done && intent.origin != self.origin && !state.alive.contains(&intent.origin)
        };
        let mut deaths: BTreeMap<[String; 4], (usize, u64)> = BTreeMap::new();
        for Intent { device, kernel, version, point, at_ms, .. } in state.union.intents().filter(dead) {
            let (count, last) = deaths.entry([device, kernel, version, point]).or_default();
            (*count, *last) = (*count + 1, at_ms.max(*last));
        }
        let death = |(key, (count, last_ms)): ([String; 4], (usize, u64))| {
            let [device, kernel, version, point] = key;
            Death { device, kernel, version, point, count, last_ms }
        };
        deaths.into_iter().map(death).collect()
    }

    /// Points of a kernel at which at least one process died.
    pub fn died(&self, device: &str, kernel: &str, version: &str) -> Vec<String> {
        self.died_at_least(1, device, kernel, version)
    }

    /// Points of a kernel at which so many processes died that it is no accident.
    pub fn crashed(&self, device: &str, kernel: &str, version: &str) -> Vec<String> {
        self.died_at_least(CRASHES, device, kernel, version)
    }

    fn died_at_least(&self, count: usize, device: &str, kernel: &str, version: &str) -> Vec<String> {
        let its =
            |death: &Death| (&*death.device, &*death.kernel, &*death.version) == (device, kernel, version);
        let deaths = self.deaths().into_iter();
        deaths.filter(|death| its(death) && death.count >= count).map(|death| death.point).collect()
    }

    /// Writes what is queued and tidies the store if it needs it. Meant for a background thread.
    pub fn flush(&self) {
        self.write_queued();
        self.compact_if_needed(MAX_SEGMENTS, MAX_BYTES);
    }

    /// Hands what is queued to the store. What it refuses stays queued.
    pub(crate) fn write_queued(&self) {
        if !self.is_here() {
            return self.state().queue.clear();
        }
        let mut view = self.view();
        if !view.is_in_place() && !self.state().queue.is_empty() {
            view.writer = None;
            self.queue_own_again();
        }
        loop {
            let (batch, text) = self.next_batch();
            if batch.is_empty() {
                return;
            }
            if text.is_empty() {
                continue;
            }
            match view.append(&text) {
                Ok(()) => view.failing = None,
                Err(error) => {
                    let mut state = self.state();
                    batch.into_iter().for_each(|queued| state.enqueue(queued));
                    if view.failing.replace(error.to_string()).is_none() {
                        let place = self.place().unwrap_or_default();
                        let message = format!(
                            "cannot write to {place}: {error}; measurements are kept in memory and written when it \
                             works again; make room or make it writable, or name another directory"
                        );
                        state.warnings.add(Warning::new(WarningKind::NotWritable, message));
                    }
                    return;
                }
            }
        }
    }

    /// Takes a write's worth from the queue.
    fn next_batch(&self) -> (Vec<Queued>, String) {
        let mut state = self.state();
        let (mut batch, mut text) = (Vec::new(), String::new());
        while text.len() < MAX_WRITE_BYTES {
            let Some(queued) = state.queue.pop_first() else { break };
            if let Some(line) =
                state.line(&queued, &self.origin).and_then(|line| encode(&line, &self.origin).ok())
            {
                text.push_str(&line);
            }
            batch.push(queued);
        }
        (batch, text)
    }

    /// Our segment was removed under us: everything of ours is written again.
    fn queue_own_again(&self) {
        let mut state = self.state();
        let own = state.union.of_origin(&self.origin);
        let own: Vec<Queued> =
            own.map(|(key, _)| Queued::Fact { key, origin: self.origin.clone() }).collect();
        let verdicts = state.union.verdicts().filter(|verdict| verdict.origin == self.origin);
        let verdicts: Vec<Queued> = verdicts
            .map(|Verdict { device, problem, terms, .. }| Queued::Verdict { device, problem, terms })
            .collect();
        own.into_iter().chain(verdicts).for_each(|queued| state.enqueue(queued));
    }

    /// Why the store took nothing the last time, as long as something waits to be written. What was forgotten or imported meanwhile counts in
    /// this process only.
    pub fn refused(&self) -> Option<String> {
        let view = self.view();
        let waits = !self.state().queue.is_empty();
        view.failing.clone().filter(|_| waits)
    }

    /// Takes in what other processes wrote since the last look and says how many lines were news.
    pub fn reload(&self) -> usize {
        let mut view = self.view();
        let mut news = 0;
        let mut dropped = 0;
        let Scan { alive, warnings } = view.scan(&mut |read| {
            let union = &mut self.state().union;
            news += read.take_in(union);
            dropped += union.bound(HELD);
        });
        let mut state = self.state();
        warnings.into_iter().for_each(|warning| state.warnings.add(warning));
        if let Some(alive) = alive {
            state.alive = alive;
        }
        state.trim(dropped);
        news
    }

    /// Forgets what the filter matches, in every segment, for good; says how much of it was known. What is measured
    /// afterwards counts again. Another process that runs now forgets at its next [`reload`](Wisdom::reload).
    pub fn forget(&self, filter: &Filter) -> usize {
        self.reload();
        let mut state = self.state();
        let (count, newest) = state.union.matching(filter);
        let before_ms = self.now_ms().max(newest);
        let forget = Forget { filter: filter.clone(), before_ms };
        let empty = *filter == Filter::default();
        if !empty && self.take(&mut state, Line::Forget(forget)) {
            state.enqueue(Queued::Forget(filter.clone()));
        }
        drop(state);
        self.write_queued();
        count
    }
}

impl Drop for Wisdom {
    /// Writes what is queued, and what live calls said since their facts were last written.
    fn drop(&mut self) {
        if !self.is_here() {
            return;
        }
        let mut state = self.state();
        let State { union, told, .. } = &*state;
        let untold = union.of_origin(&self.origin).filter(|(key, outcome)| {
            is_live(key.condition.name()) && outcome.stats().is_some_and(|stats| !told.is_told(key, stats))
        });
        let untold: Vec<Queued> =
            untold.map(|(key, _)| Queued::Fact { key, origin: self.origin.clone() }).collect();
        untold.into_iter().for_each(|queued| state.enqueue(queued));
        drop(state);
        self.write_queued();
    }
}

#[cfg(test)]
mod tests;
