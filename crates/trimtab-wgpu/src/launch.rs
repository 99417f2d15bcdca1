//! What a GPU offers callers: launches on operands in their memory or on the device, and what to keep of it.

use crate::device::{GpuDevice, bytes, bytes_mut};
use crate::engine::{LONGEST_LAUNCH, status_error};
use crate::memory::GpuBuffer;
use crate::together::Ready;
use crate::tolerance::tolerance;
use std::any::Any;
use trimtab_core::{Bytes, KernelId, LaunchError, Nanos, Point, Problem};
use trimtab_operands::{Held, HeldLaunch, Launch, Slice, SliceMut};

impl Held for GpuBuffer {
    fn bytes(&self) -> Bytes {
        Bytes(self.bytes())
    }
}

/// The buffer behind a value some GPU holds.
fn buffer(held: &dyn Held) -> Result<&GpuBuffer, LaunchError> {
    let held: &dyn Any = held;
    let wrong = || LaunchError::Kernel("the operand is not in the memory of a GPU".to_string());
    held.downcast_ref().ok_or_else(wrong)
}

impl Launch for GpuDevice {
    fn launch(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError> {
        self.launch_from(kernel, problem, point, inputs, out, timed)
    }

    fn hold(&self, data: Slice<'_>) -> Result<Box<dyn Held>, LaunchError> {
        Ok(Box::new(self.upload(bytes(&data))?))
    }

    fn reserve(&self, bytes: Bytes) -> Result<Box<dyn Held>, LaunchError> {
        Ok(Box::new(self.allocate(bytes.0)?))
    }

    fn fetch(&self, from: &dyn Held, out: SliceMut<'_>) -> Result<(), LaunchError> {
        self.download(buffer(from)?, bytes_mut(out))
    }

    fn launch_held(
        &self,
        kernel: KernelId,
        problem: &Problem,
        point: &Point,
        inputs: &[&dyn Held],
        out: &dyn Held,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError> {
        let inputs = inputs.iter().map(|input| buffer(*input)).collect::<Result<Vec<&GpuBuffer>, _>>()?;
        self.run_on(kernel, problem, point, &inputs, buffer(out)?, timed)
    }

    fn launch_together(
        &self,
        launches: &[HeldLaunch<'_>],
        result: Option<SliceMut<'_>>,
        wait: bool,
    ) -> Result<(), LaunchError> {
        let mut ready = Vec::with_capacity(launches.len());
        for HeldLaunch { kernel, problem, point, inputs, out } in launches {
            let inputs = inputs.iter().map(|input| buffer(*input)).collect::<Result<Vec<_>, _>>()?;
            let out = buffer(*out)?;
            let prepared = self.ready(*kernel, problem, point, &inputs, out)?;
            ready.push(Ready { prepared, inputs, out });
        }
        let statuses = self.engine.run_together(&ready, result.map(bytes_mut), wait, LONGEST_LAUNCH)?;
        statuses.iter().zip(launches).try_for_each(|(&status, launch)| status_error(status, launch.problem))
    }

    fn tolerance(&self, problem: &Problem) -> f64 {
        tolerance(problem)
    }

    fn offer_speeds(&self, speeds: &str) {
        self.engine.offer_speeds(speeds);
    }

    fn speeds(&self) -> Option<String> {
        self.engine.speeds()
    }

    fn offer_built(&self, built: Vec<u8>) {
        self.offer_pipelines(Some(built));
    }

    fn built(&self) -> Option<Vec<u8>> {
        self.pipeline_data()
    }
}
