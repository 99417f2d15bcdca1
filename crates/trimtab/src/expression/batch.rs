//! Launches of an expression on a device with memory of its own: those in a row are made together, and waited for when someone
//! reads what they computed.

use super::flat::Value;
use super::fuse::Feed;
use super::run::{Values, gathered, retrying};
use super::schedule::Scheduled;
use crate::error::Error;
use crate::memory::{DeviceBuffer, DeviceMemory};
use crate::runtime::Runtime;
use crate::tensor::{AnyTensor, element_count};
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_core::{Bytes, DType, LaunchError, Nanos, Problem};
use trimtab_operands::{Batch, Data, Launch, Slice, SliceMut, Wait};
use trimtab_plan::{Plan, Planner};

/// Launches made together at most: until then their operands stay where they are.
const MOST: usize = 64;
/// What they may take together: screens freeze and drivers give up on longer work.
const LONGEST: Nanos = Nanos::from_millis(100);

/// Operands of a first result that is looked at; what is larger takes too long to copy.
const LARGEST_LOOK: Bytes = Bytes(16 << 20);

/// Numbers of a launch that are on a device, and which they are.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<Option<(Vec<u8>, Arc<DeviceBuffer>)>>);

impl Numbers {
    /// These numbers on a device; moved there unless they are the same as last time.
    fn buffer_on(&self, memory: &Arc<DeviceMemory>, numbers: Slice<'_>) -> Result<Arc<DeviceBuffer>, Error> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, buffer)) = &*last
            && buffer.is_in(memory)
            && known.as_slice() == numbers.bytes()
        {
            return Ok(Arc::clone(buffer));
        }
        let buffer = memory.upload_numbers(numbers)?;
        *last = Some((numbers.bytes().to_vec(), Arc::clone(&buffer)));
        Ok(buffer)
    }
}

/// A launch that waits to be made.
struct Planned {
    plan: Plan,
    problem: Problem,
    inputs: Vec<Arc<DeviceBuffer>>,
    out: Arc<DeviceBuffer>,
}

impl Planned {
    fn launch(&self) -> Launch<'_> {
        Launch {
            kernel: self.plan.kernel,
            problem: &self.problem,
            point: &self.plan.point,
            inputs: self.inputs.iter().map(|input| input.buffer()).collect(),
            out: self.out.buffer(),
        }
    }
}

/// Launches that wait to be made, all on one device.
pub(super) struct Waiting<'a> {
    planner: &'a Planner,
    memory: Option<Arc<DeviceMemory>>,
    launches: Vec<Planned>,
    /// Whether to wait for them, so that what goes wrong can be made good.
    careful: bool,
}

impl Waiting<'_> {
    pub(super) fn new(planner: &Planner, careful: bool) -> Waiting<'_> {
        Waiting { planner, memory: None, launches: Vec::new(), careful }
    }

    /// Whether the next launch on a device can wait with the others.
    pub(super) fn is_for(&self, memory: &Arc<DeviceMemory>) -> bool {
        let takes: u64 = self.launches.iter().map(|launch| launch.plan.expected.0).sum();
        let same = self.memory.as_ref().is_none_or(|own| Arc::ptr_eq(own, memory));
        same && self.launches.len() < MOST && takes < LONGEST.0
    }

    /// Adds a launch; gives the value it will have computed once it was made.
    pub(super) fn add(
        &mut self,
        memory: &Arc<DeviceMemory>,
        plan: &Plan,
        problem: &Problem,
        step: &Scheduled,
        made: &Value,
        values: &Values<'_>,
    ) -> Result<AnyTensor, Error> {
        let (inputs, out) = match operands(memory, step, made, values) {
            Ok(operands) => operands,
            Err(error) if self.launches.is_empty() => return Err(error),
            Err(_) => {
                // What waits holds on to its operands: without it there may be room.
                self.launch()?;
                operands(memory, step, made, values)?
            }
        };
        let value = AnyTensor::on_device(made.dtype, made.shape(), &out)?;
        self.memory = Some(Arc::clone(memory));
        self.launches.push(Planned { plan: *plan, problem: *problem, inputs, out });
        Ok(value)
    }

    /// Makes the launches.
    pub(super) fn launch(&mut self) -> Result<(), Error> {
        self.launch_reading(None)
    }

    fn launch_reading(&mut self, read: Option<SliceMut<'_>>) -> Result<(), Error> {
        let (memory, launches) = (self.memory.take(), std::mem::take(&mut self.launches));
        let Some(memory) = memory.filter(|_| !launches.is_empty()) else { return Ok(()) };
        let wait = if self.careful || read.is_some() { Wait::Done } else { Wait::Later };
        let _inside =
            memory.enter(self.planner, launches.iter().map(|launch| (&launch.problem, &launch.plan)));
        let launches: Vec<Launch<'_>> = launches.iter().map(Planned::launch).collect();
        memory.run(Batch { launches: &launches, read, wait })?;
        Ok(())
    }

    /// Makes the launches, the last of which computes this value, and copies it to the processor's memory on the way.
    pub(super) fn launch_and_read(mut self, value: &AnyTensor) -> Result<(), Error> {
        match self.launches.last() {
            Some(last) if value.storage().lies_in(&last.out) => {
                value.storage().receive(|elements| self.launch_reading(Some(elements)))
            }
            _ => {
                self.launch()?;
                value.fetched().map(drop)
            }
        }
    }
}

