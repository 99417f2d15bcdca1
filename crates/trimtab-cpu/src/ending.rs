//! What happens when the process ends of its own accord: libraries tear down, perhaps under a thread that is still inside one.
//!
//! OpenBLAS gives its memory back then. So whoever ends the process waits, for a bounded time, until no race is inside a library, and no race
//! enters one any more.

use crate::process::Process;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use trimtab_core::Nanos;
use trimtab_tune::Stopwatch;

/// The thread that ends the process; zero before.
static ENDS: AtomicUsize = AtomicUsize::new(0);
/// What threads inside libraries hold, of every device, and whose threads they are: a forked child has none.
static LIBRARIES: Mutex<Vec<(Process, Weak<()>)>> = Mutex::new(Vec::new());
/// How long the end of a process waits for libraries. A product that takes longer is torn down under, and its thread rests.
const PATIENCE: Nanos = Nanos::from_millis(3_000);
/// How long a thread rests that would enter a library while the process ends.
const REST: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// What every thread inside a library of one device holds a clone of.
#[derive(Debug)]
pub(crate) struct Libraries(Arc<()>);

impl Libraries {
    /// From now on an ending process waits for those inside.
    pub(crate) fn new() -> Libraries {
        ask_to_be_told();
        let all = Arc::new(());
        if let Ok(mut known) = LIBRARIES.lock() {
            known.retain(|(_, device)| device.strong_count() > 0);
            known.push((Process::this(), Arc::downgrade(&all)));
        }
        Libraries(all)
    }

    /// Notes that a thread enters; for a thread that would do so while another ends the process there is only a rest.
    pub(crate) fn enter(&self) -> Arc<()> {
        let inside = Arc::clone(&self.0);
        fence(Ordering::SeqCst);
        if !is_ended_by_another() {
            return inside;
        }
        drop(inside);
        std::thread::sleep(REST);
        Arc::clone(&self.0)
    }

    /// Waits until nobody is inside, for a bounded time.
    pub(crate) fn wait(&self, patience: Nanos) {
        wait(patience, || Arc::strong_count(&self.0) > 1);
    }
}

fn wait(patience: Nanos, inside: impl Fn() -> bool) {
    let waited = Stopwatch::start();
    while inside() && waited.elapsed() < patience {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Whether the process ends, by another thread than this one.
pub(crate) fn is_ended_by_another() -> bool {
    let by = ENDS.load(Ordering::SeqCst);
    by != 0 && by != this_thread()
}

/// Whether the process ends.
pub(crate) fn is_ending() -> bool {
    ENDS.load(Ordering::SeqCst) != 0
}

/// The process ends of its own accord, by this thread.
pub(crate) extern "C" fn ends() {
    ENDS.store(this_thread(), Ordering::SeqCst);
    fence(Ordering::SeqCst);
    // A lock that is held is held by somebody who makes a device.
    let Ok(known) = LIBRARIES.try_lock() else { return };
    wait(PATIENCE, || known.iter().any(|(process, device)| process.is_this() && device.strong_count() > 1));
}

#[cfg(unix)]
pub(crate) fn ask_to_be_told() {
    static ASKED: std::sync::Once = std::sync::Once::new();
    ASKED.call_once(|| {
        // SAFETY: the function uses memory that lives for ever. Refused, an end under a thread inside counts against it.
        let _ = unsafe { libc::atexit(ends) };
    });
}

/// Elsewhere threads end before libraries do.
#[cfg(not(unix))]
pub(crate) fn ask_to_be_told() {}

#[cfg(unix)]
fn this_thread() -> usize {
    // SAFETY: asks for a number.
    unsafe { libc::pthread_self() as usize }
}

#[cfg(not(unix))]
fn this_thread() -> usize {
    0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    #[test]
    fn a_process_ends_after_those_inside_a_library_and_nobody_else_enters() {
        // In a child of its own: it ends.
        let ended = crate::isolate::try_out(0, Nanos::from_millis(20_000), || {
            let (libraries, left) = (Libraries::new(), AtomicBool::new(false));
            let (send, receive) = mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let inside = libraries.enter();
                    let _ = send.send(());
                    std::thread::sleep(Duration::from_millis(200));
                    left.store(true, Ordering::SeqCst);
                    drop(inside);
                    // What a race does next.
                    let _inside = libraries.enter();
                    std::process::abort();
                });
                let _ = receive.recv();
                ends();
                assert!(left.load(Ordering::SeqCst), "it was still inside");
                std::thread::sleep(Duration::from_millis(100));
                // SAFETY: ends the child, with a thread that rests.
                unsafe { libc::_exit(0) };
            });
        });
        assert!(ended.is_ok(), "{ended:?}");
    }

    #[test]
    fn an_end_does_not_wait_for_ever() {
        let libraries = Libraries::new();
        let (inside, waited) = (libraries.enter(), Stopwatch::start());
        libraries.wait(Nanos::from_millis(20));
        assert!(waited.elapsed() >= Nanos::from_millis(20));
        drop(inside);
    }
}
