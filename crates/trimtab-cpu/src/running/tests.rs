//! Processes that end in every way while kernels run, and what their files say then.

use super::*;
use crate::pool::Pool;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

const ABORT: u32 = libc::SIGABRT as u32;
const SEGV: u32 = libc::SIGSEGV as u32;

/// Handlers are the process's: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// What a child process leaves that does this with two entries, "one" and "two".
fn left_by(task: impl FnOnce(&Running, [Entry; 2])) -> Vec<(String, u32, bool)> {
    ended_and_left_by(task).1
}

/// The same, and whether it ended well.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn ended_and_left_by(task: impl FnOnce(&Running, [Entry; 2])) -> (bool, Vec<(String, u32, bool)>) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("running");
    let ended = crate::isolate::try_out(0, trimtab_core::Nanos::from_millis(5_000), || {
        let running = Running::create(&path).unwrap();
        let entries = [running.write(1, "one").unwrap(), running.write(2, "two").unwrap()];
        task(&running, entries);
        // It ends with all it has entered.
        std::mem::forget(running);
    });
    let left = Running::left_by_the_dead(&path).unwrap().unwrap();
    let told = left.into_iter().map(|Ran { text, signal, is_certain }| (text, signal, is_certain));
    (ended.is_ok(), told.collect())
}

fn fails() {
    // SAFETY: the child is to end by exactly this.
    unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
}

fn raise(signal: i32) {
    // SAFETY: sends this thread a signal.
    unsafe { libc::raise(signal) };
}

/// Lets a handler of the host program receive a signal.
fn host_receives(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: the handler is a function of the right kind.
    unsafe { libc::signal(signal, handler as *const () as usize) };
}

#[test]
fn what_a_signal_ended_is_told_with_the_signal() {
    let left = left_by(|running, [one, two]| {
        drop(running.enter(two));
        let _inside = running.enter(one);
        std::process::abort();
    });
    assert_eq!(left, [("one".to_string(), ABORT, true)]);
    let left = left_by(|running, [one, two]| {
        let _outer = running.enter(two);
        let _inside = running.enter(one);
        fails();
    });
    assert_eq!(left, [("one".to_string(), SEGV, true)]);
    // Sent, as a program that checks itself does.
    let left = left_by(|running, [one, _]| {
        let _inside = running.enter(one);
        raise(libc::SIGABRT);
    });
    assert_eq!(left, [("one".to_string(), ABORT, true)]);
}

#[test]
fn an_interruption_is_nobodys_fault_nor_is_an_end_outside() {
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let left = left_by(|running, [one, _]| {
            let _inside = running.enter(one);
            raise(signal);
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
fn a_library_that_is_torn_down_under_a_thread_inside_is_not_to_blame() {
    let left = left_by(|running, [one, _]| {
        let _inside = running.enter(one);
        // What the system calls first when the process ends.
        crate::ending::ends();
        fails();
    });
    assert_eq!(left, []);
}

/// A program that ends while the background still computes ends with its own code, whatever its libraries do to the background.
#[test]
fn a_program_that_ends_does_not_die_of_a_library_torn_down_under_another_thread() {
    use std::time::Duration;
    let run = |ends: bool, is_inside: bool| {
        ended_and_left_by(|running, [one, _]| {
            let (entered, has_entered) = std::sync::mpsc::channel();
            let torn_down = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _inside = is_inside.then(|| running.enter(one));
                    let _ = entered.send(());
                    torn_down.wait();
                    fails();
                });
                has_entered.recv_timeout(Duration::from_secs(4)).unwrap();
                if ends {
                    crate::ending::ends();
                }
                torn_down.wait();
                std::thread::sleep(Duration::from_millis(100));
                // SAFETY: ends the child as it wants to end.
                unsafe { libc::_exit(0) };
            });
        })
    };
    assert_eq!(run(true, true), (true, vec![]));
    assert_eq!(run(true, false), (true, vec![]));
    // Before it ends, a crash is one.
    assert_eq!(run(false, true), (false, vec![("one".to_string(), SEGV, true)]));
}

