//! What was built, by a name for what it was built of: made once, also by several at a time, and the oldest make room.

use crate::runner::Trouble;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, Once, PoisonError};
use trimtab_wisdom::files;

/// Built points that are kept; the oldest make room.
const MAX_BUILT: usize = 512;
/// How names of files end that are being made.
const UNFINISHED: &str = ".unfinished";

/// What building one of them came to.
#[derive(Clone, Debug)]
enum Built {
    /// Somebody is at it.
    UnderWay,
    Done(Result<(), Trouble>),
}

/// Files that were built, in a directory.
#[derive(Debug)]
pub struct BuildCache {
    dir: PathBuf,
    built: Mutex<BTreeMap<String, Built>>,
    /// Names of what is kept, the oldest first.
    kept: Mutex<VecDeque<String>>,
    changed: Condvar,
    swept: Once,
}

impl BuildCache {
    /// What is built is kept there; the directory is made when it is needed.
    pub fn new(dir: PathBuf) -> BuildCache {
        BuildCache {
            dir,
            built: Mutex::default(),
            kept: Mutex::default(),
            changed: Condvar::new(),
            swept: Once::new(),
        }
    }

    /// Where that is, or will be.
    pub fn path(&self, key: &str) -> PathBuf {
        self.dir.join(key)
    }

    /// What was built under that name; built now if need be, by `make`, which writes the file it is given. `keeps` says whether what an
    /// earlier process built under it is as good: whether the name says everything it was built of.
    pub fn get(
        &self,
        key: &str,
        keeps: bool,
        make: impl FnOnce(&Path) -> Result<(), Trouble>,
    ) -> Result<PathBuf, Trouble> {
        let path = self.path(key);
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match built.get(key) {
                // It may have made room.
                Some(Built::Done(Ok(()))) if !path.exists() => break,
                Some(Built::Done(result)) => return result.clone().map(|()| path),
                Some(Built::UnderWay) => {
                    built = self.changed.wait(built).unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        built.insert(key.to_string(), Built::UnderWay);
        drop(built);
        let result = self.make(&path, keeps, make);
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        match &result {
            // Says nothing of the point: next time it is tried again.
            Err(Trouble::Stopped) => built.remove(key),
            result => built.insert(key.to_string(), Built::Done(Result::clone(result))),
        };
        self.changed.notify_all();
        drop(built);
        if result.is_ok() {
            self.make_room(key);
        }
        result.map(|()| path)
    }

    /// Made under another name: a compiler that is killed leaves no half of it.
    fn make(
        &self,
        path: &Path,
        keeps: bool,
        make: impl FnOnce(&Path) -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        if keeps && path.exists() {
            return Ok(());
        }
        let cannot = |what: &Path, error: std::io::Error| {
            Trouble::Fatal(format!("{} cannot be made: {error}", what.display()))
        };
        files::make_private(&self.dir).map_err(|error| cannot(&self.dir, error))?;
        self.swept.call_once(|| self.sweep());
        // A compiler of a process that was killed may still be at it: this one writes elsewhere.
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".{}{UNFINISHED}", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        make(&unfinished)?;
        std::fs::rename(&unfinished, path).map_err(|error| cannot(path, error))
    }

    /// Removes what processes that were killed left unfinished.
    fn sweep(&self) {
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().ends_with(UNFINISHED) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// Keeps what was made last, and so many before.
    fn make_room(&self, key: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(key.to_string());
        if kept.len() > MAX_BUILT
            && let Some(oldest) = kept.pop_front()
        {
            // Whoever wants it again makes it again.
            let _ = std::fs::remove_file(self.path(&oldest));
        }
    }
}
