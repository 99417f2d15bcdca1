//! What every device offers callers, the processor included: memory, moving data, launches in order, waiting.
//!
//! The planner sees a [`Device`]: facts, kernels, measuring. Whoever runs plans sees an [`Executor`], which is a device that computes on
//! operands. Moving data back may take a while, so [`Executor::download`] gives a future: a device that can block finishes it at once,
//! one that must not (in a browser) later.

use crate::check::tolerance;
use crate::slice::{Slice, SliceMut};
use std::any::Any;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{PoisonError, RwLock};
use trimtab_core::{Bytes, DType, Device, KernelId, LaunchError, MAX_INPUTS, Nanos, Point, Problem};

/// Memory of a device that holds a value for as long as this lives. Only the device that made it knows what is inside.
pub trait Buffer: Any + Send + Sync {
    /// Bytes of the value.
    fn bytes(&self) -> Bytes;
}

/// A launch on values that are on the device; the result stays there.
#[derive(Clone)]
pub struct Launch<'a> {
    /// The kernel,
    pub kernel: KernelId,
    /// what it computes
    pub problem: &'a Problem,
    /// and its setting.
    pub point: &'a Point,
    /// The operands.
    pub inputs: Vec<&'a dyn Buffer>,
    /// Memory for the result. What it holds before means nothing.
    pub out: &'a dyn Buffer,
}

/// How long a batch is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Perhaps not at all: whoever reads a result is told what went wrong.
    Later,
    /// Until all launches were made.
    Done,
    /// The same, and the device tells what they took without moving data, where it can.
    Timed,
}

/// Launches made in this order, each seeing the results of those before. After an error nobody knows which of them were made.
pub struct Batch<'a> {
    /// The launches.
    pub launches: &'a [Launch<'a>],
    /// Where the last result is copied to on the way, in the caller's memory.
    pub read: Option<SliceMut<'a>>,
    /// How long they are waited for.
    pub wait: Wait,
}

/// Something that is under way.
pub type Pending<'a> = Pin<Box<dyn Future<Output = Result<(), LaunchError>> + Send + 'a>>;

/// A device that computes on operands. One whose buffers are [`HostBuffer`]s and whose launches are over when they return has to write
/// [`run`](Executor::run) alone.
pub trait Executor: Device {
    /// Memory for a value. What it holds before means nothing.
    fn allocate(&self, bytes: Bytes) -> Result<Box<dyn Buffer>, LaunchError> {
        Ok(Box::new(HostBuffer::new(bytes)?))
    }

    /// Copies data to the first bytes of a buffer; launches made afterwards see it. The data is the caller's again when this returns.
    fn upload(&self, data: Slice<'_>, to: &dyn Buffer) -> Result<(), LaunchError> {
        HostBuffer::of(to)?.write(data)
    }

    /// Copies the first bytes of a buffer to the caller's memory, after every launch made before.
    fn download<'a>(&'a self, from: &'a dyn Buffer, to: SliceMut<'a>) -> Pending<'a> {
        Box::pin(ready(HostBuffer::of(from).and_then(|from| from.read(to))))
    }

    /// Makes launches. The time is nothing unless it was asked for.
    fn run(&self, batch: Batch<'_>) -> Result<Option<Nanos>, LaunchError>;

    /// Waits until every launch made before is over, and tells what went wrong with those nobody waited for.
    fn wait(&self) -> Result<(), LaunchError> {
        Ok(())
    }

    /// Makes one launch on operands in the caller's memory. With `timed` as [`Wait::Timed`].
    fn launch_host(
        &self,
        launch: HostLaunch<'_>,
        out: SliceMut<'_>,
        timed: bool,
    ) -> Result<Option<Nanos>, LaunchError> {
        let HostLaunch { kernel, problem, point, inputs } = launch;
        fits(problem, inputs, &out)?;
        let uploaded = |input: &Slice<'_>| -> Result<Box<dyn Buffer>, LaunchError> {
            let buffer = self.allocate(Bytes(input.bytes().len() as u64))?;
            self.upload(*input, buffer.as_ref())?;
            Ok(buffer)
        };
        let uploaded = inputs.iter().map(uploaded).collect::<Result<Vec<_>, _>>()?;
        let result = self.allocate(Bytes(out.len() as u64 * out.dtype().size()))?;
        let inputs = uploaded.iter().map(|buffer| buffer.as_ref()).collect();
        let launches = [Launch { kernel, problem, point, inputs, out: result.as_ref() }];
        let wait = if timed { Wait::Timed } else { Wait::Done };
        self.run(Batch { launches: &launches, read: Some(out), wait })
    }

    /// How far its results may be from the reference, relative to the larger of the result and one.
    fn tolerance(&self, problem: &Problem) -> f64 {
        tolerance(problem)
    }

    /// What is worth keeping for later processes, if anything is.
    fn keeps(&self) -> Option<&dyn Keeps> {
        None
    }
}

