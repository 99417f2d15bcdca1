//! One segment file: writing our own, reading others', telling living writers from dead ones. Decides nothing about
//! what the lines mean. Names of files are made here from an origin we drew ourselves, never from what a line says.

use crate::line::{FORMAT_VERSION, Header, Line, decode, decode_header, encode_header};
use crate::wall;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The size at which a writer starts its next segment, and the most that is read of one.
pub const MAX_SEGMENT_BYTES: u64 = 16 * 1024 * 1024;
/// The most segments that are looked at in one directory.
pub const MAX_LISTED: usize = 4096;
/// Where locks do not work, a segment written to within this time belongs to a living process.
const ALIVE_MS: u64 = 10 * 60 * 1000;
/// The most malformed lines of one file that are told one by one.
const MAX_TOLD: usize = 16;
/// Leftovers of writers that died before their file got its name.
const TEMPORARY: &str = ".new-";

/// A file being written by this process, locked while it is open.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// A write broke off and could not be undone: the next one starts on a line of its own.
    torn: bool,
}

impl Writer {
    /// A new file with its header and these lines, locked before it gets its name: no one ever sees it unlocked.
    pub fn create(dir: &Path, name: &str, origin: &str) -> io::Result<Writer> {
        fs::create_dir_all(dir)?;
        let temporary = dir.join(format!("{TEMPORARY}{name}"));
        // The name holds our own random id: what is there is left from an attempt of ours that failed.
        let _ = fs::remove_file(&temporary);
        let file = OpenOptions::new().create_new(true).append(true).open(&temporary)?;
        // Without locks others go by the time of the last write instead.
        let _ = file.try_lock();
        let mut writer = Writer { file, path: temporary.clone(), bytes: 0, torn: false };
        let header =
            Header { trimtab: FORMAT_VERSION, origin: origin.to_string(), created_ms: wall::now_ms() };
        let path = dir.join(name);
        let done = encode_header(&header)
            .map_err(io::Error::other)
            .and_then(|header| writer.append(header.as_bytes()))
            .and_then(|()| fs::rename(&temporary, &path));
        if let Err(error) = done {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        writer.path = path;
        Ok(writer)
    }

    /// A writer over a file that is already open, such as `/dev/full`.
    #[cfg(test)]
    pub fn over(file: File, path: PathBuf) -> Writer {
        Writer { file, path, bytes: 0, torn: false }
    }

    #[cfg(test)]
    pub fn pretend_torn(&mut self) {
        self.torn = true;
    }

    #[cfg(test)]
    pub fn pretend_full(&mut self) {
        self.bytes = MAX_SEGMENT_BYTES;
    }

    /// Appends whole lines in one write. A write that breaks off is undone, so that it costs nothing but itself.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.bytes += 1;
            self.torn = false;
        }
        match self.file.write_all(lines) {
            Ok(()) => {
                self.bytes += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.torn = self.file.set_len(self.bytes).is_err();
                Err(error)
            }
        }
    }

    /// Whether the file is still where it was made; someone may have cleaned up the directory.
    pub fn is_in_place(&self) -> bool {
        self.path.exists()
    }

    pub fn is_full(&self, more: usize) -> bool {
        self.bytes.saturating_add(more as u64) > MAX_SEGMENT_BYTES
    }

    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Removes the file: what is in it is still elsewhere.
    pub fn remove(&self) {
        let _ = fs::remove_file(&self.path);
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The name of an origin's segment; the first has no number.
pub(crate) fn name_of(origin: &str, number: u32) -> String {
    match number {
        0 => format!("seg-{origin}.jsonl"),
        _ => format!("seg-{origin}-{number}.jsonl"),
    }
}

/// The names of the segments in a directory, in order, and whether there were more than are looked at.
pub(crate) fn list(dir: &Path) -> io::Result<(Vec<String>, bool)> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        // A name that is not UTF-8 is none of ours.
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if name.starts_with("seg-") && name.ends_with(".jsonl") {
            names.push(name);
        }
    }
    names.sort();
    let more = names.len() > MAX_LISTED;
    names.truncate(MAX_LISTED);
    Ok((names, more))
}

/// Opens a segment for reading; an error if it is no regular file, because reading a pipe would block for ever.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

