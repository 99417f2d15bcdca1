//! The directory as one process sees it: what was read of others' segments, and the segment it writes.

use crate::line::Line;
use crate::segment::{self, Progress, Trouble, Writer, name_of};
use crate::warning::{Warning, WarningKind};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// How often the directory is listed again because a file went away while it was read.
const MAX_RELISTS: usize = 16;

/// The directory as this process sees it.
#[derive(Debug)]
pub(crate) struct Disk {
    pub dir: Option<PathBuf>,
    pub origin: String,
    pub writer: Option<Writer>,
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

/// What a look at the directory brought.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub lines: Vec<Line>,
    /// Origins whose processes run; `None` if the directory could not be listed, which says nothing about them.
    pub alive: Option<BTreeSet<String>>,
    pub warnings: Vec<Warning>,
}

/// An id no other process start has: drawn from the system's randomness, the process id and the time.
pub(crate) fn new_origin() -> String {
    let seed = (std::process::id(), crate::wall::now_ms());
    format!("{:016x}", RandomState::new().hash_one(seed))
}

impl Disk {
    pub fn new(dir: Option<PathBuf>) -> Disk {
        Disk {
            dir,
            origin: new_origin(),
            writer: None,
            number: 0,
            own_name: None,
            progress: BTreeMap::new(),
            dead: 0,
            dead_bytes: 0,
            compact_above: 0,
            failing: false,
        }
    }

    /// Whether that is the segment being written.
    pub fn is_own(&self, name: &str) -> bool {
        self.own_name.as_deref() == Some(name)
    }

    /// Takes in what was added to the directory since the last look.
    pub fn scan(&mut self) -> Scan {
        let mut scan = Scan::default();
        let Some(dir) = self.dir.clone() else { return scan };
        for _ in 0..=MAX_RELISTS {
            if self.scan_once(&dir, &mut scan) {
                break;
            }
        }
        scan
    }

    /// One pass over the directory; false if a file went away and the directory is to be listed again: whoever removed
    /// it put its lines into a new one first.
    fn scan_once(&mut self, dir: &Path, scan: &mut Scan) -> bool {
        let (names, more) = match segment::list(dir) {
            Ok(listed) => listed,
            Err(error) if error.kind() == ErrorKind::NotFound => return true,
            Err(error) => {
                let message = format!(
                    "cannot list {}: {error}; nothing is remembered from earlier runs until it is a readable directory",
                    dir.display()
                );
                scan.warnings.push(Warning::new(WarningKind::Unreadable, message));
                return true;
            }
        };
        if more {
            let (dir, most) = (dir.display(), segment::MAX_LISTED);
            let message =
                format!("{dir} holds more than {most} segments; the rest is not read, remove old ones");
            scan.warnings.push(Warning::new(WarningKind::Dropped, message));
        }
        self.progress.retain(|name, _| names.binary_search(name).is_ok());
        (self.dead, self.dead_bytes) = (0, 0);
        scan.alive = Some(BTreeSet::new());
        for name in names {
            if self.is_own(&name) {
                continue;
            }
            match self.scan_file(dir, &name, scan) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => return false,
                Err(error) => {
                    // Not being able to look is no reason to call a process dead.
                    let origin = self.progress.get(&name).map(|progress| progress.origin.clone());
                    scan.alive.iter_mut().for_each(|alive| alive.extend(origin.clone()));
                    let path = dir.join(&name);
                    let message = format!("cannot read {}: {error}; its facts are not used", path.display());
                    scan.warnings.push(Warning::new(WarningKind::Unreadable, message));
                }
            }
        }
        true
    }

    fn scan_file(&mut self, dir: &Path, name: &str, scan: &mut Scan) -> io::Result<()> {
        let path = dir.join(name);
        let shown = path.display();
        let mut file = segment::open(&path)?;
        let alive = segment::is_alive(&file);
        let progress = self.progress.entry(name.to_string()).or_default();
        if progress.unusable {
            return Ok(());
        }
        let read = segment::read_on(&mut file, progress)?;
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
                    match segment::set_aside(&path) {
                        Ok(aside) => {
                            // A file that gets this name later is another one.
                            self.progress.remove(name);
                            let aside = aside.display();
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
        for (line, why) in &read.malformed {
            let message = format!(
                "{shown} line {line} is left out: {why}; the other lines are used, nothing needs to be done"
            );
            scan.warnings.push(Warning::new(WarningKind::MalformedLine, message));
        }
        if read.malformed_count > read.malformed.len() {
            let more = read.malformed_count - read.malformed.len();
            let message = format!("{shown} has {more} more malformed lines; look at the disk");
            scan.warnings.push(Warning::new(WarningKind::MalformedLine, message));
        }
        if let Some(line) = read.torn.filter(|_| !alive) {
            let message = format!(
                "{shown} line {line} is cut off: its process died while writing; that line is lost, nothing needs to be done"
            );
            scan.warnings.push(Warning::new(WarningKind::TornLine, message));
        }
        if read.cut {
            let most = 2 * segment::MAX_SEGMENT_BYTES;
            let message =
                format!("{shown} is larger than {most} bytes; the rest of it is not read, move it away");
            scan.warnings.push(Warning::new(WarningKind::Dropped, message));
        }
        scan.lines.extend(read.lines);
        Ok(())
    }

    /// Appends whole lines to this process' segment, starting one if there is none or the last is full or gone.
    /// True if everything this process ever wrote has to be written again, because its file is gone.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<bool> {
        let Some(dir) = self.dir.clone() else { return Ok(false) };
        let lost = self.writer.as_ref().is_some_and(|writer| !writer.is_in_place());
        let full = self.writer.as_ref().is_some_and(|writer| writer.is_full(lines.len()));
        if lost || full || self.writer.is_none() {
            let name = name_of(&self.origin, self.number);
            let next = Writer::create(&dir, &name, &self.origin)?;
            // Only now the full one is let go: this origin has a locked segment at every moment, so no one takes its
            // open intents for a crash. The full one counts as dead and may be compacted by anyone.
            self.writer = Some(next);
            self.own_name = Some(name);
            self.number += 1;
        }
        match self.writer.as_mut() {
            Some(writer) => writer.append(lines).map(|()| lost),
            None => Ok(lost),
        }
    }
}
