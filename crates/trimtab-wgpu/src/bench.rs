//! Measuring one problem on a GPU: operands of its own on the device, every rival checked before it is timed.

use crate::device::GpuDevice;
use crate::engine::{Engine, GRACE, Own, Trouble, status_error};
use crate::memory::GpuBuffer;
use crate::open::lock;
use crate::prepare::Prepared;
use crate::together::Ready;
use crate::tolerance::tolerance;
use std::sync::{Arc, MutexGuard};
use trimtab_core::{
    Bench, Device, Failure, FailureKind, KernelId, LaunchError, Nanos, Point, Problem, Sample,
};
use trimtab_operands::{Exam, allowed, making_takes, small_stand_ins};
use trimtab_tune::Stopwatch;

/// The longest a driver may compile at the first dispatch; 2 s were seen.
const LONGEST_COMPILE: Nanos = Nanos::from_millis(10_000);

/// Times the least build a race must be able to pay for: it builds several kernels, each larger than the least.
const BUILDS: u64 = 16;

/// With less time than this no race is begun before it is known how long building takes: 16 builds of 11 ms, the least
/// seen on software adapters.
const UNKNOWN_BUILDS: Nanos = Nanos::from_millis(176);

/// Why a race would only delay a caller who allows that much time: kernels take longer to build.
pub(crate) fn building_takes_longer(engine: &Engine, limit: Nanos) -> Option<String> {
    let Some(least) = engine.pipelines.least_build() else {
        let reason = || format!("no kernel was built yet and building may take longer than {limit}");
        return (limit < UNKNOWN_BUILDS).then(reason);
    };
    let needed = Nanos(least.0.saturating_mul(BUILDS));
    (needed > limit).then(|| {
        format!("building kernels takes {least} and more each, of the budget {limit} is left; tune the problem ahead of time")
    })
}

/// Time to make operands, their reference result, and to move them, roughly; only used to refuse what would break a budget.
pub(crate) fn preparation(engine: &Engine, problem: &Problem) -> Nanos {
    let made = making_takes(problem);
    let moved = engine.transfers().map_or(made, |transfers| transfers.transfer_overhead(problem));
    Nanos(made.0.saturating_add(moved.0))
}

/// Operands in both memories.
struct Bed {
    /// The processor's side holds the result read back.
    exam: Exam,
    inputs: Vec<GpuBuffer>,
    out: GpuBuffer,
}

/// Buffers, by the steps of a program that use them.
type Bound = Arc<[wgpu::BindGroup]>;

/// A rival that gave the right result.
struct Checked {
    kernel: KernelId,
    point: Point,
    /// How long one run took last.
    each: Nanos,
}

/// A problem being measured.
pub(crate) struct GpuBench<'a> {
    device: &'a GpuDevice,
    problem: Problem,
    /// The problem, once it is timed.
    bed: Option<Bed>,
    /// What rivals are checked on besides, by stand-in.
    small: Vec<(Problem, Vec<Bed>)>,
    checked: Vec<Checked>,
}

impl<'a> GpuBench<'a> {
    pub(crate) fn new(device: &'a GpuDevice, problem: Problem) -> GpuBench<'a> {
        GpuBench { device, problem, bed: None, small: Vec::new(), checked: Vec::new() }
    }

    fn make_bed(&self, exam: Exam) -> Result<Bed, Failure> {
        let device = |error: LaunchError| Failure::new(FailureKind::Untried, error.to_string());
        let uploaded = exam.operands.inputs.iter().map(|data| self.device.upload(data.slice().bytes()));
        let inputs = uploaded.collect::<Result<_, _>>().map_err(device)?;
        let out = self.device.allocate(exam.operands.out.slice().bytes().len() as u64).map_err(device)?;
        Ok(Bed { exam, inputs, out })
    }

    /// Waits until nobody else uses the device.
    fn alone(&self, timeout: Nanos) -> Result<MutexGuard<'a, ()>, Failure> {
        let (device, untried) = (self.device, |message: String| Failure::new(FailureKind::Untried, message));
        let engine = &device.engine;
        let open = engine.open().map_err(|error| untried(error.to_string()))?;
        if let Some(lost) = open.lost() {
            return Err(untried(lost));
        }
        engine.transfers().map_err(|error| untried(error.to_string()))?;
        let alone = lock(&engine.measuring);
        engine.idle(open).map_err(|trouble| failure(trouble.into(), timeout))?;
        Ok(alone)
    }

