//! Measuring one problem on the CPU: operands of its own, on a thread that can be left behind.

use crate::args::{Args, Cpu};
use crate::device::CpuDevice;
use crate::pool::Pool;
use crate::probe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trimtab_core::{
    Bench, Device, Failure, FailureKind, KernelId, KernelTable, Nanos, Point, Problem, Sample,
};
use trimtab_operands::{Data, Expected, Operands, Slice};
use trimtab_tune::{Sandbox, Stopwatch};

/// Batches shorter than this are not asked for their energy: the counters step about once a millisecond.
const ENERGY_BATCH: Nanos = Nanos::from_millis(10);

/// Batches longer than this need no launch ahead of them.
const SETTLED_BATCH: Nanos = Nanos::from_millis(2);

/// How long the measuring thread steps aside for a helper.
const STEP_ASIDE: Duration = Duration::from_micros(30);
/// Time in which a helper that is awake takes part in a job.
const LONG_ENOUGH_TO_JOIN: Nanos = Nanos(10_000);
/// Longest a batch waits for helpers to wake up.
const LEAD_IN_MAX: Nanos = Nanos(2_000_000);

/// What the measuring thread owns. After a time-out it stays with that thread and a new one is made.
struct Bed {
    operands: Operands,
    expected: Expected,
    pool: Pool,
}

/// A problem being measured.
pub(crate) struct CpuBench<'a> {
    device: &'a CpuDevice,
    problem: Problem,
    bed: Option<Arc<Mutex<Bed>>>,
    /// Rivals whose result was compared with the reference, and how long a launch of each took last.
    checked: Vec<(KernelId, Point, f64)>,
    sandbox: Sandbox,
}

impl<'a> CpuBench<'a> {
    pub(crate) fn new(device: &'a CpuDevice, problem: Problem) -> CpuBench<'a> {
        let sandbox = Sandbox::new(Arc::clone(device.abandoned()));
        CpuBench { device, problem, bed: None, checked: Vec::new(), sandbox }
    }

    fn bed(&mut self) -> Result<Arc<Mutex<Bed>>, Failure> {
        if let Some(bed) = &self.bed {
            return Ok(Arc::clone(bed));
        }
        let pool = Pool::new(self.device.pool().threads());
        let operands = Operands::new(&self.problem);
        let expected = Expected::new(self.device, &self.problem, &operands)
            .map_err(|message| Failure::new(FailureKind::Untried, format!("no reference: {message}")))?;
        let bed = Arc::new(Mutex::new(Bed { operands, expected, pool }));
        self.bed = Some(Arc::clone(&bed));
        Ok(bed)
    }
}

impl Bench for CpuBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let bed = self.bed()?;
        let kernels = self.device.table().clone();
        let (problem, point) = (self.problem, *point);
        let iterations = iterations.max(1);
        let known = self.checked.iter().position(|entry| (entry.0, entry.1) == (kernel, point));
        let check = known.is_none();
        let expected_ns = known.map_or(0.0, |at| self.checked[at].2 * f64::from(iterations));
        let threads = self.device.work(kernel, &problem, &point).threads;
        let watched = (Nanos(expected_ns as u64), threads);
        let energy_root = self.device.energy_root().cloned();
        let inside = self.device.inside_library(kernel);
        let outcome = self.sandbox.run(timeout, move || {
            let _inside = inside;
            let Ok(mut bed) = bed.lock() else {
                return Err(Failure::new(
                    FailureKind::Untried,
                    "an earlier candidate left the operands broken",
                ));
            };
            batch(&kernels, kernel, &problem, &point, iterations, check, watched, energy_root, &mut bed)
        });
        // After a time-out or a panic the operands may be in use by a thread that hangs, or poisoned.
        let sample = outcome.inspect_err(|_| self.bed = None)??;
        match known {
            Some(at) => self.checked[at].2 = sample.ns(),
            None => self.checked.push((kernel, point, sample.ns())),
        }
        Ok(sample)
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "one call site; a struct would only name the same things again"
)]
fn batch(
    kernels: &KernelTable<Cpu>,
    kernel: KernelId,
    problem: &Problem,
    point: &Point,
    iterations: u32,
    check: bool,
    watched: (Nanos, u32),
    energy_root: Option<PathBuf>,
    bed: &mut Bed,
) -> Result<Sample, Failure> {
    let Some(kernel) = kernels.get(kernel) else {
        return Err(Failure::new(FailureKind::Launch, format!("there is no kernel {}", kernel.0)));
    };
    let launch_failed =
        |error: trimtab_core::LaunchError| Failure::new(FailureKind::Launch, error.to_string());
    let Operands { inputs, out } = &mut bed.operands;
    let inputs: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
    let pool = &bed.pool;
    let launch = |out: &mut Data| {
        let args = Args { inputs: &inputs, out: out.slice_mut(), pool };
        kernel.launch(problem, point, args).map_err(launch_failed)
    };
    if check {
        out.poison();
        launch(out)?;
        bed.expected.check(problem, out).map_err(|message| Failure::new(FailureKind::Wrong, message))?;
    }
    // What calls one after the other see: helpers awake, operands in the caches. Long batches do not notice the caches.
    if watched.1 > 1 {
        wake(&bed.pool, watched.1);
    }
    if watched.0 < SETTLED_BATCH {
        launch(out)?;
    }
    let energy = || energy_root.as_deref().and_then(probe::energy_uj);
    let watch = probe::Watch::start_for(watched.0, watched.1);
    let energy_before = energy();
    let stopwatch = Stopwatch::start();
    for _ in 0..iterations {
        launch(out)?;
    }
    let elapsed = stopwatch.elapsed();
    let energy_uj = energy_before.zip(energy()).and_then(|(before, after)| after.checked_sub(before));
    let energy_uj = energy_uj.filter(|_| elapsed >= ENERGY_BATCH);
    Ok(Sample { elapsed, iterations, interference: watch.seen(), energy_uj, compiled_in: None })
}

/// Wakes the helpers and waits until one takes part. Without it a product of 16 µs was timed for seconds as if there were
/// no second thread: the helper, woken on the core this thread runs on, waits behind it. Out of its way for a moment, it
/// runs, and the scheduler puts this thread on another core.
fn wake(pool: &Pool, threads: u32) {
    let lead_in = Stopwatch::start();
    while lead_in.elapsed() < LEAD_IN_MAX {
        let joined = pool.joined();
        pool.run(threads, threads as usize, &|_| {
            let task = Stopwatch::start();
            while pool.joined() == joined && task.elapsed() < LONG_ENOUGH_TO_JOIN {
                std::hint::spin_loop();
            }
        });
        if pool.joined() > joined {
            return;
        }
        std::thread::sleep(STEP_ASIDE);
    }
}