/// A launch on operands in the caller's memory.
#[derive(Clone, Copy)]
pub struct HostLaunch<'a> {
    /// The kernel,
    pub kernel: KernelId,
    /// what it computes,
    pub problem: &'a Problem,
    /// its setting
    pub point: &'a Point,
    /// and the operands.
    pub inputs: &'a [Slice<'a>],
}

trimtab_core::named! {
    /// What a device keeps between processes.
    pub enum Kept {
        /// Kernels its driver built.
        Kernels = "built",
        /// Its measured speeds.
        Speeds = "speeds",
    }
}

/// A device whose built kernels or measured speeds are worth keeping between processes.
pub trait Keeps: Send + Sync {
    /// Takes over what an earlier process kept, before it is needed. Damaged or foreign data costs what it would have saved.
    fn offer(&self, what: Kept, data: Vec<u8>);

    /// What to keep for the next process, if there is news since this was last asked.
    fn news(&self, what: Kept) -> Option<Vec<u8>>;
}

/// What an operand is called in errors; past the last input, the result.
pub fn operand_name(place: usize) -> &'static str {
    const INPUTS: [&str; MAX_INPUTS + 1] =
        ["lhs", "rhs", "input 2", "input 3", "input 4", "input 5", "input 6"];
    INPUTS.get(place).copied().unwrap_or("out")
}