/// Operands moved to the device, and room for the result.
type Operands = (Vec<Arc<DeviceBuffer>>, Arc<DeviceBuffer>);

fn operands(
    memory: &Arc<DeviceMemory>,
    step: &Scheduled,
    made: &Value,
    values: &Values<'_>,
) -> Result<Operands, Error> {
    let mut inputs: Vec<Arc<DeviceBuffer>> = Vec::with_capacity(step.piece.feeds.len());
    for (feed, from) in step.piece.feeds.iter().zip(&step.from) {
        inputs.push(match feed {
            Feed::Value(_) => values.value(*from)?.buffer_on(memory)?,
            Feed::Numbers(dtype, places) => {
                step.numbers.buffer_on(memory, gathered(*dtype, places, values.numbers).slice())?
            }
        });
    }
    let bytes = element_count(made.dtype, made.shape())? as u64 * made.dtype.size();
    Ok((inputs, memory.allocate(bytes)?))
}

impl Runtime {
    /// One launch, waited for; with `timed` the planner is told the kernel's own time.
    /// Looks at the first result of a plan on a device, as [`Runtime::first_look`] does: a copy of operands and result comes to the
    /// processor's memory for it, unless they are large.
    fn first_look_at(&self, memory: &DeviceMemory, planned: &Planned) -> Result<(), LaunchError> {
        let Planned { plan, problem, inputs, out } = planned;
        if problem.operand_bytes() > LARGEST_LOOK {
            return Ok(());
        }
        let copied = |buffer: &DeviceBuffer, dtype: Option<DType>, len: u64| -> Result<Data, LaunchError> {
            let mut data = dtype.map_or(Data::None, |dtype| Data::zeros(dtype, len as usize));
            pollster::block_on(memory.executor.download(buffer.buffer(), data.slice_mut()))?;
            Ok(data)
        };
        let lens = problem.input_lens();
        let lens = lens.as_slice().iter().enumerate();
        let inputs: Vec<Data> = inputs
            .iter()
            .zip(lens)
            .map(|(input, (place, len))| copied(input, problem.input_dtype(place), *len))
            .collect::<Result<_, _>>()?;
        let out = copied(out, problem.out_dtype(), problem.out_len())?;
        let inputs: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
        self.first_look(plan, problem, &inputs, &out.slice())
    }

    pub(super) fn run_on(
        &self,
        memory: &Arc<DeviceMemory>,
        problem: &Problem,
        step: &Scheduled,
        made: &Value,
        values: &Values<'_>,
        timed: bool,
    ) -> Result<AnyTensor, Error> {
        let (inputs, out) = operands(memory, step, made, values)?;
        let planner = self.planner();
        let mut planned =
            Planned { plan: self.plan_of(step.terms, problem)?, problem: *problem, inputs, out };
        retrying(planner, step.terms, problem, planned.plan, |plan| {
            planned.plan = *plan;
            let wait = if timed { Wait::Timed } else { Wait::Done };
            let _inside = memory.enter(planner, std::iter::once((problem, plan)));
            let time = memory.executor.run(Batch { launches: &[planned.launch()], read: None, wait })?;
            time.into_iter().for_each(|time| planner.report(plan, time));
            match self.is_new(plan) {
                true => self.first_look_at(memory, &planned),
                false => Ok(()),
            }
        })?;
        AnyTensor::on_device(made.dtype, made.shape(), &planned.out)
    }
}
