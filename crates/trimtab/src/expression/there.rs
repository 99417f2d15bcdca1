//! Launches of an expression on a device beside the processor: those in a row are handed over together, and waited for
//! when someone reads what they computed.

use super::fuse::Feed;
use super::run::{Values, gathered, retrying};
use super::schedule::Scheduled;
use crate::error::Error;
use crate::residency::{Resident, Room};
use crate::runtime::Runtime;
use crate::tensor::{Tensor, element_count};
use std::sync::{Arc, Mutex, PoisonError};
use trimtab_core::{Nanos, Problem};
use trimtab_cpu::Element;
use trimtab_operands::{Held, HeldLaunch};
use trimtab_plan::Plan;

/// Launches handed over together at most: until then their operands stay where they are.
const MOST: usize = 64;
/// What they may take together: screens freeze and drivers give up on longer work.
const LONGEST: Nanos = Nanos::from_millis(100);

/// Numbers of a step that are on a device, and which they are.
#[derive(Default)]
pub(crate) struct Numbers(Mutex<Option<(Vec<u64>, Arc<Resident>)>>);

impl Numbers {
    /// These numbers on a device; moved there unless they are the same as last time.
    fn there<T: Element>(&self, room: &Arc<Room>, numbers: &[T]) -> Result<Arc<Resident>, Error> {
        let bits = || numbers.iter().map(|number| number.to_f64().to_bits());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, resident)) = &*last
            && resident.is_in(room)
            && known.iter().copied().eq(bits())
        {
            return Ok(Arc::clone(resident));
        }
        let resident = room.hold_numbers(T::erase(numbers))?;
        *last = Some((bits().collect(), Arc::clone(&resident)));
        Ok(resident)
    }
}

/// A launch that waits to be made.
struct Launch {
    plan: Plan,
    problem: Problem,
    inputs: Vec<Arc<Resident>>,
    out: Arc<Resident>,
}

/// Launches that wait to be made, all on one device.
pub(super) struct Waiting {
    room: Option<Arc<Room>>,
    launches: Vec<Launch>,
    /// Whether to wait for them, so that what goes wrong can be made good.
    careful: bool,
}

impl Waiting {
    pub(super) fn new(careful: bool) -> Waiting {
        Waiting { room: None, launches: Vec::new(), careful }
    }

    /// Whether the next launch on a device can wait with the others.
    pub(super) fn is_for(&self, room: &Arc<Room>) -> bool {
        let takes: u64 = self.launches.iter().map(|launch| launch.plan.expected.0).sum();
        let same = self.room.as_ref().is_none_or(|own| Arc::ptr_eq(own, room));
        same && self.launches.len() < MOST && takes < LONGEST.0
    }

    /// Adds a launch; gives the value it will have computed once it was made.
    pub(super) fn add<T: Element>(
        &mut self,
        room: &Arc<Room>,
        plan: &Plan,
        problem: &Problem,
        step: &Scheduled,
        shape: &[usize],
        values: &Values<'_, T>,
    ) -> Result<Tensor<T>, Error> {
        let (inputs, out) = match operands(room, step, shape, values) {
            Ok(operands) => operands,
            Err(error) if self.launches.is_empty() => return Err(error),
            Err(_) => {
                // What waits holds on to its operands: without it there may be room.
                self.launch()?;
                operands(room, step, shape, values)?
            }
        };
        let value = Tensor::on_device(shape, &out)?;
        self.room = Some(Arc::clone(room));
        self.launches.push(Launch { plan: *plan, problem: *problem, inputs, out });
        Ok(value)
    }

    /// Makes the launches.
    pub(super) fn launch(&mut self) -> Result<(), Error> {
        let (room, launches) = (self.room.take(), std::mem::take(&mut self.launches));
        match room {
            Some(room) if !launches.is_empty() => {
                together(&room, &launches, None::<&mut [f32]>, self.careful)
            }
            _ => Ok(()),
        }
    }

    /// Makes the launches, the last of which computes this value, and copies it to the processor's memory on the way.
    pub(super) fn launch_and_read<T: Element>(mut self, value: &Tensor<T>) -> Result<(), Error> {
        let computes = |launch: &Launch| value.lies_in(&launch.out);
        match (self.room.take(), self.launches.last()) {
            (Some(room), Some(last)) if computes(last) => {
                value.receive(|elements| together(&room, &self.launches, Some(elements), true))
            }
            (room, _) => {
                self.room = room;
                self.launch()?;
                value.fetched().map(drop)
            }
        }
    }
}

/// Operands moved to the device, and room for the result.
type Operands = (Vec<Arc<Resident>>, Arc<Resident>);

fn operands<T: Element>(
    room: &Arc<Room>,
    step: &Scheduled,
    shape: &[usize],
    values: &Values<'_, T>,
) -> Result<Operands, Error> {
    let mut inputs: Vec<Arc<Resident>> = Vec::with_capacity(step.piece.feeds.len());
    for (feed, from) in step.piece.feeds.iter().zip(&step.from) {
        inputs.push(match feed {
            Feed::Value(_) => values.value(*from)?.there(room)?,
            Feed::Numbers(places) => step.numbers.there(room, &gathered(places, values.numbers))?,
        });
    }
    let bytes = (element_count::<T>(shape)? * std::mem::size_of::<T>()) as u64;
    Ok((inputs, room.reserve(bytes)?))
}

fn together<T: Element>(
    room: &Room,
    launches: &[Launch],
    result: Option<&mut [T]>,
    wait: bool,
) -> Result<(), Error> {
    let launches: Vec<HeldLaunch<'_>> = launches
        .iter()
        .map(|launch| HeldLaunch {
            kernel: launch.plan.kernel,
            problem: &launch.problem,
            point: &launch.plan.point,
            inputs: launch.inputs.iter().map(|input| input.held()).collect(),
            out: launch.out.held(),
        })
        .collect();
    Ok(room.launch_together(&launches, result.map(T::erase_mut), wait)?)
}

impl Runtime {
    /// The memory of the device at a site.
    pub(super) fn room_at(&self, site: usize) -> Option<&Arc<Room>> {
        self.shared.rooms.get(self.device_at(site)).and_then(Option::as_ref)
    }

    /// One launch, waited for; with `timed` the planner is told the kernel's own time.
    pub(super) fn run_there<T: Element>(
        &self,
        room: &Arc<Room>,
        problem: &Problem,
        step: &Scheduled,
        shape: &[usize],
        values: &Values<'_, T>,
        timed: bool,
    ) -> Result<Tensor<T>, Error> {
        let (inputs, out) = operands(room, step, shape, values)?;
        let held: Vec<&dyn Held> = inputs.iter().map(|input| input.held()).collect();
        let planner = self.planner_for(step.device);
        retrying(planner, step.terms, problem, |plan| {
            let launcher = &room.launcher;
            let time = launcher.launch_held(plan.kernel, problem, &plan.point, &held, out.held(), timed)?;
            time.into_iter().for_each(|time| planner.report(plan, time));
            Ok(())
        })?;
        Tensor::on_device(shape, &out)
    }
}
