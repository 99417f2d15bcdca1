//! A device of your own in under two hundred lines: a worker process that computes with the processor's kernels.
//!
//! What a kernel does to its process does not reach the caller's: when the worker dies, that launch fails, the call is answered by another
//! kernel or device, and the next launch starts a new worker. It competes, is placed, explained, calibrated and quarantined like any other.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use trimtab::advanced::core::{
    Bench, Decline, Device, DeviceFacts, Failure, Fingerprint, Habits, KernelId, KernelInfo, LaunchError,
    Nanos, Point, Problem, Rates, Space, State, Transfers, Work,
};
use trimtab::advanced::cpu::{CpuDevice, CpuOptions};
use trimtab::advanced::operands::{Batch, Executor, HostBuffer, Launch, Slice, SliceMut, Wait};
use trimtab::advanced::tune::Stopwatch;

/// Writes a message: its length, then its bytes.
pub fn send(to: &mut impl Write, data: &[u8]) -> io::Result<()> {
    to.write_all(&(data.len() as u64).to_le_bytes())?;
    to.write_all(data)
}

/// Reads a message.
pub fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0u8; 8];
    from.read_exact(&mut length)?;
    let mut data = vec![0; u64::from_le_bytes(length) as usize];
    from.read_exact(&mut data)?;
    Ok(data)
}

/// The kernels of the processor, on one thread.
pub fn processor() -> CpuDevice {
    CpuDevice::new(CpuOptions { threads: Some(1), blas: None, ..CpuOptions::default() })
}

/// A worker process and the pipes to it.
type Link = (Child, ChildStdin, ChildStdout);

/// A worker process as a device.
pub struct Worker {
    processor: CpuDevice,
    facts: DeviceFacts,
    program: PathBuf,
    link: Mutex<Option<Link>>,
    transfers: OnceLock<Option<Transfers>>,
}

impl Worker {
    /// A device whose worker is that program: `worker` of this crate.
    pub fn new(program: impl Into<PathBuf>) -> Worker {
        let processor = processor();
        let mut facts = processor.facts().clone();
        facts.id = "worker".to_string();
        facts.name = format!("worker process on {}", facts.name);
        facts.fingerprint = Fingerprint(format!("worker {}", facts.fingerprint));
        facts.habits = Habits { host_memory: false, ..Habits::HOST };
        let (program, link, transfers) = (program.into(), Mutex::new(None), OnceLock::new());
        Worker { processor, facts, program, link, transfers }
    }

    /// Lets the worker compute; one that does not answer is given up, and the next launch starts another.
    fn compute(
        &self,
        launch: &Launch<'_>,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let mut asked = || -> io::Result<Vec<u8>> {
            if link.is_none() {
                let mut child =
                    Command::new(&self.program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
                let pipes = child.stdin.take().zip(child.stdout.take());
                *link = pipes.map(|(to, from)| (child, to, from));
            }
            let (_, to, from) = link.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            let point: Vec<String> = launch.point.values().iter().map(u32::to_string).collect();
            send(to, format!("{}\n{}\n{}", launch.kernel.0, launch.problem, point.join(" ")).as_bytes())?;
            send(to, &[inputs.len() as u8])?;
            inputs.iter().try_for_each(|input| send(to, input.bytes()))?;
            to.flush()?;
            receive(from)
        };
        let expected = out.len() * out.dtype().size() as usize;
        match asked() {
            // The first byte says whether what follows is the result or what went wrong.
            Ok(answer) if answer.first() == Some(&1) && answer.len() == 1 + expected => {
                out.with_bytes(|bytes| bytes.copy_from_slice(&answer[1..]));
                Ok(())
            }
            Ok(answer) => Err(LaunchError::Kernel(String::from_utf8_lossy(&answer).trim().to_string())),
            Err(error) => {
                if let Some((mut child, ..)) = link.take() {
                    let _ = child.kill().and(child.wait());
                }
                Err(LaunchError::Kernel(format!("the worker ended: {error}")))
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some((mut child, to, from)) =
            self.link.get_mut().unwrap_or_else(PoisonError::into_inner).take()
        {
            // Without its pipes the worker ends by itself.
            drop((to, from));
            let _ = child.wait();
        }
    }
}

impl Executor for Worker {
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let (wait, watch) = (batch.wait, Stopwatch::start());
        HostBuffer::run(batch, |launch, inputs, out| self.compute(launch, inputs, out))?;
        Ok((wait == Wait::Timed).then(|| watch.elapsed()))
    }
}

impl Device for Worker {
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
    fn verify(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        limit: Nanos,
    ) -> Result<(), Failure> {
        trimtab::device::verify(self, &self.processor, kernel, problem, point, limit)
    }
    fn bench(&self, problem: &Problem, limit: Nanos) -> Result<Box<dyn Bench + '_>, Decline> {
        trimtab::device::bench(self, &self.processor, problem, limit)
    }
}
