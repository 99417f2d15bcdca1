//! A directory as a store: a file a segment, locked while its writer lives. Joins names that wisdom made or that were
//! listed here, never what a line says.

use crate::blob::MAX_STORED;
use crate::files::open;
use crate::private;
use crate::segment::MAX_LISTED;
use crate::store::{NewSegment, Old, Part, Store, Writer, aside_name};
use crate::view::new_origin;
use crate::wall;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Where locks do not work, a segment written to within this time belongs to a living process.
const ALIVE_MS: u64 = 10 * 60 * 1000;
/// Leftovers of writers that died before their file got its name.
const TEMPORARY: &str = ".new-";
/// Where blobs lie.
const BLOBS: &str = "blobs";

/// Segments as files in a directory, which is made when something is written.
#[derive(Clone, Debug)]
pub struct Directory {
    dir: PathBuf,
}

impl Directory {
    /// The store in that directory.
    pub fn new(dir: impl Into<PathBuf>) -> Directory {
        Directory { dir: dir.into() }
    }

    /// Makes the directory if it is missing, for its owner alone, and takes one of ours from others unless it is shared on purpose.
    pub(crate) fn make(&self) -> io::Result<()> {
        private::tighten(&self.dir);
        private::tighten(&self.dir.join(BLOBS));
        private::make(&self.dir)
    }

    /// A dead segment as it was read, locked for removal; `None` if its writer lives, if it grew, or if another process is
    /// about to remove it.
    fn taken(&self, old: &Old) -> Option<File> {
        let file = open(&self.dir.join(&old.name)).ok()?;
        (take(&file) && file.metadata().is_ok_and(|data| data.len() == old.size)).then_some(file)
    }

    /// Writes files in full and to the disk itself; none is left if one cannot be written.
    fn write_all(&self, new: &mut dyn Iterator<Item = NewSegment>) -> io::Result<()> {
        let mut written = Vec::new();
        for (name, text) in new {
            let done = FileWriter::create(&self.dir, &name, &text).and_then(|file| {
                written.push(file.path.clone());
                file.file.sync_all()
            });
            if let Err(error) = done {
                written.iter().for_each(|path| drop(fs::remove_file(path)));
                return Err(error);
            }
        }
        self.sync();
        Ok(())
    }

    /// Makes renames and removals durable, where the system can.
    fn sync(&self) {
        if let Ok(dir) = File::open(&self.dir) {
            let _ = dir.sync_all();
        }
    }

    /// Removes files of writers that died before their file got its name.
    fn remove_leftovers(&self) {
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TEMPORARY)
                && let Ok(file) = open(&entry.path())
                && take(&file)
                && !written_lately(&file)
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn blob_path(&self, name: &str) -> PathBuf {
        self.dir.join(BLOBS).join(name).with_extension("blob")
    }
}

impl Store for Directory {
    fn place(&self) -> String {
        self.dir.display().to_string()
    }

