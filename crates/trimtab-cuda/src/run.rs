//! Launches on operands that are on the device.

use crate::context::{Allocation, Argument, Context};
use crate::cublas::LibraryProduct;
use crate::device::CudaDevice;
use crate::error::CudaError;
use crate::prepare::Prepared;
use crate::program::StepArgument;
use std::any::Any;
use std::future::ready;
use std::sync::{Arc, PoisonError};
use trimtab_core::{Bytes, LaunchError, Nanos};
use trimtab_operands::{Batch, Buffer, Executor, Keeps, Launch, Pending, Slice, SliceMut, Wait, fits_bytes};

/// How long a caller waits: whoever may not wait so long asks on a thread that can be left behind.
const LONGEST: Nanos = Nanos(3_600_000_000_000);

/// A value on a device.
#[derive(Debug)]
pub struct CudaBuffer {
    pub(crate) allocation: Allocation,
}

impl Buffer for CudaBuffer {
    fn bytes(&self) -> Bytes {
        Bytes(self.allocation.bytes())
    }
}

impl CudaBuffer {
    fn of(buffer: &dyn Buffer) -> Result<&CudaBuffer, LaunchError> {
        let any: &dyn Any = buffer;
        any.downcast_ref()
            .ok_or_else(|| LaunchError::Kernel("the operand is in the memory of another device".to_string()))
    }
}

fn told(error: CudaError) -> LaunchError {
    LaunchError::Kernel(error.to_string())
}

/// The address of so much memory, in place of less.
fn scratch_of(context: &Arc<Context>, kept: &mut Option<Allocation>, bytes: u64) -> Result<u64, LaunchError> {
    if bytes == 0 {
        return Ok(0);
    }
    if let Some(kept) = kept.as_ref().filter(|kept| kept.bytes() >= bytes) {
        return Ok(kept.address());
    }
    // Given back first: freeing waits for launches that use it.
    *kept = None;
    Ok(kept.insert(context.allocate(bytes).map_err(told)?).address())
}

impl CudaDevice {
    /// Makes the launches of a program.
    pub(crate) fn start(
        &self,
        prepared: &Prepared,
        inputs: &[&CudaBuffer],
        out: &CudaBuffer,
    ) -> Result<(), LaunchError> {
        let context = self.context()?;
        if let Some(product) = &prepared.product {
            return self.multiply(product, inputs, out);
        }
        // Held until all steps are in the queue, so that nobody else's come between.
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let scratch = scratch_of(context, &mut scratch, prepared.scratch)?;
        for step in &prepared.steps {
            let mut arguments = Vec::with_capacity(step.given.len());
            for given in &step.given {
                arguments.push(match given {
                    StepArgument::Input(place) => {
                        let input = inputs.get(usize::from(*place));
                        let input =
                            input.ok_or_else(|| LaunchError::Kernel("an operand is missing".to_string()))?;
                        Argument::Address(input.allocation.address())
                    }
                    StepArgument::Out => Argument::Address(out.allocation.address()),
                    StepArgument::Scratch => Argument::Address(scratch),
                    StepArgument::U32(value) => Argument::U32(*value),
                    StepArgument::U64(value) => Argument::U64(*value),
                });
            }
            // SAFETY: kernels are launched with what they declare; buffers are as long as the problem says (`fits_bytes`), and freeing
            // one waits for launches that use it.
            unsafe { context.launch(&step.function, step.grid, step.block, 0, &arguments) }.map_err(told)?;
        }
        Ok(())
    }

    /// Lets the library make a product.
    fn multiply(
        &self,
        product: &LibraryProduct,
        inputs: &[&CudaBuffer],
        out: &CudaBuffer,
    ) -> Result<(), LaunchError> {
        let [lhs, rhs] = inputs else {
            return Err(LaunchError::Kernel("an operand is missing".to_string()));
        };
        let addresses = [lhs.allocation.address(), rhs.allocation.address(), out.allocation.address()];
        let handle = self.cublas()?.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: buffers are as long as the problem says (`fits_bytes`), and freeing one waits for launches that use it.
        unsafe { handle.multiply(product, addresses) }.map_err(|error| LaunchError::Kernel(error.to_string()))
    }

    fn launched(&self, launch: &Launch<'_>) -> Result<(), LaunchError> {
        fits_bytes(launch)?;
        let prepared =
            self.prepare(launch.kernel, launch.problem, launch.point).map_err(|refused| refused.error)?;
        let inputs =
            launch.inputs.iter().map(|input| CudaBuffer::of(*input)).collect::<Result<Vec<_>, _>>()?;
        self.start(&prepared, &inputs, CudaBuffer::of(launch.out)?)
    }
}

impl Executor for CudaDevice {
    fn allocate(&self, bytes: Bytes) -> Result<Box<dyn Buffer>, LaunchError> {
        let allocation = self.context()?.allocate(bytes.0).map_err(told)?;
        Ok(Box::new(CudaBuffer { allocation }))
    }

    fn upload(&self, data: Slice<'_>, to: &dyn Buffer) -> Result<(), LaunchError> {
        self.context()?.upload(&CudaBuffer::of(to)?.allocation, data.bytes()).map_err(told)
    }

    fn download<'a>(&'a self, from: &'a dyn Buffer, to: SliceMut<'a>) -> Pending<'a> {
        let read = || {
            let (context, from) = (self.context()?, CudaBuffer::of(from)?);
            to.with_bytes(|bytes| context.download(&from.allocation, bytes)).map_err(told)
        };
        Box::pin(ready(read()))
    }

    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError> {
        let context = self.context()?;
        let Batch { launches, read, wait } = batch;
        let time = if wait == Wait::Timed {
            // Built before, so that building is not among what is timed.
            for launch in launches {
                self.prepare(launch.kernel, launch.problem, launch.point).map_err(|refused| refused.error)?;
            }
            let mut failed = None;
            let all = || {
                failed = launches.iter().try_for_each(|launch| self.launched(launch)).err();
                Ok(())
            };
            let time = context.timed(LONGEST, all).map_err(told)?;
            if let Some(error) = failed {
                return Err(error);
            }
            Some(time)
        } else {
            launches.iter().try_for_each(|launch| self.launched(launch))?;
            if wait == Wait::Done {
                context.wait(LONGEST).map_err(told)?;
            }
            None
        };
        if let (Some(last), Some(read)) = (launches.last(), read) {
            let from = CudaBuffer::of(last.out)?;
            read.with_bytes(|bytes| context.download(&from.allocation, bytes)).map_err(told)?;
        }
        Ok(time)
    }

    fn wait(&self) -> Result<(), LaunchError> {
        self.context()?.wait(LONGEST).map_err(told)
    }

    fn keeps(&self) -> Option<&dyn Keeps> {
        Some(self)
    }
}
