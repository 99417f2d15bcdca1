//! Computing a scheduled expression: values stay where they were computed until someone reads them.

use super::flat::{Flat, Flattened, Op, order};
use super::fuse::{Feed, Task};
use super::kept::Key;
use super::schedule::{Schedule, Scheduled, Source};
use super::there::Waiting;
use crate::error::Error;
use crate::residency::count;
use crate::runtime::Runtime;
use crate::tensor::{Tensor, allocate_result, element_count};
use std::borrow::Cow;
use std::sync::atomic::Ordering;
use trimtab_core::{LaunchError, MAX_INPUTS, Problem};
use trimtab_cpu::{Element, Slice};
use trimtab_plan::{Plan, Planner, TermsId};
use trimtab_tune::Stopwatch;

/// One run in so many is timed, launch by launch.
const TIMED: u32 = 32;

/// The data of an expression that is being computed.
pub(super) struct Values<'a, T: Element> {
    inputs: &'a [Tensor<T>],
    pub numbers: &'a [T],
    /// Inputs that had to be copied into row-major order; empty if there is none.
    dense: Vec<Option<Tensor<T>>>,
    /// By step.
    made: Vec<Option<Tensor<T>>>,
}

/// How launches are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Those in a row on one device are handed over together; with care they are waited for before the expression is done.
    Together { careful: bool },
    /// Each is waited for.
    Apart,
}

impl Runtime {
    /// What a schedule of an expression goes by.
    pub(super) fn key<T: Element>(&self, flat: Flat, inputs: &[Tensor<T>]) -> Key {
        Key { terms: self.terms, flat, resident: self.resident(inputs) }
    }

    /// The value of an expression, in the processor's memory too if it is read at once. What a device fails at, the processor does.
    pub(super) fn evaluate<T: Element>(
        &self,
        flattened: Flattened<T>,
        is_read: bool,
    ) -> Result<Tensor<T>, Error> {
        let Flattened { flat, inputs, numbers } = flattened;
        count(&self.shared.counts.evaluated, 1);
        if let Op::Input(number) = flat.value(flat.root()).op {
            return Ok(inputs[number as usize].clone());
        }
        let schedule = self.schedule(self.key(flat, &inputs))?;
        let run = schedule.runs.fetch_add(1, Ordering::Relaxed);
        let is_elsewhere = schedule.steps.iter().any(|step| step.site > 0);
        // The first run on a device may build kernels, which is not what launches take.
        let timed = run % TIMED == u32::from(is_elsewhere);
        // What is wrong with a kernel shows when it first runs.
        let manner = if timed { Manner::Apart } else { Manner::Together { careful: run == 0 } };
        let first = self.run(&schedule, &inputs, &numbers, (manner, timed, is_read));
        let error = match first {
            Ok(value) => return Ok(value),
            Err(error) if is_callers(&error) || !is_elsewhere => return Err(error),
            Err(error) => error,
        };
        if manner != Manner::Apart {
            // One by one it shows which of them fails, and the next best plan takes its place.
            let again = self.run(&schedule, &inputs, &numbers, (Manner::Apart, false, is_read));
            if again.is_ok() || again.as_ref().is_err_and(is_callers) {
                return again;
            }
        }
        self.shared.schedules.forget(&schedule);
        if self.shared.cpu_at as usize >= self.devices().len() {
            return Err(error);
        }
        let here = self.schedule_here(self.key(schedule.key.flat.clone(), &inputs))?;
        let value = self.run(&here, &inputs, &numbers, (Manner::Apart, false, is_read))?;
        count(&self.shared.counts.recovered, 1);
        Ok(value)
    }

