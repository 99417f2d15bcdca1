//! Computing a scheduled expression: values stay where they were computed until someone reads them.

use super::flat::{Flat, Flattened, Op, order};
use super::fuse::{Feed, Task};
use super::schedule::{Schedule, Step};
use super::sites::Site;
use crate::error::Error;
use crate::residency::{Resident, Room, count};
use crate::runtime::Runtime;
use crate::tensor::{Tensor, allocate, element_count};
use std::sync::Arc;
use trimtab_core::{LaunchError, Problem};
use trimtab_cpu::{Element, Slice};
use trimtab_operands::Held;
use trimtab_plan::{Plan, Planner, TermsId};
use trimtab_tune::Stopwatch;

/// Values computed so far, by position.
type Values<T> = Vec<Option<Tensor<T>>>;

impl Runtime {
    /// The value of an expression. What a device fails at, the processor does.
    pub(super) fn evaluate<T: Element>(&self, flattened: &Flattened<T>) -> Result<Tensor<T>, Error> {
        let flat = &flattened.flat;
        count(&self.shared.counts.evaluated, 1);
        if let Op::Input(number) = flat.value(flat.root()).op {
            return Ok(flattened.inputs[number as usize].clone());
        }
        let sites = self.sites();
        let key = (self.terms, Arc::clone(flat), resident(&sites, &flattened.inputs));
        let schedule = self.schedule(&key)?;
        match self.run(&sites, &schedule, flattened) {
            Ok(value) => Ok(value),
            Err(Error::Launch(error)) if error.is_callers() => Err(Error::Launch(error)),
            Err(error) => {
                let elsewhere = schedule.steps.iter().any(|step| step.site > 0);
                if !elsewhere || sites.first().is_none_or(|site| site.planner.is_none()) {
                    return Err(error);
                }
                self.shared.schedules.forget(&key);
                let here = self.schedule_here(flat, &key.2)?;
                let value = self.run(&sites, &here, flattened)?;
                count(&self.shared.counts.recovered, 1);
                Ok(value)
            }
        }
    }

