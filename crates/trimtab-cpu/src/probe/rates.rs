//! How fast this machine is, measured in about 10 ms: what the analytic estimate divides by.
//!
//! Every figure is the best of several short runs: disturbances only ever make a run slower.

use super::speed::{FmaLoop, can_flush, copy, flush};
use crate::Pool;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use trimtab_core::{Bytes, DeviceFacts, Nanos, Rates};
use trimtab_tune::Stopwatch;

/// Rounds of the arithmetic loop in one run: about 25 µs.
const FMA_ROUNDS: u32 = 8_000;
/// What one thread copies in one run of the memory measurement: 70 µs at 15 GB/s. Small, because touching a new page costs
/// 0.1 µs on a bare machine but 2.3 µs in the virtual machine this was written on (10 ms for 16 MiB); that the copy goes
/// to memory all the same is seen to by flushing it out of the caches before.
const MEMORY_PART: usize = 512 << 10;
/// Of a line that is written, memory sees it come in and go out; of one that is read, it come in. After a flush the copy is
/// timed before anything went out, so that it shows two of three transfers. Here: 41 GB/s as timed, 27 with this share,
/// 23 with buffers of 256 MiB.
const TRANSFERS_TIMED: f64 = 2.0 / 3.0;
/// Most bytes of each of the two buffers; all of it where caches cannot be flushed, to be larger than they are.
const MEMORY_BUFFER_MAX: usize = 16 << 20;
/// Where both buffers begin, relative to pages and to each other: a vector's alignment, and half a page apart so that a
/// load does not look like the store before it.
const PAGE: usize = 4096;
/// The working set of the cached measurement when the cache's size is not known.
const UNKNOWN_CACHE: u64 = 128 << 10;
/// The most time one figure takes after its first run.
const FIGURE_TIME: Nanos = Nanos(1_500_000);
/// Most runs for one figure.
const FIGURE_RUNS: u32 = 30;
/// How long a helper is waited for when the cost of handing work over is measured, …
const HAND_OVER_PATIENCE: Nanos = Nanos(100_000);
/// … and all tries may take where none came: woken on the core this thread runs on, it waits behind it, …
const HAND_OVER_TIME: Nanos = Nanos(5_000_000);
/// … so this thread steps aside for so long.
const STEP_ASIDE: Duration = Duration::from_micros(50);

/// Measures the speeds of this machine with up to `threads` threads of the pool.
pub fn rates(threads: u32, facts: &DeviceFacts, pool: &Pool) -> Rates {
    let threads = threads.clamp(1, pool.threads());
    let arithmetic = FmaLoop::widest();
    let fma_s = best_of(|| timed(|| arithmetic.run(FMA_ROUNDS)));

    let level = facts.cache(2).or(facts.cache(1)).map_or(UNKNOWN_CACHE, |size| size.0);
    let cached_bytes_per_s = cached_rate(level);

    let (one, all) = memory_rates(threads, pool, facts.caches.last().map(|cache| cache.size));

    Rates {
        barrier_ns: 0.0,
        filled_by: 0,
        flops_per_s: arithmetic.flops(FMA_ROUNDS) / fma_s,
        lanes: arithmetic.lanes,
        bytes_per_s: one,
        bytes_per_s_all: all,
        cached_bytes_per_s: cached_bytes_per_s.max(one),
        cached_up_to: Bytes(level * 3 / 4),
        launch: hand_over(threads, pool),
    }
}

/// The shortest of several times, in seconds; never zero.
fn best_of(mut run: impl FnMut() -> Nanos) -> f64 {
    // The first run pays for cold caches and a low clock.
    run();
    let all = Stopwatch::start();
    let mut best = Nanos::MAX;
    for _ in 0..FIGURE_RUNS {
        best = best.min(run());
        if all.elapsed() > FIGURE_TIME {
            break;
        }
    }
    best.max(Nanos(1)).as_secs_f64()
}

fn timed(run: impl FnOnce()) -> Nanos {
    let watch = Stopwatch::start();
    run();
    watch.elapsed()
}

/// Two buffers that lie to each other as [`PAGE`] says, with pages behind them.
struct Buffers {
    source: Vec<u8>,
    target: Vec<u8>,
    size: usize,
}

impl Buffers {
    fn new(size: usize) -> Buffers {
        Buffers { source: vec![1; size + PAGE], target: vec![2; size + 2 * PAGE], size }
    }

    fn pair(&mut self) -> (&[u8], &mut [u8]) {
        let from = self.source.as_ptr().align_offset(PAGE).min(PAGE);
        let to = self.target.as_ptr().align_offset(PAGE).min(PAGE) + PAGE / 2;
        (&self.source[from..from + self.size], &mut self.target[to..to + self.size])
    }
}

/// Bytes a second within a cache of that size: a quarter of it is used, so that other lines do not push it out.
fn cached_rate(cache: u64) -> f64 {
    let buffer = usize::try_from(cache / 8).unwrap_or(usize::MAX).clamp(4 << 10, MEMORY_PART);
    let mut buffers = Buffers::new(buffer);
    let (source, target) = buffers.pair();
    // Enough repetitions for the clock's error not to count.
    let repeats = (256 << 10) / buffer + 1;
    let seconds = best_of(|| timed(|| (0..repeats).for_each(|_| copy(source, target))));
    2.0 * buffer as f64 * repeats as f64 / seconds
}

