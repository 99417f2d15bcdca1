//! The one home of the monotonic clock. Everything else asks a [`Stopwatch`].

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::sync::OnceLock;
use std::time::Instant;
use trimtab_core::Nanos;

/// Reads taken to find the clock's precision: about 20 µs, once in a process.
const PRECISION_READS: u32 = 400;
/// Assumed when the clock never moved during those reads: such a clock ticks in milliseconds at best.
const COARSE: Nanos = Nanos(1_000_000);

/// A running stopwatch on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
}

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock's one home")]
    pub fn start() -> Stopwatch {
        Stopwatch { started: Instant::now() }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Nanos {
        Nanos::from(self.started.elapsed())
    }
}

/// The processor time of a thread, for others to ask. Linux only; elsewhere there is none.
#[derive(Debug)]
pub(crate) struct ThreadClock(File);

impl ThreadClock {
    /// That of the calling thread.
    pub(crate) fn of_this_thread() -> Option<ThreadClock> {
        File::open("/proc/thread-self/schedstat").ok().map(ThreadClock)
    }

    /// How long it ran, and how long it could have run while others did. In steps of the scheduler, a few milliseconds.
    pub(crate) fn read(&self) -> Option<(Nanos, Nanos)> {
        let (mut file, mut text) = (&self.0, [0; 64]);
        file.seek(SeekFrom::Start(0)).ok()?;
        let length = file.read(&mut text).ok()?;
        let mut numbers = std::str::from_utf8(text.get(..length)?).ok()?.split_ascii_whitespace();
        let mut next = || Some(Nanos(numbers.next()?.parse().ok()?));
        Some((next()?, next()?))
    }
}

/// The error of one reading: the smallest step between two readings that was seen. Measured once.
///
/// Readings cost about 25 ns on a machine with a time-stamp counter, a microsecond where the kernel must be asked, and
/// browsers round to 100 µs; a batch must be long against this.
pub fn precision() -> Nanos {
    static PRECISION: OnceLock<Nanos> = OnceLock::new();
    *PRECISION.get_or_init(|| {
        let watch = Stopwatch::start();
        let mut last = watch.elapsed();
        let mut smallest = None::<Nanos>;
        for _ in 0..PRECISION_READS {
            let now = watch.elapsed();
            let step = now.saturating_sub(last);
            if step > Nanos(0) {
                smallest = Some(smallest.map_or(step, |known| known.min(step)));
            }
            last = now;
        }
        smallest.unwrap_or(COARSE)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_does_not_run_backwards_and_its_precision_is_not_zero() {
        let watch = Stopwatch::start();
        let first = watch.elapsed();
        assert!(watch.elapsed() >= first);
        assert!(precision() > Nanos(0));
        assert_eq!(precision(), precision());
    }
}
