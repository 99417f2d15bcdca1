//! Measuring one problem on the CPU: operands of its own, on a thread that can be left behind.

use crate::args::{Args, Cpu};
use crate::device::CpuDevice;
use crate::isolate::try_out;
use crate::pool::Pool;
use crate::probe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trimtab_core::{
    AnyKernel, Bench, Device, Failure, FailureKind, Interference, KernelId, Nanos, Point, Problem, Sample,
};
use trimtab_operands::{
    Data, Exam, Numbers, Operands, Slice, allowed, making_takes, small_stand_ins, tolerance,
};
use trimtab_tune::{Sandbox, Stopwatch, ThreadClock, ThreadId, keep_off_this_core};

/// Batches shorter than this are not asked for their energy: the counters step about once a millisecond.
const ENERGY_BATCH: Nanos = Nanos::from_millis(10);

/// Batches longer than this need no launch ahead of them.
const SETTLED_BATCH: Nanos = Nanos::from_millis(2);

/// After batches from this length on it is asked whether the core is shared, which takes 15 µs.
const SHARING_ASKED_FROM: Nanos = Nanos(100_000);

/// How long the measuring thread steps aside for a helper.
const STEP_ASIDE: Duration = Duration::from_micros(30);
/// Time in which a helper that is awake takes part in a job.
const LONG_ENOUGH_TO_JOIN: Nanos = Nanos(10_000);
/// Longest a batch waits for helpers to wake up.
const LEAD_IN_MAX: Nanos = Nanos(2_000_000);
/// Launches this long span time slices: beside a busy process none runs undisturbed, however often it is measured.
const SPANS_SLICES: Nanos = Nanos::from_millis(3);

/// What the measuring thread owns. After a time-out it stays with that thread and a new one is made.
struct Bed {
    /// The problem, once it is timed.
    timed: Option<Exam>,
    /// What rivals are checked on besides, by stand-in.
    small: Vec<(Problem, Vec<Exam>)>,
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

    /// Compares a kernel's results on a stand-in with the reference's.
    pub(crate) fn check(
        &mut self,
        kernel: KernelId,
        stand_in: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let device = self.device;
        let ready = |bed: &mut Bed| {
            if !bed.small.iter().any(|(problem, _)| problem == stand_in) {
                bed.small.push((*stand_in, Exam::all(device, stand_in)?));
            }
            Ok(())
        };
        self.try_out(kernel, point, stand_in, timeout)?;
        let (stand_in, point) = (*stand_in, *point);
        let within = self.within(kernel, &stand_in, &point);
        self.on_bed(kernel, timeout, ready, move |kernel, Bed { small, pool, .. }| {
            let exams = small.iter_mut().find(|(problem, _)| *problem == stand_in);
            let mut exams = exams.into_iter().flat_map(|(_, exams)| exams);
            exams.try_for_each(|exam| examine(kernel, &point, within, exam, pool))
        })
    }