/// Bytes a second from and to memory, of one thread and of all threads together.
fn memory_rates(threads: u32, pool: &Pool, last_cache: Option<Bytes>) -> (f64, f64) {
    let parts = threads.max(2) as usize;
    let size = if can_flush() {
        (parts * MEMORY_PART).min(MEMORY_BUFFER_MAX)
    } else {
        let cache =
            last_cache.map_or(MEMORY_BUFFER_MAX, |size| usize::try_from(size.0).unwrap_or(usize::MAX));
        cache.saturating_mul(2).clamp(parts.min(16) * MEMORY_PART, MEMORY_BUFFER_MAX)
    };
    let mut buffers = Buffers::new(size);
    let (source, target) = buffers.pair();
    let part = MEMORY_PART.min(size / parts).max(1);
    let parts: Vec<Mutex<(&[u8], &mut [u8])>> =
        source.chunks_exact(part).zip(target.chunks_exact_mut(part)).map(Mutex::new).collect();
    let with_part = |index: usize, act: &dyn Fn(&[u8], &mut [u8])| {
        if let Some(Ok(mut part)) = parts.get(index % parts.len()).map(Mutex::lock) {
            let (from, to) = &mut *part;
            act(from, to);
        }
    };
    let away = |from: &[u8], to: &mut [u8]| {
        flush(from);
        flush(to);
    };
    // Each run takes parts the last one did not, for caches that cannot be flushed.
    let mut next = 0;
    let seconds = best_of(|| {
        next += 1;
        with_part(next, &away);
        let watch = Stopwatch::start();
        with_part(next, &copy);
        watch.elapsed()
    });
    let share = if can_flush() { TRANSFERS_TIMED } else { 1.0 };
    let one = share * 2.0 * part as f64 / seconds;
    if threads < 2 {
        return (one, one);
    }
    let tasks = (threads as usize).min(parts.len());
    let seconds = best_of(|| {
        next += tasks;
        pool.run(threads, tasks, &|task| with_part(next + task, &away));
        let watch = Stopwatch::start();
        pool.run(threads, tasks, &|task| with_part(next + task, &copy));
        watch.elapsed()
    });
    let all = share * 2.0 * (tasks * part) as f64 / seconds;
    // More threads may disturb each other on a busy machine, but one of them alone moves what one moves.
    (one, all.max(one))
}

/// The time until another thread has begun and finished an empty task. The pool does not wait for late helpers, so an
/// empty job alone would be done by the caller in 100 ns: here both tasks wait for each other.
fn hand_over(threads: u32, pool: &Pool) -> Nanos {
    if threads < 2 {
        return Nanos((best_of(|| timed(|| pool.run(1, 1, &|_| ()))) * 1e9) as u64).max(Nanos(1));
    }
    let (mut met, mut alone) = (Nanos::MAX, Nanos::MAX);
    let all = Stopwatch::start();
    for _ in 0..FIGURE_RUNS {
        let arrived = AtomicU32::new(0);
        let watch = Stopwatch::start();
        let missed = AtomicU32::new(0);
        pool.run(2, 2, &|_| {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < 2 {
                // If the pool or the other core is busy, both tasks run here, one after the other.
                if watch.elapsed() > HAND_OVER_PATIENCE {
                    missed.store(1, Ordering::Relaxed);
                    break;
                }
                std::hint::spin_loop();
            }
        });
        let taken = watch.elapsed();
        let best = if missed.into_inner() == 0 { &mut met } else { &mut alone };
        *best = taken.min(*best);
        if all.elapsed() > if met == Nanos::MAX { HAND_OVER_TIME } else { FIGURE_TIME } {
            break;
        }
        if met == Nanos::MAX {
            std::thread::sleep(STEP_ASIDE);
        }
    }
    // When nobody ever came, handing work over costs at least the time that was waited.
    if met == Nanos::MAX { alone.min(HAND_OVER_PATIENCE) } else { met.max(Nanos(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn measured_rates_are_positive_and_agree_with_each_other() {
        let facts = crate::probe::facts(Path::new("/"), None);
        let pool = Pool::new(2);
        for threads in [1, 2, 99] {
            let rates = rates(threads, &facts, &pool);
            for rate in [rates.flops_per_s, rates.bytes_per_s, rates.cached_bytes_per_s] {
                assert!(rate.is_finite() && rate > 0.0, "{rates:?}");
            }
            assert!(rates.bytes_per_s_all >= rates.bytes_per_s, "{rates:?}");
            assert!(rates.cached_bytes_per_s >= rates.bytes_per_s, "{rates:?}");
            assert!(
                rates.lanes >= 1 && rates.launch >= Nanos(1) && rates.cached_up_to > Bytes(0),
                "{rates:?}"
            );
        }
    }

    #[test]
    fn a_machine_of_unknown_caches_is_measured_too() {
        let mut facts = crate::probe::facts(Path::new("/"), None);
        facts.caches.clear();
        assert_eq!(rates(1, &facts, &Pool::new(1)).cached_up_to, Bytes(UNKNOWN_CACHE * 3 / 4));
    }
}
