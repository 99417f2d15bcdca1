//! A device with faults: memory that is not to be had, loss, refusals, standstills, slow launches, wrong results at some sizes.

use super::faults::{Fault, FaultLog, at_the_gate, hash_of, spoil};
use std::sync::Arc;
use std::time::Duration;
use trimtab::advanced::core::{
    Bench, Bytes, DType, Decline, Device, DeviceFacts, Failure, Fingerprint, KernelId, KernelInfo,
    LaunchError, Nanos, Point, Problem, Rates, Sample, Space, State, Transfers, Work,
};
use trimtab::advanced::operands::{Batch, Buffer, Data, Executor, Pending, Reference, Slice, SliceMut, Wait};

/// How much longer a slow launch takes: fifty times as long as the few ten microseconds of most.
const SLOW: Duration = Duration::from_millis(2);
/// How often a device that hangs looks whether the spell is over.
const MOMENT: Duration = Duration::from_millis(5);
/// Wrong at one size in so many.
const WRONG_ONE_IN: u64 = 4;

/// From which call to which a device has a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spell {
    /// Which.
    pub(crate) fault: Fault,
    /// The first call,
    pub(crate) from: u64,
    /// and the first one after.
    pub(crate) until: u64,
}

/// A device with faults.
pub(crate) struct Faulty<D> {
    device: D,
    facts: DeviceFacts,
    reference: Arc<dyn Reference>,
    spells: Vec<Spell>,
    log: Arc<FaultLog>,
    salt: u64,
    /// The share of a launch's time that it tells: below one it looks fast, so that work goes there.
    told: f64,
}

impl<D: Executor> Faulty<D> {
    /// The device under another name, with faults.
    pub(crate) fn new(
        device: D,
        id: &str,
        spells: Vec<Spell>,
        told: f64,
        salt: u64,
        log: &Arc<FaultLog>,
    ) -> Faulty<D> {
        let mut facts = device.facts().clone();
        let reference = trimtab::device::reference();
        facts.id = id.to_string();
        facts.fingerprint = Fingerprint(format!("{id} {salt:x} {}", facts.fingerprint));
        facts.habits.host_memory = false;
        Faulty { device, facts, reference, spells, log: Arc::clone(log), salt, told }
    }

    fn now(&self) -> Option<Fault> {
        let call = self.log.call();
        self.spells.iter().find(|spell| (spell.from..spell.until).contains(&call)).map(|spell| spell.fault)
    }

    fn note(&self, fault: Fault, problem: &str) -> bool {
        self.log.note(fault, &self.facts.id, problem)
    }

    /// Fails if memory is short, or the device is gone.
    fn moves(&self, allocates: bool) -> Result<(), LaunchError> {
        match self.now() {
            Some(Fault::Memory) if allocates => {
                self.note(Fault::Memory, "-");
                Err(LaunchError::Kernel("out of memory on the device".to_string()))
            }
            Some(Fault::Loss) => {
                self.note(Fault::Loss, "-");
                Err(LaunchError::Kernel("the device is lost".to_string()))
            }
            _ => Ok(()),
        }
    }

    fn launches(&self, problem: &Problem) -> Result<(), LaunchError> {
        self.moves(false)?;
        let text = problem.to_string();
        match self.now() {
            Some(Fault::Error) => {
                self.note(Fault::Error, &text);
                Err(LaunchError::Kernel("the device refuses".to_string()))
            }
            Some(Fault::Hang) => {
                self.note(Fault::Hang, &text);
                // Until the spell is over, which is after the call.
                while self.now() == Some(Fault::Hang) {
                    std::thread::sleep(MOMENT);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Whether results of this problem are wrong here.
    fn is_wrong(&self, problem: &Problem) -> bool {
        self.spells.iter().any(|spell| spell.fault == Fault::WrongSize)
            && hash_of(&problem.to_string(), self.salt).is_multiple_of(WRONG_ONE_IN)
    }

    fn slowly<R>(&self, problem: &Problem, run: impl FnOnce() -> R) -> R {
        if self.now() != Some(Fault::Slow) {
            return run();
        }
        self.note(Fault::Slow, &problem.to_string());
        let outcome = run();
        std::thread::sleep(SLOW);
        outcome
    }
}

impl<D: Executor> Executor for Faulty<D> {
    fn allocate(&self, bytes: Bytes) -> Result<Box<dyn Buffer>, LaunchError> {
        self.moves(true)?;
        self.device.allocate(bytes)
    }
    fn upload(&self, data: Slice<'_>, to: &dyn Buffer) -> Result<(), LaunchError> {
        self.moves(false)?;
        self.device.upload(data, to)
    }
    fn download<'a>(&'a self, from: &'a dyn Buffer, to: SliceMut<'a>) -> Pending<'a> {
        match self.moves(false) {
            Ok(()) => self.device.download(from, to),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
    fn run(&self, mut batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let Some(last) = batch.launches.last() else { return self.device.run(batch) };
        self.launches(last.problem)?;
        let (problem, launches, wrong) = (last.problem, batch.launches, self.is_wrong(last.problem));
        let read = batch.read.take();
        let wait = if batch.wait == Wait::Later { Wait::Done } else { batch.wait };
        let told = self.slowly(problem, || self.device.run(Batch { launches, read: None, wait }))?;
        if wrong {
            self.note(Fault::WrongSize, &problem.to_string());
            let len = problem.out_len() as usize;
            let mut result = Data::zeros(problem.dtype().unwrap_or(DType::F32), len);
            pollster::block_on(self.device.download(last.out, result.slice_mut()))?;
            spoil(result.slice_mut(), self.salt);
            self.device.upload(result.slice(), last.out)?;
        }
        if let Some(read) = read {
            pollster::block_on(self.device.download(last.out, read))?;
        }
        Ok(told.map(|told| Nanos((told.0 as f64 * self.told) as u64)))
    }
    fn wait(&self) -> Result<(), LaunchError> {
        self.moves(false)?;
        self.device.wait()
    }
    fn tolerance(&self, problem: &Problem) -> f64 {
        self.device.tolerance(problem)
    }
}

impl<D: Executor> Device for Faulty<D> {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
    fn rates(&self) -> Rates {
        self.device.rates()
    }
    fn state(&self) -> State {
        self.device.state()
    }
    fn kernels(&self) -> &[KernelInfo] {
        self.device.kernels()
    }
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.device.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.device.space(kernel, problem)
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.device.work(kernel, problem, point)
    }
    fn transfers(&self) -> Option<Transfers> {
        // As if moving cost next to nothing, so that work really goes there.
        Some(Transfers {
            upload_latency: Nanos(1),
            upload_bytes_per_s: 1e12,
            download_latency: Nanos(1),
            download_bytes_per_s: 1e12,
            submit: Nanos(1),
        })
    }
    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        timeout: Nanos,
    ) -> Result<(), Failure> {
        let reference = self.reference.as_ref();
        at_the_gate(|| trimtab::device::verify(self, reference, kernel, problem, point, timeout))
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        let bench = trimtab::device::bench(self, self.reference.as_ref(), problem, limit)?;
        Ok(Box::new(Gate(bench)))
    }
}

/// A bench whose launches are nobody's calls.
struct Gate<'a>(Box<dyn Bench + 'a>);

impl Bench for Gate<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        at_the_gate(|| self.0.run(kernel, point, iterations, timeout))
    }
}
