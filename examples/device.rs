//! A device of your own in the fewest lines: it computes in this process with one thread of the processor, and has memory of its own.
//!
//! `examples/worker-device` is a whole one, a process of its own. What a device need not write itself, `trimtab::device` does for it:
//! checking its kernels, measuring them, and measuring how long moving data takes.

use std::sync::OnceLock;
use trimtab::advanced::core::{
    Bench, Decline, Device, DeviceFacts, Failure, Fingerprint, Habits, KernelId, KernelInfo, LaunchError,
    Nanos, Point, Problem, Rates, Space, State, Transfers, Work,
};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::operands::{Batch, Executor, HostBuffer, Wait};
use trimtab::advanced::tune::Stopwatch;

/// One thread of the processor, as if it were somewhere else.
pub struct Second {
    processor: CpuDevice,
    facts: DeviceFacts,
    transfers: OnceLock<Option<Transfers>>,
}

impl Second {
    /// A device called `second`.
    #[expect(clippy::new_without_default, reason = "making one probes the machine")]
    pub fn new() -> Second {
        let processor = CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() });
        let mut facts = processor.facts().clone();
        facts.id = "second".to_string();
        facts.name = format!("one thread of {}", facts.name);
        // What wisdom keeps of it is kept under this.
        facts.fingerprint = Fingerprint(format!("second {}", facts.fingerprint));
        // Operands have to be moved there and back.
        facts.habits = Habits { host_memory: false, ..Habits::HOST };
        Second { processor, facts, transfers: OnceLock::new() }
    }
}

impl Executor for Second {
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let (wait, watch) = (batch.wait, Stopwatch::start());
        HostBuffer::run(batch, |launch, inputs, out| {
            self.processor.launch(launch.kernel, launch.problem, launch.point, inputs, out)
        })?;
        Ok((wait == Wait::Timed).then(|| watch.elapsed()))
    }
}

impl Device for Second {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
    fn rates(&self) -> Rates {
        self.processor.rates()
    }
    fn state(&self) -> State {
        self.processor.state()
    }
    fn kernels(&self) -> &[KernelInfo] {
        self.processor.kernels()
    }
    fn declines(&self, kernel: KernelId, problem: &Problem) -> Option<Decline> {
        self.processor.declines(kernel, problem)
    }
    fn space(&self, kernel: KernelId, problem: &Problem) -> Space {
        self.processor.space(kernel, problem)
    }
    fn work(&self, kernel: KernelId, problem: &Problem, point: &Point) -> Work {
        self.processor.work(kernel, problem, point)
    }
    fn transfers(&self) -> Option<Transfers> {
        *self.transfers.get_or_init(|| trimtab::device::transfers(self).ok())
    }
    fn verify(&self, id: KernelId, problem: &Problem, point: &Point, limit: Nanos) -> Result<(), Failure> {
        trimtab::device::verify(self, &self.processor, id, problem, point, limit)
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        trimtab::device::bench(self, &self.processor, problem, limit)
    }
}
