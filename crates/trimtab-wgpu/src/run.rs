//! Running a program many times and timing it: few submissions, none too long for a watchdog, by the device's own clock
//! where that can be believed.

use crate::engine::{Engine, LONGEST_LAUNCH, Trouble};
use crate::memory::{BufferUse, GpuBuffer};
use crate::open::{Open, lock};
use crate::prepare::Prepared;
use crate::transfer::Mapping;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use trimtab_core::{LaunchError, Nanos};
use trimtab_tune::Stopwatch;

/// Work of one submission: watchdogs of graphics drivers reset a device after about two seconds, and the screen freezes long
/// before.
const SUBMISSION: Nanos = Nanos::from_millis(100);
/// The most runs in one submission: commands take memory.
const MAX_RUNS: u32 = 4096;
/// Steps of the device's clock a batch must take at least.
const LEAST_STEPS: f64 = 100.0;
/// The shortest batch worth timing by the processor's clock.
const LEAST_WALL_NS: f64 = 50_000.0;
/// Times the latency of a submission a batch timed by the processor's clock must take: its share is then below a tenth.
const LEAST_LATENCIES: f64 = 10.0;
/// Times a device's clock may exceed the processor's before it is no longer believed.
const BELIEVABLE: f64 = 1.5;
/// Passes looked at to find the step of the device's clock.
const RESOLUTION_PASSES: usize = 8;
/// Bytes of the two times.
const TIMES_BYTES: usize = 16;

/// The device's own clock.
pub(crate) struct Clock {
    /// Locked while in use.
    parts: Mutex<Parts>,
    period_ns: f64,
    /// The step of the clock in nanoseconds.
    pub resolution_ns: f64,
    believed: AtomicBool,
}

struct Parts {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
}

/// The device's clock in use for one pass.
pub(crate) struct Timing<'a> {
    parts: MutexGuard<'a, Parts>,
    staging: GpuBuffer,
    clock: &'a Clock,
}

impl Timing<'_> {
    /// The pass to be timed.
    pub(crate) fn descriptor(&self) -> wgpu::ComputePassDescriptor<'_> {
        let writes = wgpu::ComputePassTimestampWrites {
            query_set: &self.parts.queries,
            beginning_of_pass_write_index: Some(0),
            end_of_pass_write_index: Some(1),
        };
        wgpu::ComputePassDescriptor { label: None, timestamp_writes: Some(writes) }
    }

    /// After the pass: fetches the times.
    pub(crate) fn resolve(&self, encoder: &mut wgpu::CommandEncoder) {
        encoder.resolve_query_set(&self.parts.queries, 0..2, &self.parts.resolved, 0);
        encoder.copy_buffer_to_buffer(&self.parts.resolved, 0, &self.staging.buffer, 0, TIMES_BYTES as u64);
    }

    fn times(&self, open: &Open, submission: wgpu::SubmissionIndex) -> Result<[u64; 2], LaunchError> {
        let mapping = Mapping::request(open, &self.staging, wgpu::MapMode::Read, TIMES_BYTES)?;
        let mut times = [0u64; 2];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut times);
        mapping.wait(open, Some(submission))?.read(0..TIMES_BYTES, bytes)?;
        Ok(times)
    }

    /// The time of the pass after a submission that took that long by the processor's clock. Nonsense is not believed, nor
    /// is the clock from then on.
    pub(crate) fn elapsed(
        &self,
        open: &Open,
        submission: wgpu::SubmissionIndex,
        wall: Nanos,
    ) -> Result<Option<Nanos>, LaunchError> {
        let [start, end] = self.times(open, submission)?;
        let elapsed = believable(start, end, self.clock.period_ns, wall);
        if elapsed.is_none() {
            self.clock.believed.store(false, Ordering::Relaxed);
        }
        Ok(elapsed)
    }
}

/// How long a batch took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    /// By the device's clock, where it can be believed.
    pub device: Option<Nanos>,
    /// From the submission to the end, by the processor's clock.
    pub wall: Nanos,
}

impl Ran {
    /// The time to go by.
    pub(crate) fn time(&self) -> Nanos {
        self.device.unwrap_or(self.wall)
    }
}

