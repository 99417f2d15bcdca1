//! Which kernel each thread runs, in the memory of a file: it outlives a process that a kernel ends.
//!
//! Entering and leaving a kernel is a store each, so it can be done around every call. A signal that ends the process is noted in the
//! same file by who receives it, and handed on: an interruption, or `kill -9`, leaves no such note. Unix only.

use std::fs::File;
use std::io;
use std::path::Path;

/// Threads that are told apart; more share places.
const THREADS: usize = 64;
/// Different texts one process can write, and the longest.
const TEXTS: usize = 127;
const TEXT_BYTES: usize = 512;
/// The file: a signal for the process; for each thread what it runs; for each the signal it received; then the texts.
const NUMBERS: usize = 1 + 2 * THREADS;
const TEXTS_AT: usize = NUMBERS * size_of::<u32>();
const BYTES: usize = TEXTS_AT + TEXTS * TEXT_BYTES;

/// A file that tells what runs.
#[derive(Debug)]
pub struct Running {
    map: Map,
    /// Locked while this process lives.
    _file: File,
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
}

/// While it lives, this thread runs what the entry says.
pub struct Inside<'a> {
    running: &'a Running,
    at: usize,
    before: u32,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.running.map.store(1 + self.at, self.before);
    }
}

impl Running {
    /// A new file of that name. There is one in a process at a time.
    pub fn create(path: &Path) -> io::Result<Running> {
        let file = File::options().read(true).write(true).create_new(true).open(path)?;
        // Without locks nobody can tell whether this process lives, and nobody asks.
        file.try_lock().map_err(|error| io::Error::other(error.to_string()))?;
        file.set_len(BYTES as u64)?;
        Ok(Running { map: Map::new(&file)?, _file: file })
    }

    /// Writes a text that can be entered; its number is the caller's to choose. Nothing if it is too long.
    pub fn write(&self, number: u32, text: &str) -> Option<Entry> {
        let entry = Entry::of(number)?;
        let room = TEXTS_AT + (number as usize - 1) * TEXT_BYTES;
        (text.len() < TEXT_BYTES).then(|| self.map.write(room, text.as_bytes()))?;
        Some(entry)
    }

    /// This thread runs something now.
    #[inline]
    pub fn enter(&self, Entry(number): Entry) -> Inside<'_> {
        let at = place();
        Inside { running: self, at, before: self.map.swap(1 + at, number) }
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

    /// What ran when a signal ended the process that wrote a file, with the signal's number; nothing while it lives.
    pub fn left_by_the_dead(path: &Path) -> io::Result<Option<Vec<(String, u32)>>> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() || file.try_lock().is_err() {
            return Ok(None);
        }
        let bytes = std::fs::read(path)?;
        if bytes.len() != BYTES {
            return Ok(Some(Vec::new()));
        }
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_ne_bytes);
        let numbers: Vec<u32> = bytes[..TEXTS_AT].chunks_exact(size_of::<u32>()).map(number).collect();
        let (process, threads) = (numbers[0], &numbers[1..]);
        let (entered, signals) = threads.split_at(THREADS);
        // A helper of a kernel enters nothing: then it is whoever was entered.
        let all = if signals.iter().all(|signal| *signal == 0) { process } else { 0 };
        let text = |entry: u32| {
            let text = bytes[TEXTS_AT..].chunks_exact(TEXT_BYTES).nth((entry as usize).checked_sub(1)?)?;
            String::from_utf8(text.split(|byte| *byte == 0).next()?.to_vec()).ok()
        };
        let threads = entered.iter().zip(signals).map(|(entry, signal)| (*entry, (*signal).max(all)));
        let guilty = threads.filter(|(_, signal)| *signal > 0);
        let mut ran: Vec<(String, u32)> =
            guilty.filter_map(|(entry, signal)| Some((text(entry)?, signal))).collect();
        ran.retain(|(text, _)| !text.is_empty());
        ran.sort();
        ran.dedup();
        Ok(Some(ran))
    }
}

thread_local! {
    static PLACE: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

/// This thread's place.
#[inline]
fn place() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    PLACE.with(|place| {
        if place.get() == usize::MAX {
            place.set(NEXT.fetch_add(1, Ordering::Relaxed) % THREADS);
        }
        place.get()
    })
}

