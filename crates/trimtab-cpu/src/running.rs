//! Which kernel each thread runs, in the memory of a file: it outlives a process that a kernel ends.
//!
//! Entering and leaving a kernel is a store each, so it can be done around every call. A signal that ends the process is noted in the
//! same file by who receives it, and handed on ([`signals`]): an interruption, or `kill -9`, leaves no such note. Only the thread that
//! received it, or the one it helped, is sure to have died of what it ran; what other threads ran is suspect. Unix only.

#[cfg(unix)]
mod signals;
#[cfg(not(unix))]
#[path = "running/no_signals.rs"]
mod signals;

use crate::process::Process;
use signals::Map;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that are told apart at a time; what more of them run is not noted.
const THREADS: usize = 256;
/// Different texts one process can write, and the longest.
const TEXTS: usize = 4096;
const TEXT_BYTES: usize = 512;
/// Numbers in a line of the processor's caches: each thread writes to a line of its own.
const LINE: usize = 8;
/// The file: a line for the process, one for each thread, then the texts.
const NUMBERS: usize = (1 + THREADS) * LINE;
const NUMBER_BYTES: usize = NUMBERS * size_of::<u64>();
/// In the process's line: the signal that a thread received which ran nothing that is noted, and what kind of file it is.
const PROCESS: usize = 0;
const KIND: usize = 1;
const KIND_IS: u64 = 0x7472_696d_7461_6202;
/// How a text begins that lists the numbers of others.
const TOGETHER: char = '#';
/// In a thread's number: the entry in the lower half, the signal in the upper.
const SIGNAL: u32 = 32;

/// A file that tells what runs.
#[derive(Debug)]
pub struct Running {
    map: Map,
    /// Locked while this process lives.
    file: File,
    /// Who tells: a forked child has the same memory, and writes nothing to it.
    process: Process,
}

/// A number for a text in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u32);

impl Entry {
    /// The number, from one on.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The entry of that number.
    pub fn of(number: u32) -> Option<Entry> {
        (1..=TEXTS as u32).contains(&number).then_some(Entry(number))
    }

    /// A text that stands for those of several entries: what a device was given together. One of them is to blame.
    pub fn together(entries: &[Entry]) -> String {
        let numbers: Vec<String> = entries.iter().map(|entry| entry.0.to_string()).collect();
        format!("{TOGETHER}{}", numbers.join(","))
    }
}

/// While it lives, this thread runs what the entry says.
pub struct Inside<'a> {
    running: &'a Running,
    at: usize,
    before: u64,
}

impl Inside<'_> {
    /// What it runs.
    pub fn entry(&self) -> Option<Entry> {
        Entry::of(self.running.map.load(self.at) as u32)
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.running.is_here() {
            self.running.map.store(self.at, self.before);
        }
    }
}

/// What ran when a signal ended a process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ran {
    /// The text of its entry.
    pub text: String,
    /// The signal's number.
    pub signal: u32,
    /// Whether the thread that received the signal ran it and nothing else, or helped who did. Else some other thread did.
    pub is_certain: bool,
}

impl Running {
    /// A new file of that name. From then on fatal signals are noted in it, until it is dropped.
    pub fn create(path: &Path) -> io::Result<Running> {
        use std::io::Write;
        let mut file = File::options().read(true).write(true).create_new(true).open(path)?;
        // Without locks nobody can tell whether this process lives, and nobody asks.
        file.try_lock().map_err(|error| io::Error::other(error.to_string()))?;
        // Written, not only made that long: memory of a file that the disk has no room for ends the process.
        file.write_all(&[0; NUMBER_BYTES])?;
        let map = Map::new(&file)?;
        map.store(KIND, KIND_IS);
        Ok(Running { map, file, process: Process::this() })
    }

