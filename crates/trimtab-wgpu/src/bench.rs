//! Measuring one problem on a GPU: operands of its own on the device, every rival checked before it is timed.

use crate::device::GpuDevice;
use crate::engine::{Engine, GRACE, Trouble, status_error};
use crate::memory::GpuBuffer;
use crate::open::lock;
use crate::prepare::Prepared;
use crate::together::Ready;
use crate::tolerance::tolerance;
use std::sync::Arc;
use trimtab_core::{Bench, Failure, FailureKind, KernelId, LaunchError, Nanos, Point, Problem, Sample};
use trimtab_operands::{Expected, Operands, making_takes};
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
    operands: Operands,
    expected: Expected,
    inputs: Vec<GpuBuffer>,
    out: GpuBuffer,
}

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
    bed: Option<Bed>,
    checked: Vec<Checked>,
}

impl<'a> GpuBench<'a> {
    pub(crate) fn new(device: &'a GpuDevice, problem: Problem) -> GpuBench<'a> {
        GpuBench { device, problem, bed: None, checked: Vec::new() }
    }

    fn make_bed(&self) -> Result<Bed, Failure> {
        let operands = Operands::new(&self.problem);
        let untried = |message: String| Failure::new(FailureKind::Untried, message);
        let expected = Expected::new(self.device.reference.as_ref(), &self.problem, &operands)
            .map_err(|message| untried(format!("no reference: {message}")))?;
        let device = |error: LaunchError| untried(error.to_string());
        let uploaded = operands.inputs.iter().map(|data| self.device.upload(data.slice().bytes()));
        let inputs = uploaded.collect::<Result<_, _>>().map_err(device)?;
        let out = self.device.allocate(operands.out.slice().bytes().len() as u64).map_err(device)?;
        Ok(Bed { operands, expected, inputs, out })
    }

    /// A failure in the words of the planner.
    fn failure(&self, trouble: Trouble, timeout: Nanos) -> Failure {
        match trouble {
            // Also of a device that is lost: the kernel that ran then must not be tried again.
            Trouble::Refused(error) => Failure::new(FailureKind::Launch, error.to_string()),
            Trouble::TimedOut => Failure::new(FailureKind::TimedOut, format!("no result within {timeout}")),
            Trouble::Busy => Failure::new(
                FailureKind::Untried,
                format!("the device is still busy with a kernel that took too long; waited {GRACE}"),
            ),
        }
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
        let engine = &self.device.engine;
        let untried = |error: LaunchError| Failure::new(FailureKind::Untried, error.to_string());
        let open = engine.open().map_err(untried)?;
        if let Some(lost) = open.lost() {
            return Err(Failure::new(FailureKind::Untried, lost));
        }
        engine.transfers().map_err(untried)?;
        let _alone = lock(&engine.measuring);
        engine.idle(open).map_err(|trouble| self.failure(trouble, timeout))?;
        let bed = match self.bed.take() {
            Some(bed) => bed,
            None => self.make_bed()?,
        };
        let bed = self.bed.insert(bed);
        let prepared = self.device.prepare(kernel, &self.problem, point);
        let prepared = prepared.map_err(|refused| Failure::new(refused.kind, refused.error.to_string()))?;
        let known = self.checked.iter().position(|known| (known.kernel, known.point) == (kernel, *point));
        let each = known.map(|at| self.checked[at].each);
        let outcome = run(engine, &self.problem, &prepared, bed, each, iterations, timeout);
        let sample = outcome.map_err(|stopped| match stopped {
            Stopped::Trouble(trouble) => self.failure(trouble, timeout),
            Stopped::Wrong(message) => Failure::new(FailureKind::Wrong, message),
        })?;
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
    Wrong(String),
}

impl<T: Into<Trouble>> From<T> for Stopped {
    fn from(trouble: T) -> Stopped {
        Stopped::Trouble(trouble.into())
    }
}

/// Checks the rival unless it is known how long it takes, then times it.
fn run(
    engine: &Arc<Engine>,
    problem: &Problem,
    prepared: &Arc<Prepared>,
    bed: &mut Bed,
    known: Option<Nanos>,
    iterations: u32,
    timeout: Nanos,
) -> Result<Sample, Stopped> {
    let open = engine.open()?;
    let own = engine.own(prepared)?;
    let inputs: Vec<&GpuBuffer> = bed.inputs.iter().collect();
    let groups = prepared.bind(open, &own.with(&inputs, &bed.out))?;
    let mut compiled_in = None;
    let each = match known {
        Some(each) => each,
        None => {
            // Drivers may compile at the first dispatch. Without work to do, that is all the first one takes.
            let first = engine.compile(prepared, &groups, LONGEST_COMPILE)?;
            let second = engine.compile(prepared, &groups, LONGEST_COMPILE)?;
            let excess = first.saturating_sub(second);
            compiled_in = prepared.built_in().map(|built| Nanos(built.0 + excess.0));
            engine.poison(&bed.out, problem.dtype())?;
            let watch = Stopwatch::start();
            let launch = Ready { prepared: Arc::clone(prepared), inputs: inputs.clone(), out: &bed.out };
            let (statuses, _) = engine.run(&[launch], None, true, None, timeout, engine.path())?;
            let each = watch.elapsed();
            statuses.into_iter().try_for_each(|status| status_error(status, problem))?;
            engine.read_by(engine.path(), &bed.out, bed.operands.out.slice_mut().into_bytes())?;
            bed.expected
                .check_within(problem, &bed.operands.out, tolerance(problem))
                .map_err(Stopped::Wrong)?;
            each
        }
    };
    let (ran, iterations) = engine.long_batch(prepared, &groups, iterations, each, timeout)?;
    Ok(Sample { elapsed: ran.time(), iterations, interference: None, energy_uj: None, compiled_in })
}