#[cfg(unix)]
mod map {
    use super::{BYTES, NUMBERS, PLACE, THREADS};
    use std::fs::File;
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::AsRawFd;
    use std::ptr::{NonNull, null_mut};
    use std::sync::Once;
    use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

    /// Signals a process brings upon itself.
    const FATAL: [i32; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

    /// The memory in which signals are noted; null while there is none.
    static NOTED: AtomicPtr<u8> = AtomicPtr::new(null_mut());
    /// Who received each of them before.
    static BEFORE: [AtomicPtr<libc::sigaction>; FATAL.len()] =
        [const { AtomicPtr::new(null_mut()) }; FATAL.len()];

    /// The memory of a file of [`BYTES`].
    #[derive(Debug)]
    pub(super) struct Map(NonNull<u8>);

    // SAFETY: numbers are atomic; a text is written before its number is, by whoever holds the caller's lock.
    unsafe impl Send for Map {}
    // SAFETY: as above.
    unsafe impl Sync for Map {}

    impl Map {
        pub(super) fn new(file: &File) -> io::Result<Map> {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            // SAFETY: a new mapping of an open file of that length, at a place of the system's choice.
            let at = unsafe { libc::mmap(null_mut(), BYTES, access, kind, file.as_raw_fd(), 0) };
            let map = match NonNull::new(at.cast::<u8>()).filter(|_| at != libc::MAP_FAILED) {
                Some(at) => Map(at),
                None => return Err(io::Error::last_os_error()),
            };
            let only =
                NOTED.compare_exchange(null_mut(), map.0.as_ptr(), Ordering::AcqRel, Ordering::Relaxed);
            if only.is_err() {
                return Err(io::Error::from(io::ErrorKind::AlreadyExists));
            }
            static RECEIVED: Once = Once::new();
            RECEIVED.call_once(receive);
            Ok(map)
        }

        #[inline]
        pub(super) fn store(&self, at: usize, number: u32) {
            number_at(self.0.as_ptr(), at).store(number, Ordering::Release);
        }

        #[inline]
        pub(super) fn swap(&self, at: usize, number: u32) -> u32 {
            let before = number_at(self.0.as_ptr(), at).load(Ordering::Relaxed);
            self.store(at, number);
            before
        }

        pub(super) fn write(&self, room: usize, text: &[u8]) {
            if room + text.len() >= BYTES {
                return;
            }
            // SAFETY: within the mapping by the line above, and nobody reads it in this process.
            unsafe {
                std::ptr::copy_nonoverlapping(text.as_ptr(), self.0.as_ptr().add(room), text.len());
                self.0.as_ptr().add(room + text.len()).write(0);
            }
        }
    }

    impl Drop for Map {
        fn drop(&mut self) {
            let own = self.0.as_ptr();
            let _ = NOTED.compare_exchange(own, null_mut(), Ordering::AcqRel, Ordering::Relaxed);
            // SAFETY: made by `new`, and nobody has a reference any more.
            unsafe { libc::munmap(own.cast(), BYTES) };
        }
    }

    fn number_at<'a>(map: *mut u8, at: usize) -> &'a AtomicU32 {
        // SAFETY: within a mapping that lives, which is aligned to pages; its numbers are only ever seen as atomic.
        unsafe { AtomicU32::from_ptr(map.cast::<u32>().add(at % NUMBERS)) }
    }

    /// Asks for the signals that end a process.
    fn receive() {
        for (signal, before) in FATAL.iter().zip(&BEFORE) {
            let mut former = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: zeroes are a valid action; both pointers are to memory that lives. The former action is kept for good, and
            // before anybody can need it: the signals of the threads that run meanwhile go to the former one or to `note`.
            unsafe {
                let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
                action.sa_sigaction = note as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                if libc::sigaction(*signal, std::ptr::null(), former.as_mut_ptr()) == 0 {
                    before.store(Box::into_raw(Box::new(former.assume_init())), Ordering::Release);
                    libc::sigaction(*signal, &raw const action, null_mut());
                }
            }
        }
    }

    /// Notes a signal, and hands it on to who received it before. Only what may be done in a signal handler.
    extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        let map = NOTED.load(Ordering::Acquire);
        if !map.is_null() {
            let place = PLACE.try_with(std::cell::Cell::get).unwrap_or(usize::MAX);
            let is_inside = place < THREADS && number_at(map, 1 + place).load(Ordering::Relaxed) > 0;
            let at = if is_inside { 1 + THREADS + place } else { 0 };
            number_at(map, at).store(signal as u32, Ordering::Release);
        }
        let Some(at) = FATAL.iter().position(|known| *known == signal) else { return };
        let former = BEFORE[at].load(Ordering::Acquire);
        // SAFETY: the action was kept before this could run. What failed fails again and goes there; what was sent is sent again.
        unsafe {
            if former.is_null() {
                libc::signal(signal, libc::SIG_DFL);
            } else {
                libc::sigaction(signal, former, null_mut());
            }
            if (info.is_null() || (*info).si_code <= 0) && signal != libc::SIGABRT {
                libc::raise(signal);
            }
        }
    }
}