    /// What a kernel that states an error of its own is held to.
    fn within(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Option<f64> {
        let work = self.device.work(kernel, problem, point);
        (work.error > 0.0).then(|| allowed(tolerance(problem), &work))
    }

    /// Runs a kernel in a child process, if it is to be tried out there first: at the size at which it first runs here, that of a small
    /// stand-in where it takes one.
    fn try_out(
        &self,
        kernel: KernelId,
        point: &Point,
        problem: &Problem,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        if !self.device.is_to_be_tried_out(kernel, point) {
            return Ok(());
        }
        let Some(code) = self.device.table().get(kernel) else { return Ok(()) };
        let Operands { inputs, mut out } = Operands::of(problem, Numbers::Real);
        let memory = problem.operand_bytes().0.saturating_mul(4);
        try_out(memory, timeout, || {
            // One thread: helpers would be missing in the child.
            let pool = Pool::new(1);
            let inputs: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
            let _ = code.launch(problem, point, Args { inputs: &inputs, out: out.slice_mut(), pool: &pool });
        })?;
        self.device.was_tried_out(kernel, point);
        Ok(())
    }

    /// Runs a task on the bed, which is made ready first, on the thread that can be left behind.
    fn on_bed<R: Send + 'static>(
        &mut self,
        kernel: KernelId,
        timeout: Nanos,
        ready: impl FnOnce(&mut Bed) -> Result<(), Failure>,
        task: impl FnOnce(&dyn AnyKernel<Cpu>, &mut Bed) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let broken = || Failure::new(FailureKind::Untried, "an earlier candidate left the operands broken");
        let threads = self.device.pool().threads();
        let made = || Arc::new(Mutex::new(Bed { timed: None, small: Vec::new(), pool: Pool::new(threads) }));
        let bed = Arc::clone(self.bed.get_or_insert_with(made));
        ready(&mut *bed.lock().map_err(|_| broken())?)?;
        let kernels = self.device.table().clone();
        let inside = self.device.inside_library(kernel);
        let outcome = self.sandbox.run(timeout, move || {
            let _inside = inside;
            let Some(kernel) = kernels.get(kernel) else {
                return Err(Failure::new(FailureKind::Launch, format!("there is no kernel {}", kernel.0)));
            };
            task(kernel, &mut *bed.lock().map_err(|_| broken())?)
        });
        // After a time-out or a panic the operands may be in use by a thread that hangs, or poisoned.
        outcome.inspect_err(|_| self.bed = None)?
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
        let (device, problem, point) = (self.device, self.problem, *point);
        let iterations = iterations.max(1);
        let known = self.checked.iter().position(|entry| (entry.0, entry.1) == (kernel, point));
        let is_new = known.is_none();
        if is_new
            && let Some(stand_in) = small_stand_ins(device, kernel, &problem, &point, &making_takes).first()
        {
            self.check(kernel, stand_in, &point, timeout)?;
        } else if is_new {
            self.try_out(kernel, &point, &problem, timeout)?;
        }
        let expected_ns = known.map_or(0.0, |at| self.checked[at].2 * f64::from(iterations));
        let threads = device.work(kernel, &problem, &point).threads;
        let watched = (Nanos(expected_ns as u64), threads);
        let (energy_root, within) = (device.energy_root().cloned(), self.within(kernel, &problem, &point));
        let ready = |bed: &mut Bed| {
            if bed.timed.is_none() {
                bed.timed = Some(Exam::new(device, &problem)?);
            }
            Ok(())
        };
        let sample = self.on_bed(kernel, timeout, ready, move |kernel, Bed { timed, pool, .. }| {
            let Some(exam) = timed else {
                return Err(Failure::new(FailureKind::Untried, "there are no operands"));
            };
            if is_new {
                examine(kernel, &point, within, exam, pool)?;
            }
            let sample = batch(kernel, &point, iterations, watched, energy_root, exam, pool)?;
            exam.check_again(within)?;
            Ok(sample)
        })?;
        match known {
            Some(at) => self.checked[at].2 = sample.ns(),
            None => self.checked.push((kernel, point, sample.ns())),
        }
        Ok(sample)
    }
}

/// Launches a kernel on an exam's operands so many times; how long that took.
fn launch(
    kernel: &dyn AnyKernel<Cpu>,
    point: &Point,
    exam: &mut Exam,
    pool: &Pool,
    times: u32,
) -> Result<Nanos, Failure> {
    let Operands { inputs, out } = &mut exam.operands;
    let inputs: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
    let stopwatch = Stopwatch::start();
    for _ in 0..times {
        let args = Args { inputs: &inputs, out: out.slice_mut(), pool };
        let launched = kernel.launch(&exam.problem, point, args);
        launched.map_err(|error| Failure::new(FailureKind::Launch, error.to_string()))?;
    }
    Ok(stopwatch.elapsed())
}

/// Runs a kernel once and compares what it wrote.
fn examine(
    kernel: &dyn AnyKernel<Cpu>,
    point: &Point,
    within: Option<f64>,
    exam: &mut Exam,
    pool: &Pool,
) -> Result<(), Failure> {
    exam.operands.out.poison();
    launch(kernel, point, exam, pool, 1)?;
    exam.check(within)
}

