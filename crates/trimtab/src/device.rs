//! For authors of devices: checking and measuring any [`Executor`], so that a new one has to write neither.
//!
//! A device implements [`Device`](trimtab_core::Device) and [`Executor`]; its `verify`, `bench` and `transfers` can be these functions.
//! `examples/worker-device` in the repository is a whole one.

use std::sync::Arc;
use trimtab_core::{
    Bench, Bytes, Decline, Failure, FailureKind, KernelId, LaunchError, Nanos, Point, Problem, Sample,
    Transfers,
};
use trimtab_cpu::{CpuDevice, CpuOptions};
use trimtab_operands::{
    Batch, Buffer, Data, Exam, Executor, Launch, Reference, Wait, allowed, making_takes, small_stand_ins,
    verify_on_stand_ins,
};
use trimtab_tune::Stopwatch;

/// Bytes of a large transfer.
const LARGE: usize = 8 << 20;
/// Longest a check may take: whoever takes longer on a small stand-in is not worth waiting for.
const LONGEST_CHECK: Nanos = Nanos::from_millis(1_000);
/// Repeats of each transfer; the shortest counts, because what disturbs only adds.
const REPEATS: usize = 5;

/// Plain loops of this machine's processor, to compare results with.
///
/// ```
/// # use trimtab::prelude::*;
/// use trimtab::advanced::operands::Reference;
/// let plain: std::sync::Arc<dyn Reference> = trimtab::device::reference();
/// ```
pub fn reference() -> Arc<dyn Reference> {
    Arc::new(CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() }))
}

/// Runs a kernel on a small stand-in for a problem and compares with the reference: what
/// [`Device::verify`](trimtab_core::Device::verify) is asked for.
///
/// ```
/// # use trimtab::prelude::*;
/// use trimtab::Device;
/// use trimtab::advanced::{core::{KernelId, Nanos}, cpu::{CpuDevice, CpuOptions}};
/// let (device, plain) = (CpuDevice::new(CpuOptions::default()), trimtab::device::reference());
/// let problem: Problem = "elementwise.neg:f32:100".parse()?;
/// let at = device.kernels().iter().position(|kernel| kernel.name == "cpu.elementwise.reference");
/// let kernel = KernelId(at.unwrap_or_default() as u32);
/// let point = device.space(kernel, &problem).points()[0];
/// let limit = Nanos::from_millis(1_000);
/// assert!(trimtab::device::verify(&device, plain.as_ref(), kernel, &problem, &point, limit).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify(
    device: &dyn Executor,
    reference: &dyn Reference,
    kernel: KernelId,
    problem: &Problem,
    point: &Point,
    timeout: Nanos,
) -> Result<(), Failure> {
    let mut bench = DeviceBench::new(device, reference, *problem);
    let check = &mut |stand_in: &Problem| bench.check(kernel, stand_in, point);
    verify_on_stand_ins(device, (kernel, problem, point), timeout, &making_takes, check)
}

/// Prepares measuring a problem, unless that would take longer than `limit`: what [`Device::bench`](trimtab_core::Device::bench) is asked
/// for.
///
/// ```
/// # use trimtab::prelude::*;
/// use trimtab::advanced::{core::Nanos, cpu::{CpuDevice, CpuOptions}};
/// let (device, plain) = (CpuDevice::new(CpuOptions::default()), trimtab::device::reference());
/// let problem: Problem = "elementwise.neg:f32:100".parse()?;
/// assert!(trimtab::device::bench(&device, plain.as_ref(), &problem, Nanos::from_millis(100)).is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn bench<'a>(
    device: &'a dyn Executor,
    reference: &'a dyn Reference,
    problem: &Problem,
    limit: Nanos,
) -> Result<Box<dyn Bench + 'a>, Decline> {
    if matches!(problem, Problem::Custom(_)) {
        return Err(Decline::because("operands of a custom problem are known to its owner only"));
    }
    let takes = making_takes(problem);
    if takes > limit {
        return Err(Decline::from(format!("making operands would take about {takes}, allowed are {limit}")));
    }
    Ok(Box::new(DeviceBench::new(device, reference, *problem)))
}

/// Measures what moving data to a device and back takes; work that does nothing is taken for a small transfer each way.
///
/// ```
/// # use trimtab::prelude::*;
/// use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
/// let device = CpuDevice::new(CpuOptions::default());
/// println!("{} bytes a second", trimtab::device::transfers(&device)?.upload_bytes_per_s);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn transfers(device: &dyn Executor) -> Result<Transfers, LaunchError> {
    let time = |len: usize| -> Result<(Nanos, Nanos), LaunchError> {
        let mut data = Data::F32(vec![1.0; len]);
        let buffer = device.allocate(Bytes(4 * len as u64))?;
        let mut least = (Nanos::MAX, Nanos::MAX);
        for _ in 0..REPEATS {
            let watch = Stopwatch::start();
            device.upload(data.slice(), buffer.as_ref())?;
            device.wait()?;
            let up = watch.elapsed();
            let watch = Stopwatch::start();
            pollster::block_on(device.download(buffer.as_ref(), data.slice_mut()))?;
            least = (least.0.min(up), least.1.min(watch.elapsed()));
        }
        Ok(least)
    };
    let (small, large) = (time(1)?, time(LARGE / 4)?);
    let rate = |small: Nanos, large: Nanos| LARGE as f64 * 1e9 / large.saturating_sub(small).0.max(1) as f64;
    Ok(Transfers {
        upload_latency: small.0,
        upload_bytes_per_s: rate(small.0, large.0),
        download_latency: small.1,
        download_bytes_per_s: rate(small.1, large.1),
        submit: Nanos(small.0.0 + small.1.0),
    })
}