    fn at(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.file_name().into_string()));
        // A name that is not UTF-8 is none of ours.
        names.filter_map(|name: io::Result<_>| name.map(Result::ok).transpose()).collect()
    }

    fn read(&self, name: &str, from: u64, most: u64) -> io::Result<Part> {
        let mut file = open(&self.dir.join(name))?;
        let alive = is_alive(&file);
        let size = file.metadata()?.len();
        let expected = usize::try_from(size.saturating_sub(from).min(most)).unwrap_or(0);
        let mut bytes = Vec::with_capacity(expected);
        file.seek(SeekFrom::Start(from))?;
        file.take(most).read_to_end(&mut bytes)?;
        Ok(Part { bytes, size, alive })
    }

    fn create(&self, name: &str, text: &[u8]) -> io::Result<Box<dyn Writer>> {
        Ok(Box::new(FileWriter::create(&self.dir, name, text)?))
    }

    fn replace(&self, old: &[Old], new: &mut dyn Iterator<Item = NewSegment>) -> io::Result<usize> {
        // Locked until they are gone, so that no two processes do the same work.
        let taken: Vec<(&Old, File)> = old.iter().filter_map(|old| Some((old, self.taken(old)?))).collect();
        if taken.is_empty() {
            return Ok(0);
        }
        self.write_all(new)?;
        let mut gone = 0;
        for (Old { name, set_aside, .. }, _locked) in &taken {
            let done = match set_aside {
                true => self.set_aside(name).map(drop),
                false => fs::remove_file(self.dir.join(name)),
            };
            match done {
                Ok(()) => gone += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.sync();
        self.remove_leftovers();
        Ok(gone)
    }

    fn set_aside(&self, name: &str) -> io::Result<String> {
        for number in 1..=MAX_LISTED {
            let aside = aside_name(name, number);
            if !self.dir.join(&aside).try_exists()? {
                fs::rename(self.dir.join(name), self.dir.join(&aside))?;
                return Ok(aside);
            }
        }
        Err(io::Error::other(format!("there are {MAX_LISTED} damaged files of that name already")))
    }

    fn blob(&self, name: &str) -> io::Result<Vec<u8>> {
        let file = open(&self.blob_path(name))?;
        // It may go to a driver as it is.
        private::trusted(&file)?;
        let size = file.metadata()?.len();
        if size > MAX_STORED {
            return Err(io::Error::other(format!(
                "it has {size} bytes, more than the {MAX_STORED} of any blob"
            )));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(MAX_STORED).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn put_blob(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.blob_path(name);
        let dir = self.dir.join(BLOBS);
        private::make(&dir)?;
        // A name of its own: two writers do not meet in one temporary file.
        let temporary = path.with_extension(format!("{}.tmp", new_origin()));
        let file = private::for_new(&dir).write(true).create_new(true).open(&temporary);
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.and_then(|()| fs::rename(&temporary, &path)).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }
}

/// A file being written by this process, locked while it is open.
#[derive(Debug)]
pub(crate) struct FileWriter {
    file: File,
    path: PathBuf,
    bytes: u64,
    /// A write broke off and could not be undone: the next one starts on a line of its own.
    torn: bool,
}

impl FileWriter {
    /// A new file with that text, locked before it gets its name: no one ever sees it unlocked or in part.
    fn create(dir: &Path, name: &str, text: &[u8]) -> io::Result<FileWriter> {
        private::make(dir)?;
        let (temporary, path) = (dir.join(format!("{TEMPORARY}{name}")), dir.join(name));
        if path.try_exists()? {
            return Err(ErrorKind::AlreadyExists.into());
        }
        // The name holds our own random id: what is there is left from an attempt of ours that failed.
        let _ = fs::remove_file(&temporary);
        let file = private::for_new(dir).create_new(true).append(true).open(&temporary)?;
        // Waited for: who looks for leftovers may hold it for a moment, and a writer without a lock is taken for dead, with all it
        // intends. Where there are no locks others go by the time of the last write instead.
        let _ = file.lock();
        let mut writer = FileWriter { file, path, bytes: 0, torn: false };
        let done = writer.append(text).and_then(|()| fs::rename(&temporary, &writer.path));
        done.map(|()| writer).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }

    /// A writer over a file that is already open, such as `/dev/full`.
    #[cfg(test)]
    pub fn over(file: File, path: PathBuf, torn: bool) -> FileWriter {
        FileWriter { file, path, bytes: 0, torn }
    }
}

impl Writer for FileWriter {
    /// In one write. One that breaks off is undone, so that it costs nothing but itself.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            self.file.write_all(b"\n")?;
            self.bytes += 1;
            self.torn = false;
        }
        self.file.write_all(lines).inspect_err(|_| self.torn = self.file.set_len(self.bytes).is_err())?;
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// Someone may have cleaned up the directory.
    fn is_in_place(&mut self) -> bool {
        self.path.exists()
    }
}

/// Whether the process that writes this file still runs. A shared lock is tried, so that two who ask at the same time
/// do not take each other for the writer.
fn is_alive(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            let _ = file.unlock();
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => written_lately(file),
    }
}

/// Locks a file for removal; false if its writer lives or another process is about to remove it.
fn take(file: &File) -> bool {
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