#[test]
fn only_the_thread_that_received_the_signal_is_sure_to_be_guilty() {
    // A stranger dies while two threads are inside: both are suspect.
    let left = left_by(|running, [one, two]| {
        let _inside = running.enter(one);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let inside = running.enter(two);
                let _ = scope.spawn(fails).join();
                drop(inside);
            });
            let _ = other.join();
        });
    });
    assert_eq!(left, [("one".to_string(), SEGV, false), ("two".to_string(), SEGV, false)]);
    // One of two dies: the other is not blamed.
    let left = left_by(|running, [one, two]| {
        let _inside = running.enter(one);
        std::thread::scope(|scope| {
            let other = || {
                let _inside = running.enter(two);
                fails();
            };
            let _ = scope.spawn(other).join();
        });
    });
    assert_eq!(left, [("two".to_string(), SEGV, true)]);
}

#[test]
fn a_helper_of_the_pool_dies_of_what_its_caller_runs() {
    let left = left_by(|running, [one, _]| {
        let (pool, _inside) = (Pool::new(2), running.enter(one));
        let caller = std::thread::current().id();
        loop {
            pool.run(2, 64, &|_| match std::thread::current().id() == caller {
                true => std::thread::yield_now(),
                false => fails(),
            });
        }
    });
    assert_eq!(left, [("one".to_string(), SEGV, true)]);
}

/// Times the host program's handler was called.
static HEARD: AtomicU32 = AtomicU32::new(0);

extern "C" fn hears(_: i32) {
    HEARD.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_the_host_program_deals_with_reaches_it_and_leaves_no_note() {
    let left = left_by(|running, [one, _]| {
        // Before ours: it is called by ours.
        drop(running.enter(one));
        let _inside = running.enter(one);
        raise(libc::SIGFPE);
    });
    assert_eq!(left, [("one".to_string(), libc::SIGFPE as u32, true)], "without a handler it ends");
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("running");
    let out = crate::isolate::try_out(0, trimtab_core::Nanos::from_millis(5_000), || {
        host_receives(libc::SIGFPE, hears);
        let running = Running::create(&path).ok();
        let one = running.as_ref().and_then(|running| running.write(1, "one"));
        let _inside = running.as_ref().zip(one).and_then(|(running, one)| running.enter(one));
        (0..3).for_each(|_| raise(libc::SIGFPE));
        if HEARD.load(Ordering::Relaxed) == 3 {
            // Ends as by `kill -9`, still inside.
            raise(libc::SIGKILL);
        }
        std::process::abort();
    });
    assert_eq!(out, Ok(()), "heard each time");
    assert_eq!(Running::left_by_the_dead(&path).unwrap(), Some(vec![]));
}

#[test]
fn signals_are_given_back_when_the_last_file_is_dropped() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let receiver = || {
        let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: only asks; zeroes are a valid action.
        unsafe {
            libc::sigaction(libc::SIGBUS, std::ptr::null(), action.as_mut_ptr());
            action.assume_init().sa_sigaction
        }
    };
    let before = receiver();
    let files = ["a", "b"].map(|name| Running::create(&dir.path().join(name)).unwrap());
    assert_ne!(receiver(), before);
    let [a, b] = files;
    drop(a);
    assert_ne!(receiver(), before, "one is left");
    drop(b);
    assert_eq!(receiver(), before);
}

#[test]
fn a_child_that_is_forked_off_leaves_no_note_in_the_files_of_its_parent() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("running");
    let running = Running::create(&path).unwrap();
    let one = running.write(1, "one").unwrap();
    let inside = running.enter(one);
    let ended = crate::isolate::try_out(0, trimtab_core::Nanos::from_millis(5_000), fails);
    assert!(ended.is_err(), "it ended by a signal");
    assert!(inside.is_some_and(|inside| running.map.load(inside.at) == 1));
    assert_eq!(running.map.load(PROCESS), 0);
}

#[test]
fn threads_that_end_give_their_places_back_and_too_many_have_none() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let running = Running::create(&dir.path().join("running")).unwrap();
    let one = running.write(1, "one").unwrap();
    for _ in 0..2 * THREADS {
        std::thread::scope(|scope| {
            assert!(scope.spawn(|| running.enter(one).is_some()).join().unwrap());
        });
    }
    let (wait, inside) = (std::sync::Barrier::new(THREADS + 2), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..=THREADS {
            scope.spawn(|| {
                inside.fetch_add(running.enter(one).is_some().into(), Ordering::Relaxed);
                wait.wait();
            });
        }
        wait.wait();
    });
    assert!((1..=THREADS as u32).contains(&inside.load(Ordering::Relaxed)));
}

#[test]
fn a_file_belongs_to_who_lives() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("running");
    let running = Running::create(&path).unwrap();
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
