//! Launches on operands that are on the device.

use crate::context::{Argument, Context};
use crate::cublas::{CublasError, LibraryProduct};
use crate::device::CudaDevice;
use crate::error::CudaError;
use crate::graph::{BoundStep, LaunchedBy};
use crate::memory::Allocation;
use crate::prepare::{Prepared, ReadyStep};
use crate::program::StepArgument;
use crate::status;
use std::any::Any;
use std::future::ready;
use std::sync::{Arc, MutexGuard, PoisonError};
use trimtab_core::{Bytes, LaunchError, Nanos};
use trimtab_operands::{Batch, Buffer, Executor, Keeps, Launch, Pending, Slice, SliceMut, Wait, fits_bytes};

/// How long a caller waits: whoever may not wait so long asks on a thread that can be left behind.
const LONGEST: Nanos = Nanos(3_600_000_000_000);
/// Bytes of a status.
const STATUS_BYTES: u64 = 4;

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
fn at_least(context: &Arc<Context>, kept: &mut Option<Allocation>, bytes: u64) -> Result<u64, LaunchError> {
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

/// A launch with everything it needs.
struct BoundLaunch<'a> {
    prepared: Arc<Prepared>,
    inputs: Vec<&'a CudaBuffer>,
    out: &'a CudaBuffer,
    /// Where it may tell that there is no answer.
    status: u64,
}

impl BoundLaunch<'_> {
    fn bound(&self, scratch: u64) -> Result<Vec<BoundStep>, LaunchError> {
        let of = |step| bound(step, &self.inputs, self.out, [scratch, self.status]);
        self.prepared.steps.iter().map(of).collect()
    }
}

/// A step as the driver is told.
fn bound(
    step: &ReadyStep,
    inputs: &[&CudaBuffer],
    out: &CudaBuffer,
    [scratch, status]: [u64; 2],
) -> Result<BoundStep, LaunchError> {
    let argument = |given: &StepArgument| -> Result<Argument, LaunchError> {
        Ok(match given {
            StepArgument::Input(place) => {
                let input = inputs.get(usize::from(*place));
                let missing = || LaunchError::Kernel("an operand is missing".to_string());
                Argument::Address(input.ok_or_else(missing)?.allocation.address())
            }
            StepArgument::Out => Argument::Address(out.allocation.address()),
            StepArgument::Scratch => Argument::Address(scratch),
            StepArgument::ScratchAt(bytes) => Argument::Address(scratch + bytes),
            StepArgument::Status => Argument::Address(status),
            StepArgument::U32(value) => Argument::U32(*value),
            StepArgument::U64(value) => Argument::U64(*value),
            StepArgument::F32(value) => Argument::F32(*value),
            StepArgument::F64(value) => Argument::F64(*value),
        })
    };
    let arguments = step.given.iter().map(argument).collect::<Result<Vec<_>, _>>()?;
    Ok(BoundStep { function: step.function.clone(), grid: step.grid, block: step.block, arguments })
}

/// Words for launches that may tell that there is no answer, zero at first. Nobody else's launches write to them meanwhile.
pub(crate) struct Statuses<'a> {
    kept: MutexGuard<'a, Option<Allocation>>,
    count: u64,
}

impl Statuses<'_> {
    /// Where the word of that number is.
    pub(crate) fn address(&self, number: u64) -> u64 {
        self.kept.as_ref().map_or(0, |kept| kept.address() + STATUS_BYTES * number)
    }

    /// The words, after every launch made before.
    pub(crate) fn read(&self, context: &Context) -> Result<Vec<u32>, CudaError> {
        let Some(kept) = self.kept.as_ref() else { return Ok(Vec::new()) };
        let mut bytes = vec![0u8; (STATUS_BYTES * self.count) as usize];
        context.download(kept, &mut bytes)?;
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        Ok(bytes.chunks_exact(STATUS_BYTES as usize).map(word).collect())
    }
}

