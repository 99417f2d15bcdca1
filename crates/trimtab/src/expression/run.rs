//! Computing a scheduled expression: values stay where they were computed until someone reads them.

use super::batch::Waiting;
use super::flat::{Flat, Flattened, Op, Value, order};
use super::fuse::{Feed, Task};
use super::kept::Key;
use super::schedule::{Schedule, Scheduled, Source};
use super::strips::{OfStrip, OperandOfStrip, Strips};

use crate::error::Error;
use crate::memory::count;
use crate::runtime::{HOST, Runtime};
use crate::tensor::{AnyTensor, allocate_result, element_count};
use std::sync::atomic::Ordering;
use trimtab_core::{DType, LaunchError, MAX_INPUTS, MAX_NUMBERS, Problem};
use trimtab_operands::{Data, Lend, Slice};
use trimtab_plan::{Plan, Planner, TermsId};
use trimtab_tune::Stopwatch;

/// One run in so many is timed, launch by launch.
const TIMED: u32 = 32;
/// The most operands of a step: those of three launches, in strips.
const MAX_FEEDS: usize = 3 * (MAX_INPUTS + 1);

/// The data of an expression that is being computed.
pub(super) struct Values<'a> {
    inputs: &'a [AnyTensor],
    pub numbers: &'a [f64],
    /// Inputs that had to be copied into row-major order; empty if there is none.
    dense: Vec<Option<AnyTensor>>,
    /// By step.
    made: Vec<Option<AnyTensor>>,
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
    pub(super) fn key(&self, flat: Flat, inputs: &[AnyTensor]) -> Key {
        Key { terms: self.terms, flat, resident: self.resident(inputs) }
    }

    /// The value of an expression, in the processor's memory too if it is read at once. What a device fails at, the processor does.
    pub(super) fn evaluate(&self, flattened: Flattened, is_read: bool) -> Result<AnyTensor, Error> {
        let Flattened { flat, inputs, numbers } = flattened;
        count(&self.shared.counts.evaluated, 1);
        if let Op::Input(number) = flat.value(flat.root()).op {
            return Ok(inputs[number as usize].clone());
        }
        let schedule = self.schedule(self.key(flat, &inputs))?;
        let run = schedule.runs.fetch_add(1, Ordering::Relaxed);
        let is_elsewhere = schedule.is_elsewhere();
        // The first run on a device may build kernels, which is not what launches take.
        let timed = run % TIMED == u32::from(is_elsewhere);
        // What is wrong with a kernel shows when it first runs.
        let manner = if timed { Manner::Apart } else { Manner::Together { careful: run == 0 } };
        let first = self.run(&schedule, &inputs, &numbers, (manner, timed, is_read, run == 0));
        let error = match first {
            Ok(value) => return Ok(value),
            Err(error) if is_callers(&error) || !is_elsewhere => return Err(error),
            Err(error) => error,
        };
        if manner != Manner::Apart {
            // One by one it shows which of them fails, and the next best plan takes its place.
            let again = self.run(&schedule, &inputs, &numbers, (Manner::Apart, false, is_read, true));
            if again.is_ok() || again.as_ref().is_err_and(is_callers) {
                return again;
            }
        }
        self.shared.schedules.forget(&schedule);
        if !self.shared.usable[HOST] {
            return Err(error);
        }
        let here = self.schedule_here(self.key(schedule.key.flat.clone(), &inputs))?;
        let value = self.run(&here, &inputs, &numbers, (Manner::Apart, false, is_read, true))?;
        count(&self.shared.counts.recovered, 1);
        Ok(value)
    }

    fn run(
        &self,
        schedule: &Schedule,
        inputs: &[AnyTensor],
        numbers: &[f64],
        (manner, timed, is_read, is_first): (Manner, bool, bool, bool),
    ) -> Result<AnyTensor, Error> {
        let flat = &schedule.key.flat;
        let made = Vec::with_capacity(schedule.steps.len());
        let mut values = Values { inputs, numbers, dense: Vec::new(), made };
        let mut waiting = Waiting::new(self.planner(), manner != Manner::Together { careful: false });
        for step in &schedule.steps {
            let watch = timed.then(Stopwatch::start);
            // A view is copied as it is needed, not made dense before.
            for from in step.from.iter().filter(|_| !matches!(step.piece.task, Task::Copy)) {
                values.ready(self, *from)?;
            }
            let out = flat.value(step.piece.out);
            let memory = self.memory(step.device);
            if memory.is_none_or(|memory| !waiting.is_for(memory)) {
                waiting.launch()?;
            }
            let value = match (memory, &step.piece.task) {
                (_, Task::Copy) => self.copied(flat, step, &values)?,
                (_, Task::Problem(_)) if out.len() == 0 => AnyTensor::zeros(out.dtype, out.shape())?,
                (None, Task::Problem(problem)) => self.run_here(problem, step, out, &values, is_first)?,
                (_, Task::Strips(_)) if out.len() == 0 => AnyTensor::zeros(out.dtype, out.shape())?,
                (_, Task::Strips(strips)) => self.run_strips(strips, step, out, &values, is_first)?,
                (Some(memory), Task::Problem(problem)) if manner != Manner::Apart => {
                    let plan = self.plan_of(step.terms, problem)?;
                    match self.is_new(&plan) {
                        // Looked at before anybody uses it: what waits goes first.
                        true => {
                            waiting.launch()?;
                            self.run_on(memory, problem, step, out, &values, timed)?
                        }
                        false => waiting.add(memory, &plan, problem, step, out, &values)?,
                    }
                }
                (Some(memory), Task::Problem(problem)) => {
                    self.run_on(memory, problem, step, out, &values, timed)?
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

    fn run_here(
        &self,
        problem: &Problem,
        step: &Scheduled,
        made: &Value,
        values: &Values<'_>,
        is_first: bool,
    ) -> Result<AnyTensor, Error> {
        with_operands::<{ MAX_INPUTS + 1 }, _>(step, values, |inputs| {
            let (dtype, shape) = (made.dtype, made.shape());
            let mut out = allocate_result(dtype, element_count(dtype, shape)?)?;
            self.launch_here(step.terms, problem, inputs, &mut out, is_first)?;
            AnyTensor::from_data(out, dtype, shape)
        })
    }

    /// One launch on the processor, and the next best for as long as launches fail.
    fn launch_here(
        &self,
        terms: TermsId,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &mut impl Lend,
        is_first: bool,
    ) -> Result<(), Error> {
        let planner = self.planner();
        // Whoever ends the process in its first launch is found out by the note left before it; the next best has not run either.
        let mut is_new = is_first;
        retrying(planner, terms, problem, self.plan_of(terms, problem)?, |plan| {
            let is_unseen = self.is_new(plan);
            let mut launch = || self.launch_once(plan, problem, inputs, out, planner.should_time(plan));
            match std::mem::replace(&mut is_new, true) {
                true => planner.first_launch(problem, plan, launch)?,
                false => launch()?,
            }
            if is_unseen { self.first_look(plan, problem, inputs, &out.lend().view()) } else { Ok(()) }
        })
    }

    /// Launches strip by strip: what lies between them is as long as a strip.
    fn run_strips(
        &self,
        strips: &Strips,
        step: &Scheduled,
        made: &Value,
        values: &Values<'_>,
        is_first: bool,
    ) -> Result<AnyTensor, Error> {
        with_operands::<MAX_FEEDS, _>(step, values, |feeds| {
            let (dtype, shape) = (made.dtype, made.shape());
            let mut out = allocate_result(dtype, element_count(dtype, shape)?)?;
            let last = strips.launches.len() - 1;
            let between =
                strips.launches[..last].iter().map(|launch| allocate_result(launch.dtype, launch.len));
            let mut between: Vec<Data> = between.collect::<Result<_, _>>()?;
            for strip in 0..strips.count {
                for (nth, launch) in strips.launches.iter().enumerate() {
                    // Those before it are over; their results are read now.
                    let (before, own) = between.split_at_mut(nth.min(last));
                    let mut inputs = [Slice::None; MAX_INPUTS + 1];
                    for (input, part) in inputs.iter_mut().zip(&launch.from) {
                        *input = match *part {
                            OperandOfStrip::Whole(feed) => feeds[feed],
                            OperandOfStrip::Some(feed, len) => {
                                feeds[feed].part(strip * len..(strip + 1) * len)
                            }
                            OperandOfStrip::Made(nth) => before.get(nth).map_or(Slice::None, Data::slice),
                        };
                    }
                    let inputs = &inputs[..launch.from.len().min(MAX_INPUTS + 1)];
                    let is_first = is_first && strip == 0;
                    let mut to = match own.first_mut() {
                        Some(own) => own.slice_mut(),
                        None => out.slice_mut().part(strip * launch.len..(strip + 1) * launch.len),
                    };
                    self.launch_here(step.terms, &launch.problem, inputs, &mut to, is_first)
                        .map_err(|error| in_strip(error, launch, strip))?;
                }
            }
            AnyTensor::from_data(out, dtype, shape)
        })
    }

    /// A view in row-major order, by the processor.
    fn copied(&self, flat: &Flat, step: &Scheduled, values: &Values<'_>) -> Result<AnyTensor, Error> {
        let out = flat.value(step.piece.out);
        let Some(from) = step.from.first() else { return AnyTensor::zeros(out.dtype, out.shape()) };
        let from = match (&step.piece.feeds[0], from) {
            (Feed::Numbers(dtype, places), Source::Numbers) => {
                &AnyTensor::from_data(gathered(*dtype, places, values.numbers), *dtype, &[])?
            }
            _ => values.value(*from)?.fetched()?,
        };
        let view = match out.op {
            Op::Permute(axes, _) => from.permuted(&order(&axes, out.shape().len()))?,
            Op::Reshape(_) => from.reshaped(out.shape())?,
            _ => from.broadcast_to(out.shape())?,
        };
        self.contiguous_any(&view)
    }

    /// By input, a bit for each site it lies at, bit 0 being the processor's memory; nothing if none lies anywhere else.
    fn resident(&self, inputs: &[AnyTensor]) -> Vec<u64> {
        if inputs.iter().all(|input| input.storage().is_only_here()) {
            return Vec::new();
        }
        let at = |input: &AnyTensor| {
            let memories = self.shared.memories.iter().enumerate();
            let there =
                memories.filter(|(_, memory)| memory.as_ref().is_some_and(|memory| input.is_on(memory)));
            let there = there.map(|(device, _)| 1u64 << device.min(63)).sum::<u64>();
            let places = u64::from(input.storage().is_here()) << HOST | there;
            // On a device of another runtime: it comes through the processor's memory.
            if places == 0 { 1 } else { places }
        };
        inputs.iter().map(at).collect()
    }
}

#[cfg(test)]
impl Runtime {
    /// The value that these pieces of an expression compute on the processor.
    pub(super) fn run_pieces(
        &self,
        flattened: &Flattened,
        pieces: Vec<super::fuse::Piece>,
    ) -> Result<AnyTensor, Error> {
        let Flattened { flat, inputs, numbers } = flattened;
        let schedule = Schedule::of_pieces(self, self.key(flat.clone(), inputs), pieces);
        self.run(&schedule, inputs, numbers, (Manner::Apart, false, true, true))
    }
}

impl Values<'_> {
    /// Brings an input into row-major order.
    fn ready(&mut self, rt: &Runtime, from: Source) -> Result<(), Error> {
        let Source::Input(number) = from else { return Ok(()) };
        let number = number as usize;
        let Some(input) = self.inputs.get(number).filter(|input| !input.is_contiguous()) else {
            return Ok(());
        };
        self.dense.resize(self.inputs.len(), None);
        if self.dense[number].is_none() {
            self.dense[number] = Some(rt.contiguous_any(input)?);
        }
        Ok(())
    }

    pub(super) fn value(&self, from: Source) -> Result<&AnyTensor, Error> {
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

    fn elements(&self, from: Source) -> Result<Slice<'_>, Error> {
        Ok(self.value(from)?.fetched()?.as_slice().unwrap_or(Slice::None))
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

impl Runtime {
    /// The plan for a call that is made now.
    pub(super) fn plan_of(&self, terms: TermsId, problem: &Problem) -> Result<Plan, Error> {
        match self.planner().for_call(problem, terms) {
            Some((_, plan)) => Ok(*plan),
            None => Ok(self.planner().plan(problem, terms)?),
        }
    }
}

/// The operands of a step on the processor: numbers are put together, the rest is read where it is.
fn with_operands<const N: usize, R>(
    step: &Scheduled,
    values: &Values<'_>,
    run: impl FnOnce(&[Slice<'_>]) -> Result<R, Error>,
) -> Result<R, Error> {
    let numbers = |feed: &Feed| match feed {
        Feed::Numbers(dtype, places) => gathered(*dtype, places, values.numbers),
        Feed::Value(_) => Data::None,
    };
    let mut together: [Data; N] = std::array::from_fn(|_| Data::None);
    let mut inputs = [Slice::None; N];
    let used = step.from.len().min(N);
    for (together, feed) in together[..used].iter_mut().zip(&step.piece.feeds) {
        *together = numbers(feed);
    }
    for (place, input) in inputs[..used].iter_mut().enumerate() {
        let slice = match &step.piece.feeds[place] {
            Feed::Numbers(..) => together[place].slice(),
            Feed::Value(_) => values.elements(step.from[place])?,
        };
        *input = if slice.is_empty() { Slice::None } else { slice };
    }
    run(&inputs[..used])
}

/// Launches a plan, and the next best for as long as launches fail.
pub(super) fn retrying(
    planner: &Planner,
    terms: TermsId,
    problem: &Problem,
    mut plan: Plan,
    mut launch: impl FnMut(&Plan) -> Result<(), LaunchError>,
) -> Result<(), Error> {
    loop {
        match launch(&plan) {
            Ok(()) => return Ok(()),
            Err(error) if error.is_callers() => return Err(Error::Launch(error)),
            Err(error) => plan = planner.failed(problem, terms, &plan, &error)?,
        }
    }
}

/// An error of a launch of one strip: places of indices count from where the strip begins.
fn in_strip(error: Error, launch: &OfStrip, strip: usize) -> Error {
    match (error, &launch.problem) {
        (Error::Launch(LaunchError::Data(text)), Problem::Gather(p)) if strip > 0 => {
            let first = strip as u64 * p.count;
            Error::Launch(LaunchError::Data(format!("{text} (counted from index {first} on)")))
        }
        (error, _) => error,
    }
}

/// Single numbers of an expression together.
pub(super) fn gathered(dtype: DType, places: &[u32], numbers: &[f64]) -> Data {
    let mut picked = [0.0; MAX_NUMBERS];
    let count = places.len().min(MAX_NUMBERS);
    for (own, place) in picked.iter_mut().zip(places) {
        *own = numbers.get(*place as usize).copied().unwrap_or_default();
    }
    Data::of_numbers(dtype, &picked[..count])
}
