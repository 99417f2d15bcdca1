//! The store as one process sees it: what was read of others' segments, and the segment it writes.

use crate::line::Line;
use crate::segment::{self, Progress, Trouble, name_of};
use crate::store::{Store, Writer};
use crate::warning::{Warning, WarningKind};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::sync::Arc;

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
    /// Segments without a living writer, and their size, as of the last look.
    pub dead: usize,
    pub dead_bytes: u64,
    /// Compaction failed or found nothing to do at this many dead segments; more are needed to try again.
    pub compact_above: usize,
    /// The last write failed; it was reported.
    pub failing: bool,
}

/// What a look at the store brought.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub lines: Vec<Line>,
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

    /// Takes in what was added to the store since the last look.
    pub fn scan(&mut self) -> Scan {
        let mut scan = Scan::default();
        let Some(store) = self.store.clone() else { return scan };
        for _ in 0..=MAX_RELISTS {
            if self.scan_once(store.as_ref(), &mut scan) {
                break;
            }
        }
        scan
    }

    /// One pass over the store; false if a segment went away and the store is to be listed again: whoever removed
    /// it put its lines into a new one first.
    fn scan_once(&mut self, store: &dyn Store, scan: &mut Scan) -> bool {
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
        for name in names {
            if self.is_own(&name) {
                continue;
            }
            match self.scan_segment(store, &name, scan) {
                Ok(()) => {}
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
        }
        true
    }

    fn scan_segment(&mut self, store: &dyn Store, name: &str, scan: &mut Scan) -> io::Result<()> {
        let shown = store.at(name);
        let progress = self.progress.entry(name.to_string()).or_default();
        if progress.unusable {
            return Ok(());
        }
        let read = segment::read_on(store, name, progress)?;
        let alive = read.alive;
        if alive {
            scan.alive.iter_mut().for_each(|alive| alive.extend([progress.origin.clone()]));
        } else {
            self.dead += 1;
            self.dead_bytes += progress.offset;
        }
        match read.trouble {
            Some(Trouble::Newer(version)) => {
                progress.unusable = true;
                let message = format!(
                    "{shown} has format {version}, newer than this trimtab reads; it is left alone and not used"
                );
                scan.warnings.push(Warning::new(WarningKind::NewerVersion, message));
                return Ok(());
            }
            Some(Trouble::Damaged(why)) => {
                progress.unusable = true;
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
                return Ok(());
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
        scan.lines.extend(read.lines);
        Ok(())
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
        (self.writer, self.own_name, self.bytes) = (Some(next), Some(name), text.len() as u64);
        Ok(())
    }
}