    fn prepare(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Result<Arc<Prepared>, Failure> {
        let prepared = self.device.prepare(kernel, problem, point);
        prepared.map_err(|refused| Failure::new(refused.kind, refused.error.to_string()))
    }

    /// What a kernel is held to.
    fn within(&self, kernel: KernelId, problem: &Problem, point: &Point) -> f64 {
        allowed(tolerance(problem), &self.device.work(kernel, problem, point))
    }

    /// Compares a kernel's results on a stand-in with the reference's.
    pub(crate) fn check(
        &mut self,
        kernel: KernelId,
        stand_in: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let alone = self.alone(timeout)?;
        self.check_alone(&alone, kernel, stand_in, point, timeout)
    }

    fn check_alone(
        &mut self,
        _: &MutexGuard<'_, ()>,
        kernel: KernelId,
        stand_in: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let prepared = self.prepare(kernel, stand_in, point)?;
        let within = self.within(kernel, stand_in, point);
        if !self.small.iter().any(|(problem, _)| problem == stand_in) {
            let exams = Exam::all(self.device.reference.as_ref(), stand_in)?;
            let beds = exams.into_iter().map(|exam| self.make_bed(exam)).collect::<Result<_, _>>()?;
            self.small.push((*stand_in, beds));
        }
        let engine = &self.device.engine;
        let beds = self.small.iter_mut().find(|(problem, _)| problem == stand_in);
        let mut beds = beds.into_iter().flat_map(|(_, beds)| beds);
        beds.try_for_each(|bed| {
            let own = engine.own(&prepared)?;
            let bound = bed.bind(engine, &prepared, &own)?;
            engine.compile(&prepared, &bound, LONGEST_COMPILE)?;
            bed.examine(engine, &prepared, within, timeout).map(drop)
        })
        .map_err(|stopped| failure(stopped, timeout))
    }
}

/// What stopped a run, in the words of the planner.
fn failure(stopped: Stopped, timeout: Nanos) -> Failure {
    match stopped {
        Stopped::Wrong(wrong) => wrong,
        // Also of a device that is lost: the kernel that ran then must not be tried again.
        Stopped::Trouble(Trouble::Refused(error)) => Failure::new(FailureKind::Launch, error.to_string()),
        Stopped::Trouble(Trouble::TimedOut) => {
            Failure::new(FailureKind::TimedOut, format!("no result within {timeout}"))
        }
        Stopped::Trouble(Trouble::Busy) => Failure::new(
            FailureKind::Untried,
            format!("the device is still busy with a kernel that took too long; waited {GRACE}"),
        ),
    }
}

impl Bench for GpuBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let (device, problem) = (self.device, self.problem);
        let (engine, within) = (&device.engine, self.within(kernel, &problem, point));
        let alone = self.alone(timeout)?;
        let mut bed = match self.bed.take() {
            Some(bed) => bed,
            None => self.make_bed(Exam::new(device.reference.as_ref(), &problem)?)?,
        };
        let stopped = |stopped: Stopped| failure(stopped, timeout);
        let known = self.checked.iter().position(|known| (known.kernel, known.point) == (kernel, *point));
        let outcome = self.prepare(kernel, &problem, point).and_then(|prepared| {
            let own = engine.own(&prepared).map_err(|error| stopped(error.into()))?;
            let bound = bed.bind(engine, &prepared, &own).map_err(stopped)?;
            let Some(at) = known else {
                // Drivers may compile at the first dispatch. Without work to do, that is all the first one takes.
                let compile = || {
                    engine
                        .compile(&prepared, &bound, LONGEST_COMPILE)
                        .map_err(|trouble| stopped(trouble.into()))
                };
                let excess = compile()?.saturating_sub(compile()?);
                let compiled_in = prepared.built_in().map(|built| Nanos(built.0 + excess.0));
                let each = bed.examine(engine, &prepared, within, timeout).map_err(stopped)?;
                let takes = &|stand_in: &Problem| preparation(engine, stand_in);
                if let Some(stand_in) = small_stand_ins(device, kernel, &problem, point, takes).first() {
                    self.check_alone(&alone, kernel, stand_in, point, timeout)?;
                }
                // A kernel may be right the first time only.
                engine.poison(&bed.out, problem.out_dtype()).map_err(|error| stopped(error.into()))?;
                let sample = time(engine, &prepared, &bound, each, iterations, timeout).map_err(stopped)?;
                bed.read(engine).map_err(stopped)?;
                bed.exam.check_again(Some(within))?;
                return Ok(Sample { compiled_in, ..sample });
            };
            time(engine, &prepared, &bound, self.checked[at].each, iterations, timeout).map_err(stopped)
        });
        self.bed = Some(bed);
        let sample = outcome?;
        let each = Nanos(sample.ns() as u64);
        match known {
            Some(at) => self.checked[at].each = each,
            None => self.checked.push(Checked { kernel, point: *point, each }),
        }
        Ok(sample)
    }
}

enum Stopped {
    Trouble(Trouble),
    Wrong(Failure),
}

impl<T: Into<Trouble>> From<T> for Stopped {
    fn from(trouble: T) -> Stopped {
        Stopped::Trouble(trouble.into())
    }
}

impl Bed {
    fn bind(&self, engine: &Engine, prepared: &Prepared, own: &Own) -> Result<Bound, Stopped> {
        let inputs: Vec<&GpuBuffer> = self.inputs.iter().collect();
        Ok(prepared.bind(engine.open()?, &own.with(&inputs, &self.out))?)
    }

    fn read(&mut self, engine: &Engine) -> Result<(), Stopped> {
        let out = self.exam.operands.out.slice_mut();
        Ok(out.with_bytes(|bytes| engine.read_by(engine.path(), &self.out, bytes))?)
    }

    /// Runs a program once and compares what it wrote; how long it took.
    fn examine(
        &mut self,
        engine: &Arc<Engine>,
        prepared: &Arc<Prepared>,
        within: f64,
        timeout: Nanos,
    ) -> Result<Nanos, Stopped> {
        let problem = self.exam.problem;
        engine.poison(&self.out, problem.out_dtype())?;
        let watch = Stopwatch::start();
        let inputs = self.inputs.iter().collect();
        let launch = Ready { prepared: Arc::clone(prepared), inputs, out: &self.out };
        let (statuses, _) = engine.run(&[launch], None, true, None, timeout, engine.path())?;
        let each = watch.elapsed();
        statuses.into_iter().try_for_each(|status| status_error(status, &problem))?;
        self.read(engine)?;
        self.exam.check(Some(within)).map_err(Stopped::Wrong)?;
        Ok(each)
    }
}

fn time(
    engine: &Engine,
    prepared: &Prepared,
    bound: &[wgpu::BindGroup],
    each: Nanos,
    iterations: u32,
    timeout: Nanos,
) -> Result<Sample, Stopped> {
    let (ran, iterations) = engine.long_batch(prepared, bound, iterations, each, timeout)?;
    Ok(Sample { elapsed: ran.time(), iterations, interference: None, energy_uj: None, compiled_in: None })
}