    fn run<T: Element>(
        &self,
        sites: &[Site<'_>],
        schedule: &Schedule,
        flattened: &Flattened<T>,
    ) -> Result<Tensor<T>, Error> {
        let flat = &flattened.flat;
        let mut values: Values<T> = vec![None; flat.values.len()];
        let no_value = || Error::Launch(LaunchError::Kernel("the expression has no value".to_string()));
        for step in &schedule.steps {
            let watch = Stopwatch::start();
            for at in step.piece.reads() {
                if let (Op::Input(number), None) = (flat.value(at).op, &values[at as usize]) {
                    values[at as usize] = Some(self.contiguous(&flattened.inputs[number as usize])?);
                }
            }
            let site = sites.get(step.site).ok_or_else(no_value)?;
            let out = match (site.room, &step.piece.task) {
                (_, Task::Copy) => self.copied(flat, step, &values)?,
                (_, Task::Problem(_)) if flat.value(step.piece.out).len() == 0 => {
                    Tensor::zeros(flat.value(step.piece.out).shape())?
                }
                (None, Task::Problem(problem)) => self.run_here(site, problem, step, &values, flattened)?,
                (Some(room), Task::Problem(problem)) => {
                    self.run_there(site, room, problem, step, &values, flattened)?
                }
            };
            values[step.piece.out as usize] = Some(out);
            step.done_with.iter().for_each(|&at| values[at as usize] = None);
            step.happened.note(watch.elapsed());
        }
        values[flat.root() as usize].take().ok_or_else(no_value)
    }

    fn run_here<T: Element>(
        &self,
        site: &Site<'_>,
        problem: &Problem,
        step: &Step,
        values: &Values<T>,
        flattened: &Flattened<T>,
    ) -> Result<Tensor<T>, Error> {
        let shape = flattened.flat.value(step.piece.out).shape();
        let numbers = numbers(step, flattened);
        let mut inputs = Vec::with_capacity(step.piece.feeds.len());
        for (feed, numbers) in step.piece.feeds.iter().zip(&numbers) {
            let elements = match feed {
                Feed::Value(at) => elements(values, *at)?,
                Feed::Numbers(_) => numbers.as_slice(),
            };
            inputs.push(if elements.is_empty() { Slice::None } else { T::erase(elements) });
        }
        let mut out = allocate(element_count::<T>(shape)?)?;
        let (planner, terms) = planner_of(site)?;
        let launch = |plan: &Plan, out: &mut Vec<T>| {
            let cpu = &self.shared.cpu;
            planner.run(plan, || cpu.launch(plan.kernel, problem, &plan.point, &inputs, T::erase_mut(out)))
        };
        retrying(planner, terms, problem, |plan| launch(plan, &mut out))?;
        Tensor::from_vec(out, shape)
    }

    fn run_there<T: Element>(
        &self,
        site: &Site<'_>,
        room: &Arc<Room>,
        problem: &Problem,
        step: &Step,
        values: &Values<T>,
        flattened: &Flattened<T>,
    ) -> Result<Tensor<T>, Error> {
        let shape = flattened.flat.value(step.piece.out).shape();
        let numbers = numbers(step, flattened);
        let mut inputs: Vec<Arc<Resident>> = Vec::with_capacity(step.piece.feeds.len());
        for (feed, numbers) in step.piece.feeds.iter().zip(&numbers) {
            inputs.push(match feed {
                Feed::Value(at) => value(values, *at)?.there(room)?,
                Feed::Numbers(_) => {
                    let bytes = std::mem::size_of_val(numbers.as_slice()) as u64;
                    room.hold(T::erase(numbers), bytes)?
                }
            });
        }
        let bytes = (element_count::<T>(shape)? * std::mem::size_of::<T>()) as u64;
        let out = room.reserve(bytes)?;
        let held: Vec<&dyn Held> = inputs.iter().map(|input| input.held()).collect();
        let (planner, terms) = planner_of(site)?;
        retrying(planner, terms, problem, |plan| {
            let timed = planner.should_time(plan);
            let launcher = &room.launcher;
            let time = launcher.launch_held(plan.kernel, problem, &plan.point, &held, out.held(), timed)?;
            time.into_iter().for_each(|time| planner.report(plan, time));
            Ok(())
        })?;
        Tensor::on_device(shape, &out)
    }

    /// A view in row-major order, by the processor.
    fn copied<T: Element>(&self, flat: &Flat, step: &Step, values: &Values<T>) -> Result<Tensor<T>, Error> {
        let out = flat.value(step.piece.out);
        let Some(from) = step.piece.reads().next() else { return Tensor::zeros(out.shape()) };
        let from = value(values, from)?.fetched()?;
        let view = match out.op {
            Op::Permute(axes, _) => from.permuted(&order(&axes, out.shape().len()))?,
            _ => from.broadcast_to(out.shape())?,
        };
        self.contiguous(&view)
    }
}

/// Launches the plan in force, and the next best for as long as launches fail.
fn retrying(
    planner: &Planner,
    terms: TermsId,
    problem: &Problem,
    mut launch: impl FnMut(&Plan) -> Result<(), LaunchError>,
) -> Result<(), Error> {
    let mut plan = match planner.for_call(problem, terms) {
        Some((_, plan)) => *plan,
        None => planner.plan(problem, terms)?,
    };
    loop {
        match launch(&plan) {
            Ok(()) => return Ok(()),
            Err(error) if error.is_callers() => return Err(Error::Launch(error)),
            Err(error) => plan = planner.failed(problem, terms, &plan, &error)?,
        }
    }
}

fn planner_of<'a>(site: &Site<'a>) -> Result<(&'a Planner, TermsId), Error> {
    site.planner.ok_or(Error::Plan(trimtab_plan::PlanError::NoDevice))
}

/// The single numbers of a step, by operand.
fn numbers<T: Element>(step: &Step, flattened: &Flattened<T>) -> Vec<Vec<T>> {
    let of = |feed: &Feed| match feed {
        Feed::Value(_) => Vec::new(),
        Feed::Numbers(places) => places.iter().map(|&place| flattened.numbers[place as usize]).collect(),
    };
    step.piece.feeds.iter().map(of).collect()
}

fn value<T: Element>(values: &Values<T>, at: u32) -> Result<&Tensor<T>, Error> {
    let missing = || Error::Launch(LaunchError::Kernel("a value is used before it is computed".to_string()));
    values.get(at as usize).and_then(Option::as_ref).ok_or_else(missing)
}

fn elements<T: Element>(values: &Values<T>, at: u32) -> Result<&[T], Error> {
    Ok(value(values, at)?.fetched()?.as_slice().unwrap_or_default())
}

/// By input, a bit for each site it lies at; bit 0 is the processor's memory.
pub(super) fn resident<T: Element>(sites: &[Site<'_>], inputs: &[Tensor<T>]) -> Vec<u64> {
    let at = |input: &Tensor<T>| {
        let rooms = sites.iter().enumerate().filter_map(|(site, place)| Some((site, place.room?)));
        let there = rooms.filter(|(_, room)| input.is_on(room)).map(|(site, _)| 1u64 << site.min(63));
        let here = u64::from(input.is_here());
        let places = here | there.sum::<u64>();
        // On a device of another runtime: it comes through the processor's memory.
        if places == 0 { 1 } else { places }
    };
    inputs.iter().map(at).collect()
}