    fn run<T: Element>(
        &self,
        schedule: &Schedule,
        inputs: &[Tensor<T>],
        numbers: &[T],
        (manner, timed, is_read): (Manner, bool, bool),
    ) -> Result<Tensor<T>, Error> {
        let flat = &schedule.key.flat;
        let made = Vec::with_capacity(schedule.steps.len());
        let mut values = Values { inputs, numbers, dense: Vec::new(), made };
        let mut waiting = Waiting::new(manner != Manner::Together { careful: false });
        for step in &schedule.steps {
            let watch = timed.then(Stopwatch::start);
            for from in &step.from {
                values.ready(self, *from)?;
            }
            let out = flat.value(step.piece.out);
            let room = self.shared.rooms.get(step.device).and_then(Option::as_ref).filter(|_| step.site > 0);
            if room.is_none_or(|room| !waiting.is_for(room)) {
                waiting.launch()?;
            }
            let value = match (room, &step.piece.task) {
                (_, Task::Copy) => self.copied(flat, step, &values)?,
                (_, Task::Problem(_)) if out.len() == 0 => Tensor::zeros(out.shape())?,
                (None, Task::Problem(problem)) => self.run_here(problem, step, out.shape(), &values)?,
                (Some(room), Task::Problem(problem)) if manner != Manner::Apart => {
                    let planner = self.planner_for(step.device);
                    let plan = plan_of(planner, step.terms, problem)?;
                    waiting.add(room, &plan, problem, step, out.shape(), &values)?
                }
                (Some(room), Task::Problem(problem)) => {
                    let shape = out.shape();
                    self.run_there(room, problem, step, shape, &values, timed)?
                }
            };
            values.made.push(Some(value));
            step.done_with.iter().for_each(|from| values.forget(*from));
            watch.into_iter().for_each(|watch| step.happened.note(watch.elapsed()));
        }
        let value = values.made.pop().flatten().ok_or_else(no_value)?;
        match is_read {
            true => waiting.launch_and_read(&value)?,
            false => waiting.launch()?,
        }
        Ok(value)
    }

    fn run_here<T: Element>(
        &self,
        problem: &Problem,
        step: &Scheduled,
        shape: &[usize],
        values: &Values<'_, T>,
    ) -> Result<Tensor<T>, Error> {
        let mut operands: [Cow<'_, [T]>; MAX_INPUTS + 1] = Default::default();
        let mut inputs = [Slice::None; MAX_INPUTS + 1];
        let used = step.from.len().min(operands.len());
        for (place, operand) in operands[..used].iter_mut().enumerate() {
            *operand = match &step.piece.feeds[place] {
                Feed::Numbers(places) => gathered(places, values.numbers),
                Feed::Value(_) => Cow::Borrowed(values.elements(step.from[place])?),
            };
        }
        for (input, operand) in inputs.iter_mut().zip(&operands[..used]).filter(|(_, own)| !own.is_empty()) {
            *input = T::erase(operand);
        }
        let mut out = allocate_result(element_count::<T>(shape)?)?;
        let planner = self.planner_for(step.device);
        let launch = |plan: &Plan, out: &mut Vec<T>| {
            let (cpu, inputs) = (&self.shared.cpu, &inputs[..used]);
            planner.run(plan, || cpu.launch(plan.kernel, problem, &plan.point, inputs, T::erase_mut(out)))
        };
        retrying(planner, step.terms, problem, |plan| launch(plan, &mut out))?;
        Tensor::from_vec(out, shape)
    }

    /// A view in row-major order, by the processor.
    fn copied<T: Element>(
        &self,
        flat: &Flat,
        step: &Scheduled,
        values: &Values<'_, T>,
    ) -> Result<Tensor<T>, Error> {
        let out = flat.value(step.piece.out);
        let Some(from) = step.from.first() else { return Tensor::zeros(out.shape()) };
        let from = match (&step.piece.feeds[0], from) {
            (Feed::Numbers(places), Source::Numbers) => {
                &Tensor::from_vec(gathered(places, values.numbers).into_owned(), &[])?
            }
            _ => values.value(*from)?.fetched()?,
        };
        let view = match out.op {
            Op::Permute(axes, _) => from.permuted(&order(&axes, out.shape().len()))?,
            _ => from.broadcast_to(out.shape())?,
        };
        self.contiguous(&view)
    }

    /// By input, a bit for each site it lies at, bit 0 being the processor's memory; nothing if none lies anywhere else.
    fn resident<T: Element>(&self, inputs: &[Tensor<T>]) -> Vec<u64> {
        if inputs.iter().all(Tensor::is_only_here) {
            return Vec::new();
        }
        let sites = 1..=self.devices().len();
        let at = |input: &Tensor<T>| {
            let rooms = sites.clone().filter_map(|site| Some((site, self.room_at(site)?)));
            let there = rooms.filter(|(_, room)| input.is_on(room)).map(|(site, _)| 1u64 << site.min(63));
            let places = u64::from(input.is_here()) | there.sum::<u64>();
            // On a device of another runtime: it comes through the processor's memory.
            if places == 0 { 1 } else { places }
        };
        inputs.iter().map(at).collect()
    }
}

impl<T: Element> Values<'_, T> {
    /// Brings an input into row-major order.
    fn ready(&mut self, rt: &Runtime, from: Source) -> Result<(), Error> {
        let Source::Input(number) = from else { return Ok(()) };
        let number = number as usize;
        let Some(input) = self.inputs.get(number).filter(|input| !input.is_contiguous()) else {
            return Ok(());
        };
        self.dense.resize(self.inputs.len(), None);
        if self.dense[number].is_none() {
            self.dense[number] = Some(rt.contiguous(input)?);
        }
        Ok(())
    }