/// Whether operands are those of the problem, by type and number of elements.
pub fn fits(problem: &Problem, inputs: &[Slice<'_>], out: &SliceMut<'_>) -> Result<(), LaunchError> {
    let Some(out_dtype) = problem.out_dtype() else { return Ok(()) };
    let check = |place: usize, found: usize, is: Option<DType>, needed: u64| {
        let dtype = if place == usize::MAX { Some(out_dtype) } else { problem.input_dtype(place) };
        let dtype = dtype.unwrap_or(out_dtype);
        let right_type = is.is_none_or(|is| is == dtype) || needed == 0 && found == 0;
        if found as u64 == needed && right_type {
            return Ok(());
        }
        let dtype = is.unwrap_or(dtype).name();
        Err(LaunchError::Operand { operand: operand_name(place), dtype, found, needed: needed as usize })
    };
    let lens = problem.input_lens();
    for place in 0..lens.as_slice().len().max(inputs.len()) {
        let given = inputs.get(place).copied().unwrap_or(Slice::None);
        check(place, given.len(), given.dtype(), lens.as_slice().get(place).copied().unwrap_or(0))?;
    }
    check(usize::MAX, out.len(), Some(out.dtype()), problem.out_len())
}

/// Whether buffers are as long as a launch needs them.
pub fn fits_bytes(launch: &Launch<'_>) -> Result<(), LaunchError> {
    let Some(out_dtype) = launch.problem.out_dtype() else { return Ok(()) };
    let check = |place: usize, found: Bytes, needed: u64| {
        let dtype = if place == usize::MAX { Some(out_dtype) } else { launch.problem.input_dtype(place) };
        let dtype = dtype.unwrap_or(out_dtype);
        if found.0 == needed.saturating_mul(dtype.size()) {
            return Ok(());
        }
        let found = (found.0 / dtype.size()) as usize;
        let (operand, dtype) = (operand_name(place), dtype.name());
        Err(LaunchError::Operand { operand, dtype, found, needed: needed as usize })
    };
    let lens = launch.problem.input_lens();
    for place in 0..lens.as_slice().len().max(launch.inputs.len()) {
        let found = launch.inputs.get(place).map_or(Bytes(0), |buffer| buffer.bytes());
        check(place, found, lens.as_slice().get(place).copied().unwrap_or(0))?;
    }
    check(usize::MAX, launch.out.bytes(), launch.problem.out_len())
}

/// A buffer in the memory of this process: what a device has that computes here.
pub struct HostBuffer {
    /// Words, so that elements of every type lie as they must.
    words: RwLock<Vec<u64>>,
    bytes: usize,
}

impl Buffer for HostBuffer {
    fn bytes(&self) -> Bytes {
        Bytes(self.bytes as u64)
    }
}

impl HostBuffer {
    /// Memory for that many bytes.
    pub fn new(bytes: Bytes) -> Result<HostBuffer, LaunchError> {
        let count = usize::try_from(bytes.0.div_ceil(8)).unwrap_or(usize::MAX);
        let mut words: Vec<u64> = Vec::new();
        let short = |_| LaunchError::Kernel(format!("{bytes} of memory are not to be had"));
        words.try_reserve_exact(count).map_err(short)?;
        words.resize(count, 0);
        Ok(HostBuffer { words: RwLock::new(words), bytes: bytes.0 as usize })
    }

    /// The buffer behind a value of a device whose buffers are these.
    pub fn of(buffer: &dyn Buffer) -> Result<&HostBuffer, LaunchError> {
        let any: &dyn Any = buffer;
        let wrong = || LaunchError::Kernel("the operand is in the memory of another device".to_string());
        any.downcast_ref().ok_or_else(wrong)
    }

    /// Copies data in.
    pub fn write(&self, data: Slice<'_>) -> Result<(), LaunchError> {
        let data = data.bytes();
        let mut words = self.words.write().unwrap_or_else(PoisonError::into_inner);
        let to = bytemuck::cast_slice_mut::<u64, u8>(&mut words).get_mut(..data.len());
        to.ok_or_else(|| self.short(data.len()))?.copy_from_slice(data);
        Ok(())
    }

    /// Copies data out.
    pub fn read(&self, to: SliceMut<'_>) -> Result<(), LaunchError> {
        let words = self.words.read().unwrap_or_else(PoisonError::into_inner);
        to.with_bytes(|to| {
            let from = bytemuck::cast_slice::<u64, u8>(&words).get(..to.len());
            to.copy_from_slice(from.ok_or_else(|| self.short(to.len()))?);
            Ok(())
        })
    }

    /// Makes launches whose buffers are all of this kind, one after the other, and reads the last result where asked.
    pub fn run(
        batch: Batch<'_>,
        mut compute: impl FnMut(&Launch<'_>, &[Slice<'_>], SliceMut<'_>) -> Result<(), LaunchError>,
    ) -> Result<(), LaunchError> {
        for launch in batch.launches {
            HostBuffer::with_slices(launch, |inputs, out| compute(launch, inputs, out))?;
        }
        match (batch.launches.last(), batch.read) {
            (Some(last), Some(read)) => HostBuffer::of(last.out)?.read(read),
            _ => Ok(()),
        }
    }

    fn short(&self, asked: usize) -> LaunchError {
        LaunchError::Kernel(format!("the buffer has {} bytes, {asked} are asked for", self.bytes))
    }

    /// Runs a launch whose buffers are all of this kind, its operands as slices. An operand that is the result too is refused.
    fn with_slices(
        launch: &Launch<'_>,
        run: impl FnOnce(&[Slice<'_>], SliceMut<'_>) -> Result<(), LaunchError>,
    ) -> Result<(), LaunchError> {
        fits_bytes(launch)?;
        let input_dtype = |place: usize| launch.problem.input_dtype(place).unwrap_or(DType::F32);
        let dtype = launch.problem.out_dtype().unwrap_or(DType::F32);
        let inputs = launch.inputs.iter().map(|input| HostBuffer::of(*input));
        let inputs = inputs.collect::<Result<Vec<&HostBuffer>, _>>()?;
        let out = HostBuffer::of(launch.out)?;
        if inputs.iter().any(|input| std::ptr::eq(*input, out)) {
            return Err(LaunchError::Kernel("the result would overwrite an operand".to_string()));
        }
        let guards: Vec<_> =
            inputs.iter().map(|input| input.words.read().unwrap_or_else(PoisonError::into_inner)).collect();
        let mut result = out.words.write().unwrap_or_else(PoisonError::into_inner);
        let mut slices: Vec<Slice<'_>> = Vec::with_capacity(inputs.len());
        for (place, (guard, input)) in guards.iter().zip(&inputs).enumerate() {
            slices.push(Slice::of_bytes(input_dtype(place), &bytemuck::cast_slice(guard)[..input.bytes]));
        }
        let result = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut result)[..out.bytes];
        run(&slices, SliceMut::of_bytes(dtype, result))
    }
}
