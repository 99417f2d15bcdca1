//! Whether something else used the core while a batch was timed. Cheap enough to surround every batch (about 0.5 µs), and
//! outside the timed part. Linux only; elsewhere nothing is seen.

use trimtab_core::{Interference, Nanos};
use trimtab_tune::Stopwatch;

/// Batches from this length on are watched for stolen time: the system counts it in ticks of 10 ms, and asking takes 20 µs.
const STEAL_WATCHED_FROM: Nanos = Nanos(10_000_000);
/// One tick of the system's accounting.
const TICK: Nanos = Nanos(10_000_000);
/// Being off the core for less than this share of the batch does not count.
const TOLERATED_SHARE: f64 = 0.01;
/// Batches shorter than this are spoiled by any pre-emption; longer ones by those that took their share.
const SHORT: Nanos = Nanos(1_000_000);
/// In a long batch of many threads, one pre-emption in this time is everyday life.
const EVERYDAY: Nanos = Nanos(20_000_000);

/// Watches the calling thread, or the whole process, from its start.
#[derive(Clone, Debug)]
pub struct Watch {
    watch: Stopwatch,
    process: bool,
    usage: Option<Usage>,
    stolen_ticks: Option<u64>,
    throttles: Option<u64>,
}

/// What the system has counted so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    preemptions: u64,
    cpu: Nanos,
}

impl Watch {
    /// Watches this thread.
    pub fn start() -> Watch {
        Watch::start_for(Nanos(0), 1)
    }

    /// Watches a batch expected to take that long on that many threads. With more than one, pre-emption of any thread
    /// of this process counts; long batches are also watched for time given to other guests of the hypervisor and for throttling.
    pub fn start_for(expected: Nanos, threads: u32) -> Watch {
        let process = threads > 1;
        let long = expected >= STEAL_WATCHED_FROM;
        let stolen_ticks = if long { stolen_ticks() } else { None };
        let throttles = if long { throttles() } else { None };
        // Last, so that reading the rest is not part of what is watched.
        Watch { stolen_ticks, throttles, process, usage: usage(process), watch: Stopwatch::start() }
    }

    /// What was seen since the start, if anything.
    pub fn seen(&self) -> Option<Interference> {
        let wall = self.watch.elapsed();
        if let (Some(before), Some(after)) = (self.usage, usage(self.process))
            && preempted(before, after, wall, self.process)
        {
            return Some(Interference::Preempted);
        }
        if self.throttles.is_some_and(|before| throttles().is_some_and(|after| after > before)) {
            return Some(Interference::Throttled);
        }
        let before = self.stolen_ticks?;
        let stolen = Nanos(stolen_ticks()?.saturating_sub(before).saturating_mul(TICK.0));
        (stolen.0 as f64 > TOLERATED_SHARE * wall.0 as f64).then_some(Interference::Stolen)
    }
}

fn preempted(before: Usage, after: Usage, wall: Nanos, process: bool) -> bool {
    let preemptions = after.preemptions.saturating_sub(before.preemptions);
    if preemptions == 0 {
        return false;
    }
    if wall < SHORT {
        return true;
    }
    if process {
        return preemptions > wall.0 / EVERYDAY.0;
    }
    let off_core = wall.saturating_sub(after.cpu.saturating_sub(before.cpu));
    off_core.0 as f64 > TOLERATED_SHARE * wall.0 as f64
}

/// Ticks given to other guests since boot, where the system counts them.
fn stolen_ticks() -> Option<u64> {
    super::state::steal_ticks(std::path::Path::new("/")).map(|(stolen, _)| stolen)
}

/// Times a core was throttled since boot, where the system counts it.
fn throttles() -> Option<u64> {
    super::state::throttle_count(std::path::Path::new("/"))
}

/// How long the calling thread has run since it began, to the nanosecond.
#[cfg(target_os = "linux")]
pub(crate) fn processor_time() -> Option<Nanos> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to memory of that type, which the call fills or leaves alone.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    (result == 0).then(|| Nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn processor_time() -> Option<Nanos> {
    None
}

#[cfg(target_os = "linux")]
fn usage(process: bool) -> Option<Usage> {
    let who = if process { libc::RUSAGE_SELF } else { libc::RUSAGE_THREAD };
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of that type, which the call fills or leaves alone.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if result != 0 {
        return None;
    }
    // SAFETY: the memory was zeroed, which is a valid `rusage`, and the call succeeded.
    let usage = unsafe { usage.assume_init() };
    let nanos = |time: libc::timeval| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_usec).unwrap_or(0) * 1000)
    };
    Some(Usage {
        preemptions: u64::try_from(usage.ru_nivcsw).unwrap_or(0),
        cpu: Nanos(nanos(usage.ru_utime).saturating_add(nanos(usage.ru_stime))),
    })
}

#[cfg(not(target_os = "linux"))]
fn usage(_process: bool) -> Option<Usage> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage_of(preemptions: u64, cpu_ms: u64) -> Usage {
        Usage { preemptions, cpu: Nanos::from_millis(cpu_ms) }
    }

    #[test]
    fn a_batch_without_pre_emption_is_clean_even_if_the_thread_waited() {
        assert!(!preempted(usage_of(5, 0), usage_of(5, 1), Nanos::from_millis(10), false));
    }

    #[test]
    fn any_pre_emption_spoils_a_short_batch() {
        assert!(preempted(usage_of(5, 0), usage_of(6, 0), Nanos(50_000), false));
    }

    #[test]
    fn a_long_batch_is_spoiled_only_by_what_took_its_share() {
        assert!(!preempted(usage_of(5, 0), usage_of(6, 1000), Nanos::from_millis(1001), false));
        assert!(preempted(usage_of(5, 0), usage_of(6, 900), Nanos::from_millis(1000), false));
        assert!(!preempted(usage_of(0, 0), usage_of(10, 0), Nanos::from_millis(1000), true));
        assert!(preempted(usage_of(0, 0), usage_of(90, 0), Nanos::from_millis(1000), true));
    }

    #[test]
    fn counters_that_run_backwards_are_not_interference() {
        assert!(!preempted(usage_of(5, 5), usage_of(4, 4), Nanos(1), false));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_that_sleeps_does_not_run() {
        let (watch, before) = (Stopwatch::start(), processor_time().unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (ran, took) = (processor_time().unwrap().saturating_sub(before), watch.elapsed());
        assert!(ran > Nanos(0) && ran.0 < took.0 / 2, "{ran:?} of {took:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_system_can_be_asked() {
        assert!(usage(false).is_some() && usage(true).is_some());
        // Whether something is seen depends on the machine; that asking works does not.
        let _ = (Watch::start().seen(), Watch::start_for(Nanos::from_millis(20), 2).seen());
    }
}