    pub(super) fn value(&self, from: Source) -> Result<&Tensor<T>, Error> {
        let found = match from {
            Source::Input(number) => {
                let number = number as usize;
                self.dense.get(number).and_then(Option::as_ref).or_else(|| self.inputs.get(number))
            }
            Source::Step(number) => self.made.get(number as usize).and_then(Option::as_ref),
            Source::Numbers => None,
        };
        let missing = || LaunchError::Kernel("a value is used before it is computed".to_string());
        found.ok_or_else(|| Error::Launch(missing()))
    }

    fn elements(&self, from: Source) -> Result<&[T], Error> {
        Ok(self.value(from)?.fetched()?.as_slice().unwrap_or_default())
    }

    fn forget(&mut self, from: Source) {
        let place = match from {
            Source::Input(number) => self.dense.get_mut(number as usize),
            Source::Step(number) => self.made.get_mut(number as usize),
            Source::Numbers => None,
        };
        place.into_iter().for_each(|place| *place = None);
    }
}

fn no_value() -> Error {
    Error::Launch(LaunchError::Kernel("the expression has no value".to_string()))
}

fn is_callers(error: &Error) -> bool {
    matches!(error, Error::Launch(error) if error.is_callers())
}

/// The plan for a call that is made now.
fn plan_of(planner: &Planner, terms: TermsId, problem: &Problem) -> Result<Plan, Error> {
    match planner.for_call(problem, terms) {
        Some((_, plan)) => Ok(*plan),
        None => Ok(planner.plan(problem, terms)?),
    }
}

/// Launches the plan in force, and the next best for as long as launches fail.
pub(super) fn retrying(
    planner: &Planner,
    terms: TermsId,
    problem: &Problem,
    mut launch: impl FnMut(&Plan) -> Result<(), LaunchError>,
) -> Result<(), Error> {
    let mut plan = plan_of(planner, terms, problem)?;
    loop {
        match launch(&plan) {
            Ok(()) => return Ok(()),
            Err(error) if error.is_callers() => return Err(Error::Launch(error)),
            Err(error) => plan = planner.failed(problem, terms, &plan, &error)?,
        }
    }
}

/// Single numbers of an expression together: as they lie if they lie so.
pub(super) fn gathered<'a, T: Element>(places: &[u32], numbers: &'a [T]) -> Cow<'a, [T]> {
    let first = places.first().copied().unwrap_or(0);
    if places.iter().zip(first..).all(|(&place, next)| place == next) {
        let first = first as usize;
        return Cow::Borrowed(numbers.get(first..first + places.len()).unwrap_or_default());
    }
    places.iter().filter_map(|&place| numbers.get(place as usize)).copied().collect()
}
