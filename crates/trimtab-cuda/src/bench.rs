//! Measuring one problem: operands of its own on the device, every rival checked before it is timed by the device's clock.

use crate::device::CudaDevice;
use crate::error::CudaError;
use crate::prepare::Prepared;
use crate::run::CudaBuffer;
use crate::status;
use std::sync::Arc;
use trimtab_core::{
    Bench, Device, Failure, FailureKind, Interference, KernelId, LaunchError, Nanos, Point, Problem, Sample,
};
use trimtab_operands::{Data, Exam, Executor, allowed, making_takes, small_stand_ins};

/// How long is waited for a device that is still busy with a kernel that took too long.
const GRACE: Nanos = Nanos(200_000_000);

/// Batches at least this long have an energy: the counter moves ten times a second or so.
const ENERGY_BATCH: Nanos = Nanos(500_000_000);

/// Operands in both memories.
struct Bed {
    /// The processor's side holds the result read back.
    exam: Exam,
    inputs: Vec<CudaBuffer>,
    out: CudaBuffer,
}

/// A problem being measured.
pub(crate) struct CudaBench<'a> {
    device: &'a CudaDevice,
    problem: Problem,
    /// The problem, once it is timed.
    bed: Option<Bed>,
    /// What rivals are checked on besides, by stand-in.
    small: Vec<(Problem, Vec<Bed>)>,
    checked: Vec<(KernelId, Point)>,
}

fn untried(error: impl ToString) -> Failure {
    Failure::new(FailureKind::Untried, error.to_string())
}

fn failed(error: LaunchError) -> Failure {
    // A setting that there is not is nobody's failure.
    let is_missing = matches!(error, LaunchError::Point(_));
    let kind = if is_missing { FailureKind::Untried } else { FailureKind::Launch };
    Failure::new(kind, error.to_string())
}

/// A wait that was too short is the kernel's failure, and so is a device it cost.
fn stopped(error: CudaError, timeout: Nanos) -> Failure {
    match error.is_not_ready() {
        true => Failure::new(FailureKind::TimedOut, format!("no result within {timeout}")),
        false => Failure::new(FailureKind::Launch, error.to_string()),
    }
}

impl Bed {
    fn new(device: &CudaDevice, exam: Exam) -> Result<Bed, Failure> {
        let moved = |data: &Data| -> Result<CudaBuffer, Failure> {
            let context = device.context().map_err(untried)?;
            let bytes = data.slice().bytes();
            let allocation = context.allocate(bytes.len() as u64).map_err(untried)?;
            context.upload(&allocation, bytes).map_err(untried)?;
            Ok(CudaBuffer { allocation })
        };
        let inputs = exam.operands.inputs.iter().map(moved).collect::<Result<_, _>>()?;
        let out = moved(&exam.operands.out)?;
        Ok(Bed { exam, inputs, out })
    }

    /// Runs a program so often on an output that holds nothing, and compares what it wrote; how long the device took.
    fn examine(
        &mut self,
        device: &CudaDevice,
        prepared: &Arc<Prepared>,
        (within, times, timeout): (f64, u32, Nanos),
    ) -> Result<Nanos, Failure> {
        let context = device.context().map_err(untried)?;
        let out = &mut self.exam.operands.out;
        // What was not written shows.
        out.poison();
        context.upload(&self.out.allocation, out.slice().bytes()).map_err(untried)?;
        let inputs: Vec<&CudaBuffer> = self.inputs.iter().collect();
        let statuses = device.statuses(prepared.has_status.into()).map_err(untried)?;
        let status = statuses.as_ref().map_or(0, |statuses| statuses.address(0));
        let mut refused = None;
        let all = || {
            refused = (0..times).try_for_each(|_| device.start(prepared, &inputs, &self.out, status)).err();
            Ok(())
        };
        let time = context.timed(timeout, all).map_err(|error| stopped(error, timeout))?;
        if let Some(error) = refused {
            return Err(failed(error));
        }
        if let Some(statuses) = statuses {
            let words = statuses.read(context).map_err(|error| stopped(error, timeout))?;
            words.iter().try_for_each(|word| status::error(*word, &self.exam.problem)).map_err(failed)?;
        }
        let read = out.slice_mut().with_bytes(|bytes| context.download(&self.out.allocation, bytes));
        read.map_err(|error| stopped(error, timeout))?;
        self.exam.check(Some(within))?;
        Ok(time)
    }
}