#[cfg(not(unix))]
mod map {
    use std::fs::File;
    use std::io;

    #[derive(Debug)]
    pub(super) struct Map(());

    impl Map {
        pub(super) fn new(_: &File) -> io::Result<Map> {
            Err(io::Error::from(io::ErrorKind::Unsupported))
        }
        pub(super) fn store(&self, _: usize, _: u32) {}
        pub(super) fn swap(&self, _: usize, _: u32) -> u32 {
            0
        }
        pub(super) fn write(&self, _: usize, _: &[u8]) {}
    }
}

use map::Map;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// There is one file in a process at a time.
    static ONE: Mutex<()> = Mutex::new(());

    /// What a child process leaves that does this with two entries, "one" and "two".
    #[expect(clippy::unwrap_used, reason = "a helper of tests")]
    fn left_by(task: impl FnOnce(&Running, [Entry; 2])) -> Vec<(String, u32)> {
        let _one = ONE.lock().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("running");
        let ended = crate::isolate::try_out(0, trimtab_core::Nanos::from_millis(5_000), || {
            let running = Running::create(&path).unwrap();
            let entries = [running.write(1, "one").unwrap(), running.write(2, "two").unwrap()];
            task(&running, entries);
            // It ends with all it has entered.
            std::mem::forget(running);
        });
        drop(ended);
        Running::left_by_the_dead(&path).unwrap().unwrap()
    }

    #[test]
    fn what_a_signal_ended_is_told_with_the_signal() {
        let abort = libc::SIGABRT as u32;
        let left = left_by(|running, [one, two]| {
            drop(running.enter(two));
            let _inside = running.enter(one);
            std::process::abort();
        });
        assert_eq!(left, [("one".to_string(), abort)]);
        let left = left_by(|running, [one, two]| {
            let _outer = running.enter(two);
            let _inside = running.enter(one);
            // SAFETY: the child is to end by exactly this.
            unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
        });
        assert_eq!(left, [("one".to_string(), libc::SIGSEGV as u32)]);
    }

    #[test]
    fn an_interruption_is_nobodys_fault_nor_is_an_end_outside() {
        for signal in [libc::SIGKILL, libc::SIGINT] {
            let left = left_by(|running, [one, _]| {
                let _inside = running.enter(one);
                // SAFETY: sends this process a signal.
                unsafe { libc::raise(signal) };
            });
            assert_eq!(left, []);
        }
        assert_eq!(
            left_by(|running, [one, _]| {
                drop(running.enter(one));
                std::process::abort();
            }),
            []
        );
    }

    #[test]
    fn a_file_belongs_to_who_lives() {
        let _one = ONE.lock().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("running");
        let running = Running::create(&path).unwrap();
        assert!(Running::create(&dir.path().join("second")).is_err(), "one in a process");
        assert_eq!(Running::left_by_the_dead(&path).unwrap(), None, "it lives");
        assert_eq!(running.write(0, "x"), None);
        assert_eq!(running.write(TEXTS as u32 + 1, "x"), None);
        assert_eq!(running.write(1, &"x".repeat(TEXT_BYTES)), None);
        assert!(running.write(TEXTS as u32, &"x".repeat(TEXT_BYTES - 1)).is_some());
        drop(running);
        assert_eq!(Running::left_by_the_dead(&path).unwrap(), Some(vec![]));
        std::fs::write(dir.path().join("other"), "garbage").unwrap();
        assert_eq!(Running::left_by_the_dead(&dir.path().join("other")).unwrap(), Some(vec![]));
        assert!(Running::left_by_the_dead(&dir.path().join("none")).is_err());
    }
}
