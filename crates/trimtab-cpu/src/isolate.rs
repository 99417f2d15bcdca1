//! First runs in a child process: a kernel that ends the process ends the child, and is out before it ends anything else.
//!
//! The child is a copy of this process with one thread. It runs the kernel once, without helpers, and ends; its results are not used.
//! Only a fatal signal counts against the kernel: a child that waits for a thread it does not have is given up, and nothing is said.
//! Linux only; elsewhere first runs happen in this process.

use trimtab_core::Failure;

trimtab_core::named! {
    /// Which kernels run for the first time in a child process.
    pub enum Isolation {
        /// Those a user brought, and those that ended a process before.
        Auto = "auto",
        /// All.
        All = "all",
        /// None.
        Off = "off",
    }
}

/// Runs a task in a child process first; an error if a signal ends it there. What it does to memory stays there.
#[cfg(target_os = "linux")]
pub(crate) fn try_out(memory: u64, timeout: trimtab_core::Nanos, task: impl FnOnce()) -> Result<(), Failure> {
    linux::try_out(memory, timeout, task)
}

/// Runs nothing: there is no way to try it out.
#[cfg(not(target_os = "linux"))]
pub(crate) fn try_out(_: u64, _: trimtab_core::Nanos, _: impl FnOnce()) -> Result<(), Failure> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::time::Duration;
    use trimtab_core::{Failure, FailureKind, Nanos};
    use trimtab_tune::Stopwatch;

    /// How often it is looked whether the child ended.
    const STEP: Duration = Duration::from_micros(200);
    /// What a child gets beyond the time-out: others may keep it from running.
    const MORE: Nanos = Nanos::from_millis(50);
    /// Memory it gets beyond what its task needs.
    const MORE_MEMORY: u64 = 1 << 30;
    /// How the child says that it is done.
    const DONE: i32 = 0;
    /// Signals a process brings upon itself; others come from outside.
    const FATAL: [(i32, &str); 7] = [
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGSYS, "SIGSYS"),
    ];

    pub(super) fn try_out(memory: u64, timeout: Nanos, task: impl FnOnce()) -> Result<(), Failure> {
        let limit = virtual_memory().map(|now| now.saturating_add(memory).saturating_add(MORE_MEMORY));
        // SAFETY: the child runs `inside`, which never returns. It has this thread only; a lock another thread held stays taken
        // there, so it may wait for ever, and is killed then.
        let child = unsafe { libc::fork() };
        match child {
            // No child can be made now: nothing is known.
            -1 => Ok(()),
            0 => inside(limit, timeout, task),
            child => wait(child, timeout),
        }
    }

    /// What the child does.
    fn inside(memory: Option<u64>, timeout: Nanos, task: impl FnOnce()) -> ! {
        let restrict = |what, most: u64| {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // SAFETY: the pointer is to a limit that lives; what is refused stays as it was.
            unsafe { libc::setrlimit(what, &raw const limit) };
        };
        restrict(libc::RLIMIT_CORE, 0);
        restrict(libc::RLIMIT_CPU, timeout.0 / 1_000_000_000 + 2);
        if let Some(memory) = memory {
            restrict(libc::RLIMIT_AS, memory);
        }
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: handlers are the parent's, whose notes are not this process's to take back.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        // SAFETY: the path is a C string; the child's words, a panic's above all, are not to be taken for the parent's.
        unsafe {
            let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
            if nowhere >= 0 {
                libc::dup2(nowhere, libc::STDOUT_FILENO);
                libc::dup2(nowhere, libc::STDERR_FILENO);
            }
        }
        // A panic is told from a right end by running the kernel again in this process.
        // What it panicked with is never dropped: that may panic in its turn, and nothing may leave this function.
        std::mem::forget(std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)));
        // SAFETY: ends at once; nothing of the parent's is torn down.
        unsafe { libc::_exit(DONE) }
    }

    fn wait(child: libc::pid_t, timeout: Nanos) -> Result<(), Failure> {
        let (watch, longest) = (Stopwatch::start(), Nanos(timeout.0.saturating_add(MORE.0)));
        let mut status = 0;
        loop {
            // SAFETY: the child is this process's own, the pointer is to a number that lives.
            match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
                0 if watch.elapsed() < longest => std::thread::sleep(STEP),
                0 => {
                    // SAFETY: the child was not waited for yet, so its number is still its own.
                    unsafe { libc::kill(child, libc::SIGKILL) };
                    // SAFETY: as above. A signal of ours interrupts the wait, and the child would stay as a zombie.
                    while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0
                        && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
                    {
                    }
                    return Ok(());
                }
                ended if ended == child => return judge(status),
                // Somebody else waited for it: nothing is known.
                _ => return Ok(()),
            }
        }
    }

    fn judge(status: i32) -> Result<(), Failure> {
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        let Some((_, name)) = FATAL.iter().find(|(fatal, _)| Some(*fatal) == signal) else { return Ok(()) };
        let message = format!("{name} ended the child process in which it ran for the first time");
        Err(Failure::new(FailureKind::Crashed, message))
    }

    /// Memory this process may address already.
    fn virtual_memory() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = text.split_whitespace().next()?.parse().ok()?;
        // SAFETY: asks for a number.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        pages.checked_mul(page)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const TIME: Nanos = Nanos::from_millis(300);

        /// How a task ends its child. One whose child waits for a lock that another test held is tried again.
        fn ended_by(task: fn()) -> Failure {
            let failures = (0..8).find_map(|_| try_out(0, Nanos::from_millis(3_000), task).err());
            failures.unwrap_or_else(|| Failure::new(FailureKind::Untried, "no child ended"))
        }

        #[test]
        fn what_ends_by_itself_or_panics_or_takes_too_long_is_not_held_against_it() {
            assert_eq!(try_out(0, TIME, || ()), Ok(()));
            assert_eq!(try_out(0, TIME, || panic!("nobody hears this")), Ok(()));
            let watch = Stopwatch::start();
            assert_eq!(
                try_out(0, TIME, || loop {
                    std::thread::park()
                }),
                Ok(())
            );
            assert!(watch.elapsed() < Nanos::from_millis(20_000));
        }

        #[test]
        fn a_panic_that_panics_again_when_it_is_dropped_does_not_leave_the_child() {
            struct Again;
            impl Drop for Again {
                fn drop(&mut self) {
                    // SAFETY: ends the child at once, by what would be told. In this process it is never dropped.
                    unsafe { libc::abort() };
                }
            }
            assert_eq!(try_out(0, TIME, || std::panic::resume_unwind(Box::new(Again))), Ok(()));
        }

        #[test]
        fn what_ends_the_process_ends_the_child_and_is_told() {
            let writes_nowhere = || {
                // SAFETY: the child is to end by exactly this.
                unsafe { std::ptr::null_mut::<u8>().write_volatile(1) };
            };
            fn aborts() {
                std::process::abort();
            }
            for (name, end) in [("SIGABRT", aborts as fn()), ("SIGSEGV", writes_nowhere as fn())] {
                let failure = ended_by(end);
                assert_eq!(failure.kind, FailureKind::Crashed);
                assert!(failure.message.starts_with(name), "{failure}");
            }
        }

        #[test]
        fn a_task_that_wants_all_memory_does_not_get_it() {
            let failure = ended_by(|| drop(std::hint::black_box(vec![1u8; 1 << 36])));
            assert!(failure.message.contains("SIGABRT"), "{failure}");
        }

        #[test]
        fn what_the_child_does_to_memory_stays_there() {
            let mut value = 1;
            assert_eq!(try_out(0, TIME, || value = 2), Ok(()));
            assert_eq!(value, 1);
        }
    }
}
