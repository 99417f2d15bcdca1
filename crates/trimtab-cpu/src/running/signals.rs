//! The signals that end a process, noted in memory of files on their way to whoever received them before.
//!
//! Handlers are asked for when the first file is made and given back when the last one is dropped, if they are still ours. Whoever
//! received a signal before is called with it, as if we were not there; a signal that it deals with leaves no note. Only while the process ends
//! of its own accord other threads than the one that ends it rest first.

use super::{HELPS, LINE, NUMBER_BYTES, NUMBERS, PLACE, PROCESS, SIGNAL, THREADS, line_of};
use crate::ending;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Signals a process brings upon itself.
const FATAL: [i32; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// Files at a time in which signals are noted.
const FILES: usize = 8;

/// The memory in which signals are noted; null where there is none.
static NOTED: [AtomicPtr<u8>; FILES] = [const { AtomicPtr::new(null_mut()) }; FILES];
/// The process whose signals they are: a child that was forked off has the same memory and handlers.
static OWNER: AtomicI32 = AtomicI32::new(0);
/// How long a thread rests under which a library was torn down: the process ends meanwhile, with the code it wanted to end with.
const REST: libc::timespec = libc::timespec { tv_sec: 10, tv_nsec: 0 };
/// Who received each of them before.
static BEFORE: [AtomicPtr<libc::sigaction>; FATAL.len()] =
    [const { AtomicPtr::new(null_mut()) }; FATAL.len()];
/// Held while handlers are asked for or given back.
static CHANGING: Mutex<()> = Mutex::new(());

/// The numbers of a file.
#[derive(Debug)]
pub(super) struct Map(NonNull<u8>);

// SAFETY: its numbers are atomic.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    pub(super) fn new(file: &File) -> io::Result<Map> {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = NOTED.iter().find(|noted| noted.load(Ordering::Acquire).is_null());
        let free = free.ok_or_else(|| io::Error::other("too many runtimes note signals in this process"))?;
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of an open file of that length, at a place of the system's choice.
        let at = unsafe { libc::mmap(null_mut(), NUMBER_BYTES, access, kind, file.as_raw_fd(), 0) };
        let map = match NonNull::new(at.cast::<u8>()).filter(|_| at != libc::MAP_FAILED) {
            Some(at) => Map(at),
            None => return Err(io::Error::last_os_error()),
        };
        free.store(map.0.as_ptr(), Ordering::Release);
        OWNER.store(this_process(), Ordering::Release);
        ending::ask_to_be_told();
        receive();
        Ok(map)
    }

    #[inline]
    pub(super) fn load(&self, at: usize) -> u64 {
        number_at(self.0.as_ptr(), at).load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn store(&self, at: usize, number: u64) {
        number_at(self.0.as_ptr(), at).store(number, Ordering::Release);
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.0.as_ptr();
        for noted in &NOTED {
            let _ = noted.compare_exchange(own, null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        }
        if NOTED.iter().all(|noted| noted.load(Ordering::Acquire).is_null()) {
            give_back();
        }
        // SAFETY: made by `new`, and nobody has a reference any more. A thread that receives a fatal signal at this very moment may
        // still write there: then it dies of two.
        unsafe { libc::munmap(own.cast(), NUMBER_BYTES) };
    }
}

pub(super) fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    file.write_all_at(bytes, at)
}

#[inline]
fn number_at<'a>(map: *mut u8, at: usize) -> &'a AtomicU64 {
    // SAFETY: within a mapping that lives, which is aligned to pages; its numbers are only ever seen as atomic.
    unsafe { AtomicU64::from_ptr(map.cast::<u64>().add(at % NUMBERS)) }
}

fn this_process() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::getpid() }
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == note as *const () as usize
}

/// Who receives a signal now.
fn receiver(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only asks; zeroes are a valid action, and the pointer is to memory that lives.
    unsafe { (libc::sigaction(signal, null(), action.as_mut_ptr()) == 0).then(|| action.assume_init()) }
}