impl CudaDevice {
    /// So many words; nothing for none.
    pub(crate) fn statuses(&self, count: u64) -> Result<Option<Statuses<'_>>, LaunchError> {
        if count == 0 {
            return Ok(None);
        }
        let context = self.context()?;
        let mut kept = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        at_least(context, &mut kept, STATUS_BYTES * count)?;
        if let Some(words) = kept.as_ref() {
            context.fill(words, 0).map_err(told)?;
        }
        Ok(Some(Statuses { kept, count }))
    }

    /// Makes the launches of a program one by one: what is timed is the kernels.
    pub(crate) fn start(
        &self,
        prepared: &Arc<Prepared>,
        inputs: &[&CudaBuffer],
        out: &CudaBuffer,
        status: u64,
    ) -> Result<(), LaunchError> {
        let launch = BoundLaunch { prepared: Arc::clone(prepared), inputs: inputs.to_vec(), out, status };
        self.start_all(&[launch], LaunchedBy::Launches)
    }

    /// Makes the launches of programs, in order: where no library comes between as one batch, which may become a graph.
    fn start_all(&self, launches: &[BoundLaunch<'_>], by: LaunchedBy) -> Result<(), LaunchError> {
        let context = self.context()?;
        // Held until all steps are in the queue, so that nobody else's come between.
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let most = launches.iter().map(|launch| launch.prepared.scratch).max().unwrap_or(0);
        let scratch = at_least(context, &mut kept, most)?;
        let mut steps = Vec::new();
        let flush = |steps: &mut Vec<BoundStep>| {
            // SAFETY: kernels are launched with what they declare; buffers are as long as the problem says (`fits_bytes`), and freeing
            // one waits for launches that use it.
            let launched = unsafe { self.graphs.launch(context, steps, by) };
            steps.clear();
            launched.map_err(told)
        };
        for launch in launches {
            match &launch.prepared.product {
                None => steps.extend(launch.bound(scratch)?),
                Some(product) => {
                    flush(&mut steps)?;
                    self.multiply(product, &launch.inputs, launch.out, scratch)?;
                }
            }
        }
        flush(&mut steps)
    }

    /// Lets a library make a product.
    fn multiply(
        &self,
        product: &LibraryProduct,
        inputs: &[&CudaBuffer],
        out: &CudaBuffer,
        workspace: u64,
    ) -> Result<(), LaunchError> {
        let [lhs, rhs] = inputs else {
            return Err(LaunchError::Kernel("an operand is missing".to_string()));
        };
        let [lhs, rhs, out] = [lhs, rhs, out].map(|buffer| buffer.allocation.address());
        let made = if product.suggestion.is_some() {
            let mut handle = self.cublaslt()?.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: buffers are as long as the problem says (`fits_bytes`), the workspace as the program asks; freeing one waits for
            // launches that use it.
            unsafe { handle.multiply(product, [lhs, rhs, out, workspace]) }
        } else {
            let handle = self.cublas()?.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: the same.
            unsafe { handle.multiply(product, [lhs, rhs, out]) }
        };
        made.map_err(|error| match error {
            // How many there are the library says when it is asked: no failure of the kernel's.
            CublasError::NoSuggestion { .. } => LaunchError::Point(error.to_string()),
            _ => LaunchError::Kernel(error.to_string()),
        })
    }

    fn ready<'a>(&self, launch: &Launch<'a>) -> Result<BoundLaunch<'a>, LaunchError> {
        fits_bytes(launch)?;
        let prepared =
            self.prepare(launch.kernel, launch.problem, launch.point).map_err(|refused| refused.error)?;
        let inputs = launch.inputs.iter().map(|input| CudaBuffer::of(*input)).collect::<Result<_, _>>()?;
        Ok(BoundLaunch { prepared, inputs, out: CudaBuffer::of(launch.out)?, status: 0 })
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
        // Built before, so that building is not among what is timed.
        let mut all = launches.iter().map(|launch| self.ready(launch)).collect::<Result<Vec<_>, _>>()?;
        let telling: Vec<usize> = (0..all.len()).filter(|at| all[*at].prepared.has_status).collect();
        let statuses = self.statuses(telling.len() as u64)?;
        for (number, at) in telling.iter().enumerate() {
            all[*at].status = statuses.as_ref().map_or(0, |statuses| statuses.address(number as u64));
        }
        let time = if wait == Wait::Timed {
            let mut failed = None;
            let run = || {
                failed = self.start_all(&all, LaunchedBy::KnownGraphs).err();
                Ok(())
            };
            let time = context.timed(LONGEST, run).map_err(told)?;
            if let Some(error) = failed {
                return Err(error);
            }
            Some(time)
        } else {
            self.start_all(&all, LaunchedBy::Graphs)?;
            if wait == Wait::Done {
                context.wait(LONGEST).map_err(told)?;
            }
            None
        };
        // Whoever has something to tell is waited for, also where nobody asked for it.
        let words =
            statuses.as_ref().map_or(Ok(Vec::new()), |statuses| statuses.read(context)).map_err(told)?;
        drop(statuses);
        for (at, word) in telling.into_iter().zip(words) {
            status::error(word, launches[at].problem)?;
        }
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
