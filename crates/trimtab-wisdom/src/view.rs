//! The store as one process sees it: what was read of others' segments, and the segment it writes.

use crate::segment::{self, Progress, Reading, Trouble, name_of};
use crate::store::{Store, Writer};
use crate::warning::{Warning, WarningKind};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::sync::{Arc, mpsc};
use std::thread;

/// With so many segments to look at, others read and parse while this thread takes in what is there.
const READ_AHEAD_FROM: usize = 3;
/// Threads that read, in turns.
const READERS: usize = 2;
/// Segments each has ready: each is at most 32 MiB of text, and as much again for what its lines say.
const READ_AHEAD: usize = 1;
/// How often the store is listed again because a segment went away while it was read.
const MAX_RELISTS: usize = 16;

/// The store as this process sees it.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub store: Option<Arc<dyn Store>>,
    pub origin: String,
    pub writer: Option<Box<dyn Writer>>,
    /// The size of the segment being written.
    pub bytes: u64,
    /// The number of the next segment of this process.
    number: u32,
    /// The name of the segment being written: our own lines are in memory already.
    own_name: Option<String>,
    progress: BTreeMap<String, Progress>,
    /// Segments without a living writer, and their size, as of the last look and with those of ours that were full since.
    pub dead: usize,
    pub dead_bytes: u64,
    /// The size of our own among them since the last compaction, and what that one left.
    pub let_go_bytes: u64,
    pub compact_bytes: u64,
    /// Compaction failed or found nothing to do at this many dead segments; more are needed to try again.
    pub compact_above: usize,
    /// Why the last write failed; it was reported.
    pub failing: Option<String>,
}

/// What a look at the store brought.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Origins whose processes run; `None` if the store could not be listed, which says nothing about them.
    pub alive: Option<BTreeSet<String>>,
    pub warnings: Vec<Warning>,
}

/// An id no other process start has: drawn from the system's randomness, the process id and the time.
pub(crate) fn new_origin() -> String {
    let seed = (std::process::id(), crate::wall::now_ms());
    format!("{:016x}", RandomState::new().hash_one(seed))
}

impl View {
    pub fn new(store: Option<Arc<dyn Store>>) -> View {
        View { store, origin: new_origin(), ..View::default() }
    }

    /// Whether that is the segment being written.
    pub fn is_own(&self, name: &str) -> bool {
        self.own_name.as_deref() == Some(name)
    }

    /// Hands over what was added to the store since the last look, a segment at a time.
    pub fn scan(&mut self, take_in: &mut dyn FnMut(Reading)) -> Scan {
        let mut scan = Scan::default();
        let Some(store) = self.store.clone() else { return scan };
        for _ in 0..=MAX_RELISTS {
            if self.scan_once(store.as_ref(), &mut scan, take_in) {
                break;
            }
        }
        scan
    }