/// Operands in both memories, and what their result is.
struct Bed {
    exam: Exam,
    inputs: Vec<Box<dyn Buffer>>,
    out: Box<dyn Buffer>,
}

impl Bed {
    fn new(device: &dyn Executor, exam: Exam) -> Result<Bed, Failure> {
        let moved = |data: &Data| -> Result<Box<dyn Buffer>, LaunchError> {
            let buffer = device.allocate(Bytes(data.slice().bytes().len() as u64))?;
            device.upload(data.slice(), buffer.as_ref())?;
            Ok(buffer)
        };
        let moving = |error: LaunchError| Failure::new(FailureKind::Untried, error.to_string());
        let inputs = exam.operands.inputs.iter().map(moved).collect::<Result<_, _>>().map_err(moving)?;
        let out = moved(&exam.operands.out).map_err(moving)?;
        Ok(Bed { exam, inputs, out })
    }

    /// Launches a kernel so many times on an output that holds nothing, and compares what it wrote; how long that took, until the
    /// device said so.
    fn examine(
        &mut self,
        device: &dyn Executor,
        kernel: KernelId,
        point: &Point,
        times: u32,
    ) -> Result<Nanos, Failure> {
        let failed = |error: LaunchError| Failure::new(FailureKind::Launch, error.to_string());
        let (problem, out) = (self.exam.problem, &mut self.exam.operands.out);
        // What was not written shows.
        out.poison();
        device.upload(out.slice(), self.out.as_ref()).map_err(failed)?;
        let inputs = self.inputs.iter().map(|buffer| buffer.as_ref()).collect();
        let launch = Launch { kernel, problem: &problem, point, inputs, out: self.out.as_ref() };
        let launches = vec![launch; times as usize];
        let watch = Stopwatch::start();
        let ran = device.run(Batch { launches: &launches, read: None, wait: Wait::Timed }).map_err(failed)?;
        let elapsed = ran.unwrap_or_else(|| watch.elapsed());
        pollster::block_on(device.download(self.out.as_ref(), out.slice_mut())).map_err(failed)?;
        let work = device.work(kernel, &problem, point);
        self.exam.check(Some(allowed(device.tolerance(&problem), &work)))?;
        Ok(elapsed)
    }
}

/// A problem being measured on a device.
struct DeviceBench<'a> {
    device: &'a dyn Executor,
    reference: &'a dyn Reference,
    problem: Problem,
    /// The problem, once it is timed.
    bed: Option<Bed>,
    /// What rivals are checked on besides, by stand-in.
    small: Vec<(Problem, Vec<Bed>)>,
    checked: Vec<(KernelId, Point)>,
}

impl<'a> DeviceBench<'a> {
    fn new(device: &'a dyn Executor, reference: &'a dyn Reference, problem: Problem) -> DeviceBench<'a> {
        DeviceBench { device, reference, problem, bed: None, small: Vec::new(), checked: Vec::new() }
    }

    /// Compares a kernel's results on a stand-in with the reference's.
    fn check(&mut self, kernel: KernelId, stand_in: &Problem, point: &Point) -> Result<(), Failure> {
        let device = self.device;
        if !self.small.iter().any(|(problem, _)| problem == stand_in) {
            let exams = Exam::all(self.reference, stand_in)?;
            let beds = exams.into_iter().map(|exam| Bed::new(device, exam)).collect::<Result<_, _>>()?;
            self.small.push((*stand_in, beds));
        }
        let beds = self.small.iter_mut().find(|(problem, _)| problem == stand_in);
        let watch = Stopwatch::start();
        for bed in beds.into_iter().flat_map(|(_, beds)| beds) {
            bed.examine(device, kernel, point, 1)?;
            let took = watch.elapsed();
            if took > LONGEST_CHECK {
                let message = format!("its check took {took}, allowed are {LONGEST_CHECK}");
                return Err(Failure::new(FailureKind::TimedOut, message));
            }
        }
        Ok(())
    }
}

impl Bench for DeviceBench<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let (device, problem) = (self.device, self.problem);
        let is_new = !self.checked.contains(&(kernel, *point));
        if is_new
            && let Some(stand_in) = small_stand_ins(device, kernel, &problem, point, &making_takes).first()
        {
            self.check(kernel, stand_in, point)?;
        }
        let bed = match &mut self.bed {
            Some(bed) => bed,
            none => none.insert(Bed::new(device, Exam::new(self.reference, &problem)?)?),
        };
        if is_new {
            bed.examine(device, kernel, point, 1)?;
            self.checked.push((kernel, *point));
        }
        // Compared again: a kernel may be right the first time only.
        let iterations = iterations.max(1);
        let elapsed = bed.examine(device, kernel, point, iterations)?;
        if elapsed > timeout {
            return Err(Failure::new(
                FailureKind::TimedOut,
                format!("took {elapsed}, allowed are {timeout}"),
            ));
        }
        Ok(Sample { elapsed, iterations, interference: None, energy_uj: None, compiled_in: None })
    }
}