/// The time between two readings of the device's clock, unless that is nonsense.
fn believable(start: u64, end: u64, period_ns: f64, wall: Nanos) -> Option<Nanos> {
    if start == 0 || end <= start {
        return None;
    }
    let elapsed = (end - start) as f64 * period_ns;
    (elapsed >= 1.0 && elapsed <= wall.0 as f64 * BELIEVABLE).then_some(Nanos(elapsed as u64))
}

/// The largest number that divides both.
fn common_step(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Engine {
    /// The device's clock, where there is one that can be believed.
    pub(crate) fn clock(&self) -> Option<&Clock> {
        let made = self.clock.get_or_init(|| self.make_clock().ok().flatten());
        made.as_ref().filter(|clock| clock.believed.load(Ordering::Relaxed))
    }

    fn make_clock(&self) -> Result<Option<Clock>, Trouble> {
        let open = self.open()?;
        if !self.told()?.timestamps {
            return Ok(None);
        }
        let parts = open.caught(|| {
            let queries = open.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            });
            let resolved = open.device.create_buffer(&wgpu::BufferDescriptor {
                label: None,
                size: TIMES_BYTES as u64,
                usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
                mapped_at_creation: false,
            });
            Parts { queries, resolved }
        })?;
        let period_ns = f64::from(open.queue.get_timestamp_period());
        let mut clock = Clock {
            parts: Mutex::new(parts),
            period_ns,
            resolution_ns: period_ns,
            believed: AtomicBool::new(period_ns > 0.0),
        };
        let (mut step, mut last) = (0, 0);
        for _ in 0..RESOLUTION_PASSES {
            for time in self.empty_pass(open, &clock)? {
                if last > 0 {
                    step = common_step(step, time.abs_diff(last));
                }
                last = time;
            }
        }
        clock.resolution_ns = period_ns * step.max(1) as f64;
        Ok(Some(clock))
    }

    /// Readies the device's clock for one pass.
    pub(crate) fn timing<'a>(&self, clock: &'a Clock) -> Result<Timing<'a>, LaunchError> {
        let staging = self.take(BufferUse::Down, TIMES_BYTES as u64)?;
        Ok(Timing { staging, parts: lock(&clock.parts), clock })
    }

    /// The readings around a pass without work.
    fn empty_pass(&self, open: &Open, clock: &Clock) -> Result<[u64; 2], Trouble> {
        let timing = self.timing(clock)?;
        let submission = open.submit(|encoder| {
            drop(encoder.begin_compute_pass(&timing.descriptor()));
            timing.resolve(encoder);
        })?;
        self.finish(open, &submission, LONGEST_LAUNCH)?;
        Ok(timing.times(open, submission)?)
    }

    /// Runs a program so many times in a row, in as few submissions as is sensible if one run takes about `each`.
    pub(crate) fn batch(
        &self,
        prepared: &Prepared,
        groups: &[wgpu::BindGroup],
        runs: u32,
        each: Nanos,
        timeout: Nanos,
    ) -> Result<Ran, Trouble> {
        let open = self.open()?;
        let at_once = (SUBMISSION.0 / each.0.max(1)).clamp(1, MAX_RUNS.into()) as u32;
        let whole = Stopwatch::start();
        let (mut left, mut total) = (runs.max(1), Ran { device: Some(Nanos(0)), wall: Nanos(0) });
        while left > 0 {
            let now = left.min(at_once);
            left -= now;
            let timeout = timeout.saturating_sub(whole.elapsed());
            if timeout == Nanos(0) {
                return Err(Trouble::TimedOut);
            }
            let ran = self.submission(open, prepared, groups, now, timeout)?;
            total.wall.0 += ran.wall.0;
            total.device = total.device.zip(ran.device).map(|(sum, more)| Nanos(sum.0 + more.0));
        }
        Ok(total)
    }

    fn submission(
        &self,
        open: &Open,
        prepared: &Prepared,
        groups: &[wgpu::BindGroup],
        runs: u32,
        timeout: Nanos,
    ) -> Result<Ran, Trouble> {
        let timing = self.clock().map(|clock| self.timing(clock)).transpose()?;
        let commands = open.caught(|| {
            let mut encoder = open.device.create_command_encoder(&Default::default());
            let descriptor = timing.as_ref().map(Timing::descriptor).unwrap_or_default();
            let mut pass = encoder.begin_compute_pass(&descriptor);
            for _ in 0..runs {
                prepared.encode(&mut pass, groups, true);
            }
            drop(pass);
            if let Some(timing) = &timing {
                timing.resolve(&mut encoder);
            }
            encoder.finish()
        })?;
        let watch = Stopwatch::start();
        let submission = open.caught(|| open.queue.submit([commands]))?;
        self.finish(open, &submission, timeout)?;
        let wall = watch.elapsed();
        let device = match &timing {
            Some(timing) => timing.elapsed(open, submission, wall)?,
            None => None,
        };
        Ok(Ran { device, wall })
    }

    /// Like [`Engine::batch`], with more runs where so few are over too soon to be timed; says how many it were.
    pub(crate) fn long_batch(
        &self,
        prepared: &Prepared,
        groups: &[wgpu::BindGroup],
        runs: u32,
        each: Nanos,
        timeout: Nanos,
    ) -> Result<(Ran, u32), Trouble> {
        let whole = Stopwatch::start();
        let (mut runs, mut each) = (runs.max(1), each);
        let mut left = timeout;
        loop {
            let ran = self.batch(prepared, groups, runs, each, left)?;
            left = timeout.saturating_sub(whole.elapsed());
            let needed = self.shortest_ns(&ran);
            let took = ran.time().0.max(1) as f64;
            if took >= needed || runs >= MAX_RUNS || left == Nanos(0) {
                return Ok((ran, runs));
            }
            each = Nanos((took / f64::from(runs)) as u64);
            // A quarter more, so that one more batch is enough.
            let more = (f64::from(runs) * needed / took * 1.25).ceil();
            runs = more.clamp(f64::from(runs) + 1.0, MAX_RUNS.into()) as u32;
        }
    }

    /// The shortest batch whose time says something.
    fn shortest_ns(&self, ran: &Ran) -> f64 {
        match (ran.device, self.clock()) {
            (Some(_), Some(clock)) => LEAST_STEPS * clock.resolution_ns,
            _ => {
                let known = self.transfers.get().and_then(|transfers| transfers.as_ref().ok());
                LEAST_WALL_NS.max(known.map_or(0.0, |known| LEAST_LATENCIES * known.submit.0 as f64))
            }
        }
    }

    /// Makes the driver compile a program now: some do so only at the first dispatch. Nothing is computed.
    pub(crate) fn compile(
        &self,
        prepared: &Prepared,
        groups: &[wgpu::BindGroup],
        timeout: Nanos,
    ) -> Result<Nanos, Trouble> {
        let open = self.open()?;
        let watch = Stopwatch::start();
        let submission = open.submit(|encoder| {
            prepared.encode(&mut encoder.begin_compute_pass(&Default::default()), groups, false);
        })?;
        self.finish(open, &submission, timeout)?;
        Ok(watch.elapsed())
    }

    /// Sets whether the device's clock is believed; tells whether it was.
    #[cfg(test)]
    pub(crate) fn believe(&self, believed: bool) -> bool {
        let was = self.clock().is_some();
        if let Some(Some(clock)) = self.clock.get() {
            clock.believed.store(believed, Ordering::Relaxed);
        }
        was
    }

    /// Whether the device's clock is believed.
    pub(crate) fn believes_its_clock(&self) -> Result<bool, LaunchError> {
        self.open()?;
        Ok(self.clock().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_zero_or_backwards_or_longer_than_the_wait_are_not_believed() {
        let wall = Nanos(1_000);
        assert_eq!(believable(5, 505, 2.0, wall), Some(Nanos(1_000)));
        assert_eq!(believable(5, 755, 2.0, wall), Some(Nanos(1_500)));
        assert_eq!(believable(5, 756, 2.0, wall), None);
        assert_eq!(believable(0, 500, 1.0, wall), None);
        assert_eq!(believable(500, 500, 1.0, wall), None);
        assert_eq!(believable(501, 500, 1.0, wall), None);
        assert_eq!(believable(500, 501, 0.1, wall), None);
    }

    #[test]
    fn the_step_of_a_clock_divides_every_difference() {
        assert_eq!(common_step(0, 3_000), 3_000);
        assert_eq!(common_step(3_000, 5_000), 1_000);
        assert_eq!(common_step(7, 5), 1);
    }
}