    /// One pass over the store; false if a segment went away and the store is to be listed again: whoever removed
    /// it put its lines into a new one first.
    fn scan_once(&mut self, store: &dyn Store, scan: &mut Scan, take_in: &mut dyn FnMut(Reading)) -> bool {
        let (names, more) = match segment::list(store) {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NotFound => return true,
            Err(error) => {
                let message = format!(
                    "cannot list {}: {error}; nothing is remembered from earlier runs until it can be read",
                    store.place()
                );
                scan.warnings.push(Warning::new(WarningKind::Unreadable, message));
                return true;
            }
        };
        if more {
            let (place, most) = (store.place(), segment::MAX_LISTED);
            let message =
                format!("{place} holds more than {most} segments; the rest is not read, remove old ones");
            scan.warnings.push(Warning::new(WarningKind::Dropped, message));
        }
        self.progress.retain(|name, _| names.binary_search(name).is_ok());
        (self.dead, self.dead_bytes) = (0, 0);
        scan.alive = Some(BTreeSet::new());
        let progress = |name: String| {
            let progress = self.progress.get(&name).cloned().unwrap_or_default();
            (!self.is_own(&name) && !progress.unusable).then_some((name, progress))
        };
        let todo: Vec<(String, Progress)> = names.into_iter().filter_map(progress).collect();
        each_read(store, todo, &mut |name, progress, read| {
            match read {
                Ok(read) => {
                    let counts = self.take_segment(store, &name, progress, read, scan);
                    counts.into_iter().for_each(&mut *take_in);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => return false,
                Err(error) => {
                    // Not being able to look is no reason to call a process dead.
                    let origin = self.progress.get(&name).map(|progress| progress.origin.clone());
                    scan.alive.iter_mut().for_each(|alive| alive.extend(origin.clone()));
                    let shown = store.at(&name);
                    let message = format!("cannot read {shown}: {error}; its facts are not used");
                    scan.warnings.push(Warning::new(WarningKind::Unreadable, message));
                }
            }
            true
        })
    }

    /// Notes what was read of a segment and gives back what of it counts.
    fn take_segment(
        &mut self,
        store: &dyn Store,
        name: &str,
        progress: Progress,
        mut read: Reading,
        scan: &mut Scan,
    ) -> Option<Reading> {
        let shown = store.at(name);
        let alive = read.alive;
        if alive {
            scan.alive.iter_mut().for_each(|alive| alive.extend([progress.origin.clone()]));
        } else {
            self.dead += 1;
            self.dead_bytes += progress.offset;
        }
        let unusable = Progress { unusable: true, ..progress.clone() };
        self.progress.insert(name.to_string(), progress);
        match read.trouble.take() {
            Some(Trouble::Newer(version)) => {
                self.progress.insert(name.to_string(), unusable);
                let message = format!(
                    "{shown} has format {version}, newer than this trimtab reads; it is left alone and not used"
                );
                scan.warnings.push(Warning::new(WarningKind::NewerVersion, message));
                return None;
            }
            Some(Trouble::Damaged(why)) => {
                self.progress.insert(name.to_string(), unusable);
                let what = if alive {
                    "its writer still runs, so it stays in place".to_string()
                } else {
                    match store.set_aside(name) {
                        Ok(aside) => {
                            // A segment that gets this name later is another one.
                            self.progress.remove(name);
                            let aside = store.at(&aside);
                            format!(
                                "kept aside as {aside}; look at the disk, and import that file to rescue its good lines"
                            )
                        }
                        Err(error) => format!("it could not be renamed ({error}); move it away"),
                    }
                };
                let message = format!("{shown} is damaged and not used: {why}; {what}");
                scan.warnings.push(Warning::new(WarningKind::DamagedFile, message));
                return None;
            }
            None => {}
        }
        let mut warn = |kind, what: String| scan.warnings.push(Warning::new(kind, format!("{shown} {what}")));
        for (line, why) in &read.malformed {
            let rest = "the other lines are used, nothing needs to be done";
            warn(WarningKind::MalformedLine, format!("line {line} is left out: {why}; {rest}"));
        }
        let more = read.malformed_count - read.malformed.len();
        if more > 0 {
            warn(WarningKind::MalformedLine, format!("has {more} more malformed lines; look at the disk"));
        }
        if let Some(line) = read.torn.filter(|_| !alive) {
            let rest = "its process died while writing; that line is lost, nothing needs to be done";
            warn(WarningKind::TornLine, format!("line {line} is cut off: {rest}"));
        }
        if read.cut {
            let most = segment::MAX_READ_BYTES;
            let what = format!("is larger than {most} bytes; the rest of it is not read, move it away");
            warn(WarningKind::Dropped, what);
        }
        if read.ahead > 0 {
            let what =
                "dated more than a day ahead of this machine's clock and not used yet; set the clock right";
            warn(WarningKind::Dropped, format!("has {} lines {what}", read.ahead));
        }
        Some(read)
    }

    /// Whether this process' segment is still in the store; true if it has none.
    pub fn is_in_place(&mut self) -> bool {
        self.writer.as_mut().is_none_or(|writer| writer.is_in_place())
    }

    /// Appends whole lines to this process' segment, starting one if there is none or the last is full.
    pub fn append(&mut self, lines: &str) -> io::Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let size = self.bytes.saturating_add(lines.len() as u64);
        if let Some(writer) = self.writer.as_mut().filter(|_| size <= store.segment_bytes()) {
            self.bytes = size;
            return writer.append(lines.as_bytes());
        }
        let name = name_of(&self.origin, self.number);
        // A number is used once: an attempt that failed may have left something under its name.
        self.number += 1;
        let text = segment::header(&self.origin)? + lines;
        let next = store.create(&name, text.as_bytes())?;
        // Only now the full one is let go: this origin has a living segment at every moment, so no one takes its
        // open intents for a crash. The full one counts as dead and may be compacted by anyone.
        if self.writer.replace(next).is_some() {
            self.dead += 1;
            self.dead_bytes += self.bytes;
            self.let_go_bytes += self.bytes;
        }
        (self.own_name, self.bytes) = (Some(name), text.len() as u64);
        Ok(())
    }
}

/// Reads segments in order and hands each over, until it is told to stop; whether it was not. Many are read by further threads while this one
/// takes in what is there: parsing takes about half as long again, so that one reader would keep it waiting.
fn each_read(
    store: &dyn Store,
    todo: Vec<(String, Progress)>,
    take: &mut dyn FnMut(String, Progress, io::Result<Reading>) -> bool,
) -> bool {
    let read = |(name, mut progress): (String, Progress)| {
        let read = segment::read_on(store, &name, &mut progress);
        (name, progress, read)
    };
    let mut take = |(name, progress, read)| take(name, progress, read);
    if todo.len() < READ_AHEAD_FROM {
        return todo.into_iter().map(read).all(take);
    }
    thread::scope(|scope| {
        let reader = |nth: usize| {
            let (ahead, reads) = mpsc::sync_channel(READ_AHEAD);
            let its: Vec<_> = todo.iter().skip(nth).step_by(READERS).cloned().collect();
            // Whoever takes them may stop early: then sending fails and nothing more is read.
            let work = move || its.into_iter().map(read).try_for_each(|read| ahead.send(read).map_err(drop));
            let thread = thread::Builder::new().name("trimtab-reads".to_string());
            thread.spawn_scoped(scope, work).ok().map(|_| reads)
        };
        let readers: Option<Vec<_>> = (0..READERS).map(reader).collect();
        match readers {
            Some(readers) => (0..todo.len()).map_while(|at| readers[at % READERS].recv().ok()).all(&mut take),
            None => todo.iter().cloned().map(read).all(&mut take),
        }
    })
}