/// Whether the process that writes this file still runs. A shared lock is tried, so that two who ask at the same time
/// do not take each other for the writer.
pub(crate) fn is_alive(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => written_lately(file),
    }
}

/// Takes a dead segment for removal; false if its writer lives or another process is about to remove it.
pub(crate) fn take(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => !written_lately(file),
    }
}

fn written_lately(file: &File) -> bool {
    // A time that cannot be read is no reason to call a living process dead.
    file.metadata().and_then(|data| data.modified()).map_or(true, |then| wall::age_ms(then) < ALIVE_MS)
}

/// How far a segment was read, and what was found until there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub offset: u64,
    pub lines: usize,
    pub bad: usize,
    pub origin: String,
    /// The file cannot be used; it was reported.
    pub unusable: bool,
}

/// Why a file cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It was written by a newer trimtab.
    Newer(u64),
    /// Its header or most of its lines are damaged.
    Damaged(String),
}

/// What was read of a segment.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub lines: Vec<Line>,
    /// Malformed lines with their numbers, the first [`MAX_TOLD`].
    pub malformed: Vec<(usize, String)>,
    pub malformed_count: usize,
    /// The number of a last line without newline.
    pub torn: Option<usize>,
    /// More bytes than are read of one segment.
    pub cut: bool,
    pub trouble: Option<Trouble>,
}

/// Reads what was added since the last time. Lines are returned even of a file in trouble; the caller decides.
pub(crate) fn read_on(file: &mut File, progress: &mut Progress) -> io::Result<Reading> {
    let size = file.metadata()?.len();
    if size < progress.offset {
        *progress = Progress::default();
    }
    let mut bytes =
        Vec::with_capacity(usize::try_from((size - progress.offset).min(MAX_SEGMENT_BYTES)).unwrap_or(0));
    file.seek(SeekFrom::Start(progress.offset))?;
    // Our own writers stop at the limit, give or take a last line.
    let most = 2 * MAX_SEGMENT_BYTES - progress.offset.min(2 * MAX_SEGMENT_BYTES);
    file.take(most).read_to_end(&mut bytes)?;
    let mut read = Reading { cut: size > 2 * MAX_SEGMENT_BYTES, ..Reading::default() };
    let mut rest = bytes.as_slice();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        progress.offset += end as u64 + 1;
        progress.lines += 1;
        if progress.lines == 1 {
            match decode_header(line) {
                Ok(header) if header.trimtab > FORMAT_VERSION => {
                    read.trouble = Some(Trouble::Newer(header.trimtab));
                    return Ok(read);
                }
                Ok(header) => progress.origin = header.origin,
                Err(why) => {
                    read.trouble = Some(Trouble::Damaged(format!("its first line is no header: {why}")));
                    return Ok(read);
                }
            }
        } else if !line.is_empty() {
            match decode(line, &progress.origin) {
                Ok(line) => read.lines.push(line),
                Err(why) => {
                    progress.bad += 1;
                    read.malformed_count += 1;
                    if read.malformed.len() < MAX_TOLD {
                        read.malformed.push((progress.lines, why));
                    }
                }
            }
        }
    }
    if !rest.is_empty() {
        read.torn = Some(progress.lines + 1);
        if progress.lines == 0 {
            read.trouble = Some(Trouble::Damaged("its first line is no header: it has no end".to_string()));
        }
    }
    if progress.bad * 2 > progress.lines {
        let (bad, lines) = (progress.bad, progress.lines);
        read.trouble = Some(Trouble::Damaged(format!("{bad} of its {lines} lines are malformed")));
    }
    Ok(read)
}

/// Renames a damaged file so that it is never read nor overwritten again, and says to what.
pub(crate) fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for number in 1..=MAX_LISTED {
        let aside = path.with_file_name(format!("{name}.damaged-{number}"));
        if !aside.try_exists()? {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::Error::other(format!("there are {MAX_LISTED} damaged files of that name already")))
}

/// Removes files of writers that died before their file got its name.
pub(crate) fn remove_leftovers(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY)
            && let Ok(file) = open(&entry.path())
            && take(&file)
            && !written_lately(&file)
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes renames and removals in a directory durable, where the system can.
pub(crate) fn sync_dir(dir: &Path) {
    if let Ok(dir) = File::open(dir) {
        let _ = dir.sync_all();
    }
}
