//! The one home of the monotonic clock. Everything else asks a [`Stopwatch`].

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
