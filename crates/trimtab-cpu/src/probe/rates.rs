//! How fast this machine is, measured in about 10 ms: what the analytic estimate divides by.
//!
//! Every figure is the best of several short runs: disturbances only ever make a run slower.

use super::speed::FmaLoop;
use crate::Pool;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use trimtab_core::{Bytes, DeviceFacts, Nanos, Rates};
use trimtab_tune::Stopwatch;

/// Rounds of the arithmetic loop in one run: about 50 µs.
const FMA_ROUNDS: u32 = 16_000;
/// Each of the two buffers memory is measured with. Larger would be surer to be out of a large last-level cache, but
/// touching a page costs 0.25–1 µs: these two take 2–4 ms. Where the last cache holds both, its rate is what is measured.
const MEMORY_BUFFER: usize = 12 << 20;
/// Copies go in pieces, so that the library's `memcpy` uses the stores kernels use and not those that bypass caches.
const PIECE: usize = 128 << 10;
/// The working set of the cached measurement when the cache's size is not known.
const UNKNOWN_CACHE: u64 = 128 << 10;
/// The most time one figure takes after its first run.
const FIGURE_TIME: Nanos = Nanos(2_000_000);
/// Most runs for one figure.
const FIGURE_RUNS: u32 = 40;
/// How long a helper is waited for when the cost of handing work over is measured.
const HAND_OVER_PATIENCE: Nanos = Nanos(300_000);

/// Measures the speeds of this machine with up to `threads` threads of the pool.
pub fn rates(threads: u32, facts: &DeviceFacts, pool: &Pool) -> Rates {
    let threads = threads.clamp(1, pool.threads());
    let arithmetic = FmaLoop::widest();
    let fma_s = best_of(|| arithmetic.run(FMA_ROUNDS));

    let level = facts.cache(2).or(facts.cache(1)).map_or(UNKNOWN_CACHE, |size| size.0);
    let cached_bytes_per_s = cached_rate(level);

    let source = vec![1u8; MEMORY_BUFFER];
    let mut target = vec![2u8; MEMORY_BUFFER];
    let moved = 2.0 * MEMORY_BUFFER as f64;
    let one_s = best_of(|| copy(&source, &mut target));
    let all_s = if threads > 1 { all_threads(threads, pool, &source, &mut target) } else { one_s };

    Rates {
        flops_per_s: arithmetic.flops(FMA_ROUNDS) / fma_s,
        lanes: arithmetic.lanes,
        bytes_per_s: moved / one_s,
        // More threads may disturb each other on a busy machine, but one of them alone moves what one moves.
        bytes_per_s_all: moved / all_s.min(one_s),
        cached_bytes_per_s: cached_bytes_per_s.max(moved / one_s),
        cached_up_to: Bytes(level * 3 / 4),
        launch: hand_over(threads, pool),
    }
}

/// The shortest run, in seconds; never zero.
fn best_of(mut run: impl FnMut()) -> f64 {
    // The first run pays for cold caches and a low clock.
    run();
    let all = Stopwatch::start();
    let mut best = Nanos::MAX;
    for _ in 0..FIGURE_RUNS {
        let watch = Stopwatch::start();
        run();
        best = best.min(watch.elapsed());
        if all.elapsed() > FIGURE_TIME {
            break;
        }
    }
    best.max(Nanos(1)).as_secs_f64()
}

fn copy(source: &[u8], target: &mut [u8]) {
    for (to, from) in target.chunks_mut(PIECE).zip(source.chunks(PIECE)) {
        to.copy_from_slice(std::hint::black_box(from));
    }
    std::hint::black_box(target);
}

/// Bytes a second within a cache of that size: half of it is used, so that other lines do not push it out.
fn cached_rate(cache: u64) -> f64 {
    let buffer = usize::try_from(cache / 4).unwrap_or(usize::MAX).clamp(4 << 10, MEMORY_BUFFER);
    let source = vec![1u8; buffer];
    let mut target = vec![2u8; buffer];
    // Enough repetitions for the clock's error not to count.
    let repeats = (1 << 20) / buffer + 1;
    let seconds = best_of(|| (0..repeats).for_each(|_| copy(&source, &mut target)));
    2.0 * buffer as f64 * repeats as f64 / seconds
}

/// Seconds for all threads together to copy, each its part.
fn all_threads(threads: u32, pool: &Pool, source: &[u8], target: &mut [u8]) -> f64 {
    let part = source.len().div_ceil(threads as usize);
    let parts: Vec<Mutex<(&[u8], &mut [u8])>> =
        source.chunks(part).zip(target.chunks_mut(part)).map(Mutex::new).collect();
    best_of(|| {
        pool.run(threads, parts.len(), &|index| {
            if let Some(Ok(mut part)) = parts.get(index).map(Mutex::lock) {
                let (from, to) = &mut *part;
                copy(from, to);
            }
        });
    })
}

/// The time until another thread has begun and finished an empty task. The pool does not wait for late helpers, so an
/// empty job alone would be done by the caller in 100 ns: here both tasks wait for each other.
fn hand_over(threads: u32, pool: &Pool) -> Nanos {
    if threads < 2 {
        return Nanos((best_of(|| pool.run(1, 1, &|_| ())) * 1e9) as u64).max(Nanos(1));
    }
    let mut best = Nanos::MAX;
    let all = Stopwatch::start();
    for _ in 0..FIGURE_RUNS {
        let arrived = AtomicU32::new(0);
        let watch = Stopwatch::start();
        pool.run(2, 2, &|_| {
            arrived.fetch_add(1, Ordering::AcqRel);
            // If the pool is busy both tasks run here, one after the other, and nobody comes.
            while arrived.load(Ordering::Acquire) < 2 && watch.elapsed() < HAND_OVER_PATIENCE {
                std::hint::spin_loop();
            }
        });
        best = best.min(watch.elapsed());
        if all.elapsed() > FIGURE_TIME {
            break;
        }
    }
    best.max(Nanos(1))
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