impl<'a> CudaBench<'a> {
    pub(crate) fn new(device: &'a CudaDevice, problem: Problem) -> CudaBench<'a> {
        CudaBench { device, problem, bed: None, small: Vec::new(), checked: Vec::new() }
    }

    /// What a kernel is held to.
    fn within(&self, kernel: KernelId, problem: &Problem, point: &Point) -> f64 {
        allowed(self.device.tolerance(problem), &self.device.work(kernel, problem, point))
    }

    fn prepare(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Result<Arc<Prepared>, Failure> {
        let prepared = self.device.prepare(kernel, problem, point);
        prepared.map_err(|refused| Failure::new(refused.kind, refused.error.to_string()))
    }

    /// Whether nobody's kernel is still running.
    fn idle(&self) -> Result<(), Failure> {
        let context = self.device.context().map_err(untried)?;
        context.wait(GRACE).map_err(|error| match error.is_not_ready() {
            true => {
                untried(format!("the device is still busy with a kernel that took too long; waited {GRACE}"))
            }
            false => untried(error),
        })
    }

    /// Compares a kernel's results on a stand-in with the reference's.
    pub(crate) fn check(
        &mut self,
        kernel: KernelId,
        stand_in: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        self.idle()?;
        let (device, within) = (self.device, self.within(kernel, stand_in, point));
        let prepared = self.prepare(kernel, stand_in, point)?;
        if !self.small.iter().any(|(problem, _)| problem == stand_in) {
            let exams = Exam::all(device.reference.as_ref(), stand_in)?;
            let beds = exams.into_iter().map(|exam| Bed::new(device, exam)).collect::<Result<_, _>>()?;
            self.small.push((*stand_in, beds));
        }
        let beds = self.small.iter_mut().find(|(problem, _)| problem == stand_in);
        let mut beds = beds.into_iter().flat_map(|(_, beds)| beds);
        beds.try_for_each(|bed| bed.examine(device, &prepared, (within, 1, timeout)).map(drop))
    }
}

impl Bench for CudaBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let (device, problem) = (self.device, self.problem);
        self.idle()?;
        let is_new = !self.checked.contains(&(kernel, *point));
        let prepared = self.prepare(kernel, &problem, point)?;
        if is_new
            && let Some(stand_in) = small_stand_ins(device, kernel, &problem, point, &making_takes).first()
        {
            self.check(kernel, stand_in, point, timeout)?;
        }
        let within = self.within(kernel, &problem, point);
        let bed = match &mut self.bed {
            Some(bed) => bed,
            none => none.insert(Bed::new(device, Exam::new(device.reference.as_ref(), &problem)?)?),
        };
        if is_new {
            bed.examine(device, &prepared, (within, 1, timeout))?;
            self.checked.push((kernel, *point));
        }
        // Compared again: a kernel may be right the first time only.
        let iterations = iterations.max(1);
        let all = Nanos(timeout.0.saturating_mul(iterations.into()));
        let before = device.energy_uj();
        let elapsed = bed.examine(device, &prepared, (within, iterations, all))?;
        let after = device.energy_uj().filter(|_| elapsed >= ENERGY_BATCH);
        let energy_uj = before.zip(after).and_then(|(before, after)| after.checked_sub(before));
        let compiled_in = prepared.built_in;
        let interference = device.is_slowed().then_some(Interference::Throttled);
        Ok(Sample { elapsed, iterations, interference, energy_uj, compiled_in })
    }
}
