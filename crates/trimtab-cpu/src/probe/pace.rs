//! Whether somebody else computes on the other thread of our core: another guest of the hypervisor, which no counter of this system
//! shows, or our own helper, which the hypervisor has put there. Both happen for seconds at a time, and which kernel is the fastest
//! depends on it.
//!
//! Work that fills the core's width takes up to twice as long then, a chain of dependent steps hardly longer. The clock frequency
//! changes both alike, so their ratio tells. It is compared with the least of the last minute or two: what lasts is how the machine is.

use crate::pool::Pool;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use trimtab_core::{Nanos, SHARED_FROM};
use trimtab_tune::Stopwatch;

/// Turns of each loop: a little more than a microsecond.
const TURNS: u64 = 1_000;
/// Tries; the least counts, interruptions are not meant.
const TRIES: u32 = 4;
/// The least ratio is that of the present period and the one before.
const PERIOD: Nanos = Nanos::from_millis(60_000);
/// Numbers of threads that are told apart: they may share cores for good.
const THREADS: usize = 16;
/// How long threads wait for each other before they compute at the same time.
const MEETING: Nanos = Nanos(10_000);

/// The least ratio of a period and of the one before, in thousandths; zero while there is none.
struct Least {
    period: AtomicU64,
    now: AtomicU64,
    before: AtomicU64,
}

impl Least {
    const fn new() -> Least {
        Least { period: AtomicU64::new(0), now: AtomicU64::new(0), before: AtomicU64::new(0) }
    }

    /// Notes a ratio seen in a period; how many times the least it is. Threads that do so at once may lose one.
    fn note(&self, period: u64, ratio: f64) -> f64 {
        let ratio = (ratio * 1e3).clamp(1.0, 1e9) as u64;
        let last = self.period.swap(period, Ordering::Relaxed);
        if period > last {
            let before = self.now.swap(0, Ordering::Relaxed);
            self.before.store(if period == last + 1 { before } else { 0 }, Ordering::Relaxed);
        }
        let least = |one: u64, other: u64| if one == 0 || other > 0 && other < one { other } else { one };
        let now = least(self.now.load(Ordering::Relaxed), ratio);
        self.now.store(now, Ordering::Relaxed);
        ratio as f64 / least(now, self.before.load(Ordering::Relaxed)) as f64
    }
}

/// How many times as long as at its best a core's width of work takes on this thread now, for a chain of steps that takes as long as ever.
pub(crate) fn slowed() -> f64 {
    note(1, ratio())
}

/// Whether these threads, or one of them and somebody else, share a core now.
pub(crate) fn is_shared(pool: &Pool, threads: u32) -> bool {
    if threads < 2 {
        return slowed() >= SHARED_FROM;
    }
    let (met, worst) = (AtomicU32::new(0), AtomicU64::new(0));
    pool.run(threads, threads as usize, &|_| {
        met.fetch_add(1, Ordering::Relaxed);
        let meeting = Stopwatch::start();
        while met.load(Ordering::Relaxed) < threads && meeting.elapsed() < MEETING {
            std::hint::spin_loop();
        }
        // Positive numbers are in the order of their bits.
        worst.fetch_max(ratio().to_bits(), Ordering::Relaxed);
    });
    note(threads, f64::from_bits(worst.into_inner())) >= SHARED_FROM
}

fn note(threads: u32, ratio: f64) -> f64 {
    static BORN: OnceLock<Stopwatch> = OnceLock::new();
    static LEAST: [Least; THREADS] = [const { Least::new() }; THREADS];
    let period = BORN.get_or_init(Stopwatch::start).elapsed().0 / PERIOD.0;
    LEAST[(threads as usize).min(THREADS) - 1].note(period, ratio)
}

/// What work that fills the core takes, in units of what a chain takes.
fn ratio() -> f64 {
    let (mut wide, mut chain) = (u64::MAX, u64::MAX);
    for _ in 0..TRIES {
        wide = wide.min(time(all_at_once));
        chain = chain.min(time(one_by_one));
    }
    wide as f64 / chain.max(1) as f64
}

fn time(work: fn(u64) -> u64) -> u64 {
    let seed = std::hint::black_box(1);
    let watch = Stopwatch::start();
    std::hint::black_box(work(seed));
    watch.elapsed().0
}

/// Six chains that do not wait for each other, and more steps than a core does in a cycle. Rotated by different amounts, so that they
/// do not become one vector.
#[inline(never)]
fn all_at_once(seed: u64) -> u64 {
    let (mut a, mut b, mut c) = (seed, seed ^ 1, seed ^ 2);
    let (mut d, mut e, mut f) = (seed ^ 3, seed ^ 4, seed ^ 5);
    for turn in 0..TURNS {
        a = a.wrapping_add(a.rotate_left(5) ^ turn);
        b = b.wrapping_add(b.rotate_left(7) ^ turn);
        c = c.wrapping_add(c.rotate_left(11) ^ turn);
        d = d.wrapping_add(d.rotate_left(13) ^ turn);
        e = e.wrapping_add(e.rotate_left(17) ^ turn);
        f = f.wrapping_add(f.rotate_left(19) ^ turn);
    }
    a ^ b ^ c ^ d ^ e ^ f
}

/// One such chain.
#[inline(never)]
fn one_by_one(seed: u64) -> u64 {
    (0..TURNS).fold(seed, |a, turn| a.wrapping_add(a.rotate_left(5) ^ turn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_compared_with_the_least_of_two_periods() {
        let least = Least::new();
        assert_eq!(least.note(0, 1.6), 1.0);
        assert_eq!(least.note(0, 3.2), 2.0);
        assert_eq!(least.note(1, 3.2), 2.0, "what was seen a period ago counts");
        assert_eq!(least.note(2, 3.2), 1.0, "what lasts is how it is");
        assert_eq!(least.note(2, 1.6), 1.0);
        assert_eq!(least.note(9, 3.2), 1.0, "and what was seen long ago does not count");
    }

    #[test]
    fn this_core_can_be_asked() {
        let all = (0..100).map(|_| ratio()).fold(f64::INFINITY, f64::min);
        assert!((0.3..12.0).contains(&all), "{all}");
        let pool = Pool::new(2);
        // Whether it is shared depends on the machine; that asking comes to an end does not.
        let _ = (is_shared(&pool, 1), is_shared(&pool, 2), slowed());
    }
}