/// Asks for the signals that end a process.
fn receive() {
    for (signal, before) in FATAL.iter().zip(&BEFORE) {
        let Some(former) = receiver(*signal).filter(|former| !is_ours(former)) else { continue };
        let same = |kept: &libc::sigaction| {
            (kept.sa_sigaction, kept.sa_flags) == (former.sa_sigaction, former.sa_flags)
        };
        // SAFETY: what was kept is never freed: a signal may be on its way to it.
        let is_kept = unsafe { before.load(Ordering::Acquire).as_ref() }.is_some_and(same);
        if !is_kept {
            before.store(Box::into_raw(Box::new(former)), Ordering::Release);
        }
        // It is called from ours: on the stack it wants, with the signals held back that it wants held back.
        let plain = former.sa_sigaction == libc::SIG_DFL || former.sa_sigaction == libc::SIG_IGN;
        let stack = if plain { libc::SA_ONSTACK } else { former.sa_flags & libc::SA_ONSTACK };
        let action = libc::sigaction {
            sa_sigaction: note as *const () as usize,
            sa_flags: libc::SA_SIGINFO | stack | former.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART),
            ..former
        };
        // SAFETY: the pointer is to an action that lives; the former one is kept already.
        unsafe { libc::sigaction(*signal, &raw const action, null_mut()) };
    }
}

/// Gives the signals back to who received them before, unless somebody has taken them since.
fn give_back() {
    for (signal, before) in FATAL.iter().zip(&BEFORE) {
        let former = before.load(Ordering::Acquire);
        if receiver(*signal).is_some_and(|now| is_ours(&now)) && !former.is_null() {
            // SAFETY: the action was kept for good.
            unsafe { libc::sigaction(*signal, former, null_mut()) };
        }
    }
}

/// The numbers of all files where what this thread runs, or helps to run, is noted.
fn inside() -> impl Iterator<Item = &'static AtomicU64> {
    let own = PLACE.try_with(std::cell::Cell::get).unwrap_or(u32::MAX);
    let helped = HELPS.try_with(std::cell::Cell::get).unwrap_or(u32::MAX);
    let places = [own, helped].into_iter().filter(|place| (*place as usize) < THREADS);
    let files = || NOTED.iter().map(|noted| noted.load(Ordering::Acquire)).filter(|map| !map.is_null());
    let numbers = places.flat_map(move |place| files().map(move |map| number_at(map, line_of(place))));
    numbers.filter(|number| number.load(Ordering::Relaxed) as u32 > 0)
}

/// Notes a signal, or that there was none.
fn set(signal: i32) {
    let mut nowhere = true;
    for number in inside() {
        nowhere = false;
        let entry = number.load(Ordering::Relaxed) & u64::from(u32::MAX);
        number.store(entry | (signal as u64) << SIGNAL, Ordering::Release);
    }
    for map in NOTED.iter().map(|noted| noted.load(Ordering::Acquire)).filter(|map| nowhere && !map.is_null())
    {
        number_at(map, PROCESS * LINE).store(signal as u64, Ordering::Release);
    }
}

/// Notes a signal, and hands it on to who received it before. Only what may be done in a signal handler.
extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let is_owner = OWNER.load(Ordering::Acquire) == this_process();
    // OpenBLAS, say, gives its memory back under a product that a thread of ours, or of its own, still computes.
    if is_owner && ending::is_ended_by_another() {
        // SAFETY: waits; a signal handler may.
        unsafe { libc::nanosleep(&REST, null_mut()) };
    }
    let is_noted = is_owner && !ending::is_ending();
    if is_noted {
        set(signal);
    }
    if hand_on(signal, info, context) && is_noted {
        set(0);
    }
}

/// Whether somebody dealt with a signal, so that the process goes on.
fn hand_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) -> bool {
    let Some(at) = FATAL.iter().position(|known| *known == signal) else { return true };
    // SAFETY: what is kept there is kept for good, and was before this could run.
    let former = unsafe { BEFORE[at].load(Ordering::Acquire).as_ref() };
    // SAFETY: the system's own, or nothing.
    let was_sent = unsafe { info.as_ref() }.is_none_or(|info| info.si_code <= 0);
    let (handler, flags) = former.map_or((libc::SIG_DFL, 0), |former| (former.sa_sigaction, former.sa_flags));
    match handler {
        // The system ignores only what was sent.
        libc::SIG_IGN if was_sent => return true,
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: what failed fails again, and what was sent is sent again, once this returns: then it ends the process.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if was_sent {
                    libc::raise(signal);
                }
            }
            return false;
        }
        _ if flags & libc::SA_RESETHAND != 0 => {
            // SAFETY: as the system would have done.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        _ => (),
    }
    // SAFETY: a handler that the program gave the system for this signal, of the kind its flags say, called as the system would.
    unsafe {
        if flags & libc::SA_SIGINFO != 0 {
            type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);
            std::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        } else {
            std::mem::transmute::<usize, extern "C" fn(i32)>(handler)(signal);
        }
    }
    // Who gave the signal back lets it end the process; so does `abort`, whatever its handler did.
    signal != libc::SIGABRT && receiver(signal).is_some_and(|now| is_ours(&now))
}
