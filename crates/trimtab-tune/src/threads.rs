//! Threads and the system's scheduler: who gives way, who ran how long, who runs beside whom. Linux only; elsewhere nothing is
//! known and nothing changed.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use trimtab_core::Nanos;

/// Lets the calling thread, and those it starts, run only where others leave time. Where a system cannot do that for one thread, its
/// priority stays.
pub fn run_when_idle() {
    #[cfg(target_os = "linux")]
    {
        /// The lowest there is.
        const LOWEST: i32 = 19;
        // A system that refuses leaves it as it is: a share of the time is kept in any case.
        let _ = rustix::process::nice(LOWEST);
    }
}

/// The system's name for a thread of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadId(#[cfg(target_os = "linux")] rustix::thread::Pid);

impl ThreadId {
    /// That of the calling thread.
    pub fn own() -> ThreadId {
        ThreadId(
            #[cfg(target_os = "linux")]
            rustix::thread::gettid(),
        )
    }

    /// Its processor time, for others to ask.
    #[cfg(target_os = "linux")]
    pub fn clock(self) -> Option<ThreadClock> {
        File::open(format!("/proc/self/task/{}/schedstat", self.0)).ok().map(ThreadClock)
    }

    /// Its processor time, for others to ask.
    #[cfg(not(target_os = "linux"))]
    pub fn clock(self) -> Option<ThreadClock> {
        None
    }
}

/// Lets these threads run on every core the calling thread may use but the one it runs on now. A scheduler that finds all cores in use
/// leaves a thread and its helper on one core for seconds, because one more process on another looks balanced.
pub fn keep_off_this_core(threads: impl Iterator<Item = ThreadId>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
        let Ok(mut cores) = sched_getaffinity(None) else { return };
        cores.unset(sched_getcpu());
        if cores.count() > 0 {
            // One that ended, or a system that refuses: they stay where they are.
            for thread in threads {
                let _ = sched_setaffinity(Some(thread.0), &cores);
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    drop(threads);
}

/// The processor time of a thread.
#[derive(Debug)]
pub struct ThreadClock(File);

impl ThreadClock {
    /// How long it ran, and how long it could have run while others did. In steps of the scheduler, a few milliseconds.
    pub fn read(&self) -> Option<(Nanos, Nanos)> {
        let (mut file, mut text) = (&self.0, [0; 64]);
        file.seek(SeekFrom::Start(0)).ok()?;
        let length = file.read(&mut text).ok()?;
        let mut numbers = std::str::from_utf8(text.get(..length)?).ok()?.split_ascii_whitespace();
        let mut next = || Some(Nanos(numbers.next()?.parse().ok()?));
        Some((next()?, next()?))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_helper_is_sent_to_every_core_but_ours() {
        let own = rustix::thread::sched_getaffinity(None).unwrap().count();
        let ((tell, told), (end, ended)) = (channel(), channel::<()>());
        let helper = std::thread::spawn(move || {
            tell.send(ThreadId::own()).unwrap();
            let _ = ended.recv();
            rustix::thread::sched_getaffinity(None).unwrap().count()
        });
        keep_off_this_core(std::iter::once(told.recv().unwrap()));
        drop(end);
        assert_eq!(helper.join().unwrap(), (own - 1).max(1));
        assert_eq!(rustix::thread::sched_getaffinity(None).unwrap().count(), own, "ours stay");
    }

    #[test]
    fn a_thread_that_computes_is_seen_to_run() {
        let clock = ThreadId::own().clock().unwrap();
        let before = clock.read().unwrap().0;
        let mut turns = 0u64;
        // The system counts in time slices.
        while clock.read().unwrap().0 <= before && turns < 1 << 30 {
            turns = std::hint::black_box(turns + 1);
        }
        assert!(clock.read().unwrap().0 > before);
    }
}