    /// Whether this process made it. A forked child is told of nowhere.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.process.is_this()
    }

    /// Writes a text that can be entered; its number is the caller's to choose. Nothing if it is too long or cannot be written.
    pub fn write(&self, number: u32, text: &str) -> Option<Entry> {
        let entry = Entry::of(number).filter(|_| text.len() < TEXT_BYTES && self.is_here())?;
        let room = NUMBER_BYTES + (number as usize - 1) * TEXT_BYTES;
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(TEXT_BYTES, 0);
        signals::write_at(&self.file, &bytes, room as u64).ok()?;
        Some(entry)
    }

    /// This thread runs something now. Nothing if it is one of too many threads, or of a forked child.
    #[inline]
    pub fn enter(&self, Entry(number): Entry) -> Option<Inside<'_>> {
        let at = line_of(place().filter(|_| self.is_here())?);
        let before = self.map.load(at) & u64::from(u32::MAX);
        self.map.store(at, u64::from(number));
        Some(Inside { running: self, at, before })
    }

    /// The files in a directory whose names begin so.
    pub fn files(dir: &Path, name: &str) -> Vec<std::path::PathBuf> {
        let Ok(files) = std::fs::read_dir(dir) else { return Vec::new() };
        let is_its = |path: &std::path::PathBuf| {
            path.file_name().is_some_and(|own| own.to_string_lossy().starts_with(name))
        };
        files.filter_map(|file| Some(file.ok()?.path())).filter(is_its).collect()
    }

    /// Removes a file that nobody needs any more. One that stays is read again, and says the same.
    pub fn remove(path: &Path) {
        let _ = std::fs::remove_file(path);
    }

    /// What ran when a signal ended the process that wrote a file; nothing while it lives.
    pub fn left_by_the_dead(path: &Path) -> io::Result<Option<Vec<Ran>>> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() || file.try_lock().is_err() {
            return Ok(None);
        }
        let bytes = std::fs::read(path)?;
        let Some((numbers, texts)) = bytes.split_at_checked(NUMBER_BYTES) else {
            return Ok(Some(Vec::new()));
        };
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let numbers: Vec<u64> = numbers.chunks_exact(size_of::<u64>()).map(number).collect();
        if numbers[KIND] != KIND_IS {
            return Ok(Some(Vec::new()));
        }
        let text = |entry: u32| {
            let text = texts.chunks(TEXT_BYTES).nth((entry as usize).checked_sub(1)?)?;
            let text = String::from_utf8(text.split(|byte| *byte == 0).next()?.to_vec()).ok()?;
            (!text.is_empty()).then_some(text)
        };
        let threads = || {
            numbers[LINE..].iter().step_by(LINE).map(|number| (*number as u32, (*number >> SIGNAL) as u32))
        };
        // Where a thread received it, the others are not to blame.
        let own = threads().any(|(_, signal)| signal > 0);
        let elsewhere = if own { 0 } else { numbers[PROCESS] as u32 };
        let mut ran: Vec<Ran> = Vec::new();
        for (entry, own) in threads().filter(|(_, own)| (*own).max(elsewhere) > 0) {
            let (Some(own_text), signal) = (text(entry), own.max(elsewhere)) else { continue };
            match own_text.strip_prefix(TOGETHER) {
                None => ran.push(Ran { text: own_text, signal, is_certain: own > 0 }),
                Some(list) => {
                    let texts = list.split(',').filter_map(|number| text(number.parse().ok()?));
                    ran.extend(texts.map(|text| Ran { text, signal, is_certain: false }));
                }
            }
        }
        ran.sort();
        ran.dedup();
        Ok(Some(ran))
    }
}

/// No place yet, or none at all.
const UNASKED: u32 = u32::MAX;
const NONE: u32 = u32::MAX - 1;

thread_local! {
    /// This thread's place. Nothing is done when the thread ends, so that it can be read while a signal is received.
    static PLACE: Cell<u32> = const { Cell::new(UNASKED) };
    /// The place of the thread that this one helps.
    static HELPS: Cell<u32> = const { Cell::new(NONE) };
    static KEPT: Kept = const { Kept(Cell::new(NONE)) };
}

/// Places that threads have, a bit each.
static TAKEN: [AtomicU64; THREADS / 64] = [const { AtomicU64::new(0) }; THREADS / 64];

/// Gives a place back when its thread ends.
struct Kept(Cell<u32>);

impl Drop for Kept {
    fn drop(&mut self) {
        PLACE.set(NONE);
        if let Some(word) = TAKEN.get(self.0.get() as usize / 64) {
            word.fetch_and(!(1 << (self.0.get() % 64)), Ordering::AcqRel);
        }
    }
}

/// This thread's place.
#[inline]
fn place() -> Option<u32> {
    let place = PLACE.get();
    if place == UNASKED { find_place() } else { Some(place).filter(|place| *place != NONE) }
}

#[cold]
fn find_place() -> Option<u32> {
    let free = |(word, bits): (usize, &AtomicU64)| {
        let take = |taken: u64| (taken != u64::MAX).then(|| taken | (taken + 1));
        let before = bits.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).ok()?;
        Some(word as u32 * 64 + before.trailing_ones())
    };
    // A thread that is ending gets none: nobody would give it back.
    let found = KEPT.try_with(|kept| {
        let place = TAKEN.iter().enumerate().find_map(free);
        kept.0.set(place.unwrap_or(NONE));
        place
    });
    let place = found.ok().flatten();
    PLACE.set(place.unwrap_or(NONE));
    place
}

fn line_of(place: u32) -> usize {
    (1 + place as usize) * LINE
}

/// Whose work a thread does: what a helper dies of is what the caller runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller(u32);

impl Caller {
    /// Nobody.
    pub(crate) const NOBODY: Caller = Caller(NONE);

    /// This thread.
    #[inline]
    pub(crate) fn here() -> Caller {
        Caller(PLACE.get())
    }

    /// From now on this thread helps that one.
    #[inline]
    pub(crate) fn help(self) {
        HELPS.set(self.0);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
