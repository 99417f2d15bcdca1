//! Faults on purpose: what they are, and a log of those that really happened.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use trimtab::advanced::cpu::Element;
use trimtab::advanced::operands::SliceMut;

/// How long a launch stands still on the caller's own thread.
pub(crate) const STALL: Duration = Duration::from_millis(300);

trimtab::advanced::core::named! {
    /// What goes wrong.
    pub(crate) enum Fault {
        /// Wrong results at some sizes.
        WrongSize = "wrong_size",
        /// Wrong results for some values.
        WrongValue = "wrong_value",
        /// A launch that says it failed.
        Error = "error",
        /// A launch that panics.
        Panic = "panic",
        /// A launch that does not come back.
        Hang = "hang",
        /// A launch that does not come back for long.
        Stall = "stall",
        /// Launches that take many times as long for a while.
        Slow = "slow",
        /// Memory that is not to be had.
        Memory = "memory",
        /// A device that is gone for a while.
        Loss = "loss",
        /// The end of the process.
        Abort = "abort",
    }
}

impl Fault {
    /// Whether it gives wrong results.
    pub(crate) fn is_wrong(self) -> bool {
        matches!(self, Fault::WrongSize | Fault::WrongValue)
    }
}

/// A fault that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Injected {
    /// During which call,
    pub(crate) call: u64,
    /// what,
    pub(crate) fault: Fault,
    /// in the caller's own launch rather than while it was checked or measured,
    pub(crate) is_live: bool,
    /// by which kernel or device,
    pub(crate) culprit: String,
    /// computing what.
    pub(crate) problem: String,
}

impl Injected {
    /// The line of a log.
    pub(crate) fn line(&self) -> String {
        let Injected { call, fault, is_live, culprit, problem } = self;
        let live = if *is_live { "live" } else { "gate" };
        format!("{call}\t{fault}\t{live}\t{culprit}\t{problem}")
    }

    /// Reads a line of a log.
    pub(crate) fn parse(line: &str) -> Option<Injected> {
        let mut words = line.split('\t');
        Some(Injected {
            call: words.next()?.parse().ok()?,
            fault: Fault::parse(words.next()?)?,
            is_live: words.next()? == "live",
            culprit: words.next()?.to_string(),
            problem: words.next()?.to_string(),
        })
    }
}

thread_local! {
    static IN_CALL: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Marks what this thread does as the caller's own launches while `call` runs.
pub(crate) fn in_call<R>(call: impl FnOnce() -> R) -> R {
    marked(true, call)
}

/// Marks what this thread does as checking and measuring while `run` runs: threads for calls do that for devices that are added.
pub(crate) fn at_the_gate<R>(run: impl FnOnce() -> R) -> R {
    marked(false, run)
}

fn marked<R>(is_live: bool, run: impl FnOnce() -> R) -> R {
    struct Restore(Option<bool>);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_CALL.set(self.0);
        }
    }
    let _restore = Restore(IN_CALL.replace(Some(is_live)));
    run()
}

/// Whether this thread makes a caller's own launch.
pub(crate) fn is_live() -> bool {
    IN_CALL.get().unwrap_or_else(can_be_left_behind)
}

/// Whether this thread was started for launches that may not come back.
pub(crate) fn can_be_left_behind() -> bool {
    std::thread::current().name() == Some("trimtab-call")
}

/// Writes faults down as they happen, each in one write, so that the end of the process loses none.
#[derive(Debug)]
pub(crate) struct FaultLog {
    file: Mutex<File>,
    call: AtomicU64,
    noted: Mutex<HashSet<(u64, Fault, String, bool)>>,
    /// The process that opened it: what happens in a child in which a kernel is tried out harms nobody, and is not counted.
    owner: u32,
}

impl FaultLog {
    /// Appends to a file.
    pub(crate) fn open(path: &Path) -> std::io::Result<FaultLog> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(FaultLog {
            file: Mutex::new(file),
            call: AtomicU64::new(0),
            noted: Mutex::default(),
            owner: std::process::id(),
        })
    }

    /// What happens from now on happens during this call.
    pub(crate) fn begin(&self, call: u64) {
        self.call.store(call, Ordering::Relaxed);
    }

    /// The call of now.
    pub(crate) fn call(&self) -> u64 {
        self.call.load(Ordering::Relaxed)
    }

    /// Notes a fault: once for each culprit in a call, however often it was launched. Says whether this was the first time.
    pub(crate) fn note(&self, fault: Fault, culprit: &str, problem: &str) -> bool {
        if std::process::id() != self.owner {
            return true;
        }
        let (call, is_live) = (self.call(), is_live());
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.insert((call, fault, culprit.to_string(), is_live)) {
            return false;
        }
        let (culprit, problem) = (culprit.to_string(), problem.to_string());
        let line = Injected { call, fault, is_live, culprit, problem }.line() + "\n";
        let _ = self.file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
        true
    }
}

/// A hash of a problem: what is wrong at random sizes is wrong at the same ones every time.
pub(crate) fn hash_of(text: &str, salt: u64) -> u64 {
    let mixed = text.bytes().fold(salt ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

/// Spoils a result so that no tolerance covers it.
pub(crate) fn spoil(out: SliceMut<'_>, salt: u64) {
    let Some(out) = f32::slice_mut(out) else { return };
    let off = |x: &mut f32| *x = if x.is_finite() { *x + 1.0 + x.abs() } else { 0.0 };
    match salt % 3 {
        0 => out.last_mut().into_iter().for_each(off),
        1 => out.iter_mut().step_by(7).for_each(off),
        _ => out.iter_mut().for_each(off),
    }
}
