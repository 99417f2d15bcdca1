//! A GPU as an executor: memory, moving data, launches one by one or together, and what to keep of it.

use crate::device::GpuDevice;
use crate::engine::{LONGEST_LAUNCH, status_error};
use crate::memory::GpuBuffer;
use crate::together::Ready;
use crate::tolerance::tolerance;
use std::any::Any;
use std::future::ready;
use trimtab_core::{Bytes, LaunchError, Nanos, Problem};
use trimtab_operands::{
    Batch, Buffer, Executor, Keeps, Kept, Launch, Pending, Slice, SliceMut, Wait, fits_bytes,
};

impl Buffer for GpuBuffer {
    fn bytes(&self) -> Bytes {
        Bytes(self.bytes())
    }
}

/// The buffer behind a value some GPU holds.
fn buffer(buffer: &dyn Buffer) -> Result<&GpuBuffer, LaunchError> {
    let any: &dyn Any = buffer;
    let wrong = || LaunchError::Kernel("the operand is not in the memory of a GPU".to_string());
    any.downcast_ref().ok_or_else(wrong)
}

impl Executor for GpuDevice {
    fn allocate(&self, bytes: Bytes) -> Result<Box<dyn Buffer>, LaunchError> {
        Ok(Box::new(GpuDevice::allocate(self, bytes.0)?))
    }

    fn upload(&self, data: Slice<'_>, to: &dyn Buffer) -> Result<(), LaunchError> {
        self.write(buffer(to)?, data.bytes())
    }

    fn download<'a>(&'a self, from: &'a dyn Buffer, to: SliceMut<'a>) -> Pending<'a> {
        Box::pin(ready(
            buffer(from).and_then(|from| to.with_bytes(|bytes| GpuDevice::download(self, from, bytes))),
        ))
    }

    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let Batch { launches, read, wait } = batch;
        let ready = launches.iter().map(|launch| self.ready(launch)).collect::<Result<Vec<_>, _>>()?;
        // One launch is timed by the device's clock.
        let clock = if wait == Wait::Timed && ready.len() == 1 { self.engine.clock() } else { None };
        let waits = wait != Wait::Later;
        let run = |read: Option<&mut [u8]>| {
            self.engine.run(&ready, read, waits, clock, LONGEST_LAUNCH, self.engine.path())
        };
        let (statuses, elapsed) = match read {
            Some(read) => read.with_bytes(|bytes| run(Some(bytes))),
            None => run(None),
        }?;
        let mut told = statuses.iter().zip(launches);
        told.try_for_each(|(&status, launch)| status_error(status, launch.problem))?;
        Ok(elapsed)
    }

    fn wait(&self) -> Result<(), LaunchError> {
        self.engine.open().and_then(|open| Ok(self.engine.idle(open)?))
    }

    fn tolerance(&self, problem: &Problem) -> f64 {
        tolerance(problem)
    }

    fn keeps(&self) -> Option<&dyn Keeps> {
        Some(self)
    }
}

impl GpuDevice {
    /// A launch with the program it runs and the buffers it runs on.
    fn ready<'a>(&self, launch: &Launch<'a>) -> Result<Ready<'a>, LaunchError> {
        fits_bytes(launch)?;
        let Launch { kernel, problem, point, inputs, out } = launch;
        let inputs = inputs.iter().map(|input| buffer(*input)).collect::<Result<Vec<_>, _>>()?;
        let prepared = self.prepare(*kernel, problem, point).map_err(|refused| refused.error)?;
        Ok(Ready { prepared, inputs, out: buffer(*out)? })
    }
}

impl Keeps for GpuDevice {
    fn offer(&self, what: Kept, data: Vec<u8>) {
        match what {
            Kept::Kernels => self.offer_pipelines(Some(data)),
            Kept::Speeds => {
                String::from_utf8(data).iter().for_each(|speeds| self.engine.offer_speeds(speeds))
            }
        }
    }

    fn news(&self, what: Kept) -> Option<Vec<u8>> {
        match what {
            Kept::Kernels => self.pipeline_data(),
            Kept::Speeds => self.engine.speeds().map(String::into_bytes),
        }
    }
}