fn batch(
    kernel: &dyn AnyKernel<Cpu>,
    point: &Point,
    iterations: u32,
    watched: (Nanos, u32),
    energy_root: Option<PathBuf>,
    exam: &mut Exam,
    pool: &Pool,
) -> Result<Sample, Failure> {
    // What calls one after the other see: helpers awake, operands in the caches. Long batches do not notice the caches.
    if watched.1 > 1 {
        wake(pool, watched.1);
    }
    if watched.0 < SETTLED_BATCH {
        launch(kernel, point, exam, pool, 1)?;
    }
    // A kernel may be right the first time only.
    exam.poison_again();
    let energy = || energy_root.as_deref().and_then(probe::energy_uj);
    let watch = probe::Watch::start_for(watched.0, watched.1);
    let energy_before = energy();
    let kept = Kept::watch(watched, iterations, pool);
    let elapsed = launch(kernel, point, exam, pool, iterations)?;
    let kept = kept.and_then(|kept| kept.share().zip(kept.ran()));
    let energy_uj = energy_before.zip(energy()).and_then(|(before, after)| after.checked_sub(before));
    let energy_uj = energy_uj.filter(|_| elapsed >= ENERGY_BATCH);
    let interference = watch.seen();
    // The system counts what others took in steps of milliseconds: too much of it would flatter. It took no less than this thread ran.
    let elapsed = interference.and(kept).map_or(elapsed, |(kept, ran)| elapsed.saturating_sub(kept).max(ran));
    let shared = || watched.0 >= SHARING_ASKED_FROM && probe::is_shared(pool, watched.1);
    let interference = interference.or_else(|| shared().then_some(Interference::Shared));
    Ok(Sample { elapsed, iterations, interference, energy_uj, compiled_in: None })
}

/// How long others kept a batch's threads from running. Judged by the clock on the wall alone, beside one busy process a kernel on one
/// thread beats the same on two, which never both run all the time.
struct Kept {
    clocks: Vec<(ThreadClock, Nanos)>,
    /// How long this thread had run before.
    ran: Nanos,
}

impl Kept {
    /// Watches from now on a batch of long launches, expected to take that long on that many threads.
    fn watch((expected, threads): (Nanos, u32), iterations: u32, pool: &Pool) -> Option<Kept> {
        if expected.0 / u64::from(iterations) < SPANS_SLICES.0 {
            return None;
        }
        let helpers = pool.helpers().take(threads.saturating_sub(1) as usize);
        let clocks = std::iter::once(ThreadId::own()).chain(helpers).map(|thread| {
            let clock = thread.clock()?;
            let kept = clock.read()?.1;
            Some((clock, kept))
        });
        Some(Kept { clocks: clocks.collect::<Option<_>>()?, ran: probe::processor_time()? })
    }

    /// Each thread's share of it: what was lost if threads take the next part as they get free, and less than what was if each has its
    /// own, so that nobody is flattered.
    fn share(&self) -> Option<Nanos> {
        let clocks = self.clocks.iter();
        let kept = clocks.map(|(clock, before)| Some(clock.read()?.1.saturating_sub(*before).0));
        Some(Nanos(kept.sum::<Option<u64>>()? / self.clocks.len() as u64))
    }

    /// How long this thread ran.
    fn ran(&self) -> Option<Nanos> {
        Some(probe::processor_time()?.saturating_sub(self.ran))
    }
}

/// Wakes the helpers and waits until one takes part. Without it a product of 16 µs was timed for seconds as if there were
/// no second thread: the helper, woken on the core this thread runs on, waits behind it. Out of its way for a moment, it
/// runs, and the scheduler puts this thread on another core, unless all are in use: then the helpers are sent elsewhere.
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
        keep_off_this_core(pool.helpers());
        std::thread::sleep(STEP_ASIDE);
    }
}
