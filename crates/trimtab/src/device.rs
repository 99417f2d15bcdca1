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
    Batch, Buffer, Data, Executor, Expected, Launch, Operands, Reference, Wait, making_takes, stand_ins,
};
use trimtab_tune::Stopwatch;

/// Bytes of a large transfer.
const LARGE: usize = 8 << 20;
/// Repeats of each transfer; the shortest counts, because what disturbs only adds.
const REPEATS: usize = 5;

/// Plain loops of this machine's processor, to compare results with.
pub fn reference() -> Arc<dyn Reference> {
    Arc::new(CpuDevice::new(CpuOptions { threads: Some(1), blas: None, kernels: Vec::new() }))
}

/// Runs a kernel on a small stand-in for a problem and compares with the reference: what
/// [`Device::verify`](trimtab_core::Device::verify) is asked for.
pub fn verify(
    device: &dyn Executor,
    reference: &dyn Reference,
    kernel: KernelId,
    problem: &Problem,
    point: &Point,
    timeout: Nanos,
) -> Result<(), Failure> {
    let taken = |stand_in: &Problem| device.declines(kernel, stand_in).is_none();
    let Some(stand_in) = stand_ins(problem).find(taken) else {
        return Err(Failure::new(FailureKind::Untried, "the kernel declines every stand-in"));
    };
    let takes = making_takes(&stand_in);
    if takes > timeout {
        let message = format!("no small stand-in is taken, and checking {problem} takes about {takes}");
        return Err(Failure::new(FailureKind::Untried, message));
    }
    DeviceBench::new(device, reference, stand_in).run(kernel, point, 1, timeout).map(drop)
}

/// Prepares measuring a problem, unless that would take longer than `limit`: what [`Device::bench`](trimtab_core::Device::bench) is asked
/// for.
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
    operands: Operands,
    expected: Expected,
    inputs: Vec<Box<dyn Buffer>>,
    out: Box<dyn Buffer>,
}

/// A problem being measured on a device.
struct DeviceBench<'a> {
    device: &'a dyn Executor,
    reference: &'a dyn Reference,
    problem: Problem,
    bed: Option<Bed>,
    checked: Vec<(KernelId, Point)>,
}

impl<'a> DeviceBench<'a> {
    fn new(device: &'a dyn Executor, reference: &'a dyn Reference, problem: Problem) -> DeviceBench<'a> {
        DeviceBench { device, reference, problem, bed: None, checked: Vec::new() }
    }

    fn make_bed(&self) -> Result<Bed, Failure> {
        let untried = |message: String| Failure::new(FailureKind::Untried, message);
        let operands = Operands::new(&self.problem);
        let expected = Expected::new(self.reference, &self.problem, &operands).map_err(untried)?;
        let moved = |data: &Data| -> Result<Box<dyn Buffer>, LaunchError> {
            let buffer = self.device.allocate(Bytes(data.slice().bytes().len() as u64))?;
            self.device.upload(data.slice(), buffer.as_ref())?;
            Ok(buffer)
        };
        let moving = |error: LaunchError| untried(error.to_string());
        let inputs = operands.inputs.iter().map(moved).collect::<Result<_, _>>().map_err(moving)?;
        let out = moved(&operands.out).map_err(moving)?;
        Ok(Bed { operands, expected, inputs, out })
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
        if self.bed.is_none() {
            self.bed = Some(self.make_bed()?);
        }
        let Some(bed) = &mut self.bed else {
            return Err(Failure::new(FailureKind::Untried, "there are no operands"));
        };
        let failed = |error: LaunchError| Failure::new(FailureKind::Launch, error.to_string());
        let problem = &self.problem;
        let launch = Launch {
            kernel,
            problem,
            point,
            inputs: bed.inputs.iter().map(|buffer| buffer.as_ref()).collect(),
            out: bed.out.as_ref(),
        };
        if !self.checked.contains(&(kernel, *point)) {
            // What was not written shows.
            bed.operands.out.poison();
            self.device.upload(bed.operands.out.slice(), bed.out.as_ref()).map_err(failed)?;
            let read = Some(bed.operands.out.slice_mut());
            let launches = std::slice::from_ref(&launch);
            self.device.run(Batch { launches, read, wait: Wait::Done }).map_err(failed)?;
            let agrees =
                bed.expected.check_within(problem, &bed.operands.out, self.device.tolerance(problem));
            agrees.map_err(|message| Failure::new(FailureKind::Wrong, message))?;
            self.checked.push((kernel, *point));
        }
        let launches = vec![launch; iterations.max(1) as usize];
        let watch = Stopwatch::start();
        let told =
            self.device.run(Batch { launches: &launches, read: None, wait: Wait::Timed }).map_err(failed)?;
        let elapsed = told.unwrap_or_else(|| watch.elapsed());
        if elapsed > timeout {
            return Err(Failure::new(
                FailureKind::TimedOut,
                format!("took {elapsed}, allowed are {timeout}"),
            ));
        }
        Ok(Sample { elapsed, iterations, interference: None, energy_uj: None, compiled_in: None })
    }
}
