//! The runtime: devices, planner and memory together, shared by cheap clones.

mod deciding;
mod parts;

use crate::apart::{Apart, Watch};
use crate::audits::Audits;
use crate::builder::{Builder, cap_threads};
use crate::error::Error;
use crate::expression::Schedules;
use crate::in_calls::InCalls;
use crate::journal::Journal;
use crate::memory::{Counts, DeviceMemory, count};
use std::sync::Arc;
use trimtab_core::{Constraints, Device, LaunchError, Lookup, Objective, Problem, Terms};
use trimtab_cpu::CpuDevice;
use trimtab_operands::{Element, Executor, HostLaunch, Kept, Lend, Slice, SliceMut, allowed};
use trimtab_plan::{Decision, Event, Plan, Planner, Reason, TermsId};

/// Chooses the kernel, settings and device for every operation, runs it, learns, remembers, and can say why.
///
/// Clones are cheap and share everything. Building one probes the machine; nothing is measured before the first call.
///
/// A forked child may go on with it, on the thread it has and without GPUs: what it learns is not remembered.
///
/// ```
/// use trimtab::{Runtime, Tensor};
/// let rt = Runtime::builder().wisdom_in_memory().build()?;
/// let a = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// let b = Tensor::from_vec(vec![5.0f32, 6.0, 7.0, 8.0], &[2, 2])?;
/// assert_eq!(rt.matmul(&a, &b)?.to_vec(), [19.0, 22.0, 43.0, 50.0]);
/// # Ok::<(), trimtab::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
    pub(crate) terms: TermsId,
    pub(crate) given: Terms,
}

/// The position of the processor among the devices: always the first, whether it may be planned for or not, because values come from
/// its memory and go there.
pub(crate) const HOST: usize = 0;

pub(crate) struct Shared {
    pub planner: Planner,
    pub cpu: Arc<CpuDevice>,
    /// What runs plans, by the device's position.
    pub executors: Vec<Arc<dyn Executor>>,
    /// Whether a device may be planned for: others are pinned.
    pub usable: Vec<bool>,
    /// The memory of devices that have their own.
    pub memories: Vec<Option<Arc<DeviceMemory>>>,
    pub counts: Arc<Counts>,
    pub schedules: Schedules,
    pub journal: Arc<Journal>,
    pub audits: Audits,
    /// Shared with threads that may outlive the runtime.
    pub in_calls: Arc<InCalls>,
    pub apart: Apart,
    pub watch: Watch,
    /// Whether warnings are told on standard error.
    pub log: bool,
    pub warnings: Vec<String>,
    /// GPUs that could not be used, or why there is none.
    pub unusable: Vec<String>,
}

impl Shared {
    /// Keeps a decision in the journal, and tells who failed on the way to it.
    fn decided(&self, plan: &Plan, decision: &Decision) {
        let failed = decision.events.iter().filter(|event| matches!(event, Event::Failed { .. }));
        for note in failed.filter(|_| self.log).filter_map(Event::note) {
            eprintln!("trimtab: {}: {note}", decision.problem);
        }
        self.journal.decided(plan, decision);
    }

    /// Keeps what drivers built and how fast devices are for the next process.
    pub(crate) fn keep_built(&self) {
        for executor in &self.executors {
            let Some(keeps) = executor.keeps() else { continue };
            for what in Kept::ALL {
                if let Some(news) = keeps.news(what) {
                    // What cannot be written costs time in the next process, nothing else.
                    let name = blob_name(what.name(), executor.as_ref());
                    let _ = self.planner.wisdom().keep_blob(&name, &news);
                }
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.keep_built();
    }
}

/// An operand without its type; one of no elements is none.
#[inline]
fn operand<T: Element>(slice: &[T]) -> Slice<'_> {
    if slice.is_empty() { Slice::None } else { T::erase(slice) }
}

/// What is kept of a device beside facts, kernels its driver built and its speeds: what whole calls take.
pub(crate) const CALIBRATION: &str = "calibration";

/// The name under which something of a device is kept.
pub(crate) fn blob_name(what: &str, device: &(impl Device + ?Sized)) -> String {
    format!("{what}-{}", device.facts().fingerprint)
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({:?}, terms {})", self.shared.planner, self.given)
    }
}

impl Runtime {
    /// A runtime set up by the environment alone.
    ///
    /// ```no_run
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::new()?; // what it learns is kept in the user's cache directory
    /// println!("{:?}", rt.wisdom().dir());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new() -> Result<Runtime, Error> {
        Runtime::builder().build()
    }

    /// Sets up a runtime.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// let rt = Runtime::builder().wisdom_in_memory().threads(1).build()?;
    /// assert_eq!(rt.sum(&Tensor::from(vec![1.0f32, 2.0]), Axis::All)?.item()?, 3.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same runtime under other terms. Plans made under different terms are kept apart.
    ///
    /// ```
    /// use trimtab::{Constraints, Runtime, Tensor};
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let single = rt.constrained(Constraints { threads_max: Some(1), ..Constraints::default() })?;
    /// let ones = Tensor::full(&[64, 64], 1.0f32)?;
    /// assert_eq!(single.matmul(&ones, &ones)?.get(&[0, 0]), Some(64.0));
    /// # Ok::<(), trimtab::Error>(())
    /// ```
    pub fn constrained(&self, constraints: Constraints) -> Result<Runtime, Error> {
        self.under(Terms { constraints, ..self.given })
    }

    /// The same runtime with another objective.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let frugal = rt.minimising(Objective { memory: 0.5, ..Objective::default() })?;
    /// assert_eq!(frugal.terms().objective.memory, 0.5);
    /// assert!(rt.minimising(Objective { time: -1.0, ..Objective::default() }).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn minimising(&self, objective: Objective) -> Result<Runtime, Error> {
        self.under(Terms { objective, ..self.given })
    }

    fn under(&self, mut terms: Terms) -> Result<Runtime, Error> {
        cap_threads(&mut terms, self.shared.cpu.pool().threads(), self.shared.cpu.facts().threads);
        let id = self.shared.planner.terms(&terms)?;
        Ok(Runtime { shared: Arc::clone(&self.shared), terms: id, given: terms })
    }

    /// A device's own memory; nothing for the processor, which computes in the caller's.
    pub(crate) fn memory(&self, device: usize) -> Option<&Arc<DeviceMemory>> {
        self.shared.memories.get(device).and_then(Option::as_ref)
    }

    /// Runs a problem with one or two inputs, choosing as needed. The warm path: one lookup, then the kernel.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let sum: Problem = "elementwise.add:f32:3".parse()?;
    /// let mut out = [0.0f32; 3];
    /// rt.execute(&sum, &[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0], &mut out)?;
    /// assert_eq!(out, [11.0, 22.0, 33.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn execute<T: Element>(
        &self,
        problem: &impl Lookup,
        lhs: &[T],
        rhs: &[T],
        out: &mut [T],
    ) -> Result<(), Error> {
        self.execute_inputs(problem, &[operand(lhs), operand(rhs)], out)
    }

    /// Like [`Runtime::execute`], for any number of inputs and types known at run time.
    ///
    /// ```
    /// # use trimtab::prelude::*;
    /// # let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// use trimtab::advanced::operands::Element;
    /// let sum: Problem = "elementwise.add:f32:2".parse()?;
    /// let (a, b, mut out) = ([1.0f32, 2.0], [3.0f32, 4.0], [0.0f32; 2]);
    /// rt.execute_inputs(&sum, &[f32::erase(&a), f32::erase(&b)], &mut out[..])?;
    /// assert_eq!(out, [4.0, 6.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn execute_inputs(
        &self,
        problem: &impl Lookup,
        inputs: &[Slice<'_>],
        mut out: impl Lend,
    ) -> Result<(), Error> {
        let planner = &self.shared.planner;
        let Some((problem, plan)) = planner.for_call(problem, self.terms) else {
            return self.execute_cold(&problem.problem(), inputs, out.lend());
        };
        let timed = planner.should_time(plan);
        // The processor by its name, so that the call is known to the compiler, and what cannot be otherwise apart, so that a result
        // without an error is not copied from one frame to the next.
        if plan.device as usize == HOST && !plan.is_foreign() && !timed {
            return match self.shared.cpu.launch(plan.kernel, problem, &plan.point, inputs, out.lend()) {
                Ok(()) => Ok(()),
                Err(error) => self.recover(problem, *plan, error, inputs, out.lend()),
            };
        }
        self.execute_elsewhere(plan, problem, inputs, out.lend(), timed)
    }

    /// Calls that are timed, of foreign code, or of other devices.
    #[inline(never)]
    fn execute_elsewhere(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        mut out: SliceMut<'_>,
        timed: bool,
    ) -> Result<(), Error> {
        match self.launch_once(plan, problem, inputs, &mut out, timed) {
            Ok(()) => Ok(()),
            Err(error) => self.recover(problem, *plan, error, inputs, out),
        }
    }

    #[cold]
    fn execute_cold(
        &self,
        problem: &Problem,
        inputs: &[Slice<'_>],
        mut out: SliceMut<'_>,
    ) -> Result<(), Error> {
        if let Some(plan) = self.shared.planner.beyond(problem, self.terms) {
            return match self.launch_once(&plan, problem, inputs, &mut out, false) {
                Ok(()) => Ok(()),
                Err(error) => self.recover(problem, plan, error, inputs, out),
            };
        }
        let plan = self.plan(problem)?;
        match self.launch_first(&plan, problem, inputs, &mut out) {
            Ok(()) => {
                self.shared.keep_built();
                Ok(())
            }
            Err(error) => self.recover(problem, plan, error, inputs, out),
        }
    }

    /// The first launch of a plan, noted if its code is foreign.
    fn launch_first(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &mut SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        let launch = || self.launch_once(plan, problem, inputs, out, false);
        self.shared.planner.first_launch(problem, plan, launch)?;
        // A plan that found no place in the table has no number under which it would be known to be new.
        match self.is_new(plan) || plan.number() == 0 {
            true => self.first_look(plan, problem, inputs, &out.view()),
            false => Ok(()),
        }
    }

    /// Runs a held plan on operands of the problem it was made for.
    ///
    /// ```
    /// use trimtab::Runtime;
    /// let rt = Runtime::builder().wisdom_in_memory().build()?;
    /// let problem = "matmul:f32:2x2x2".parse()?;
    /// let plan = rt.plan(&problem)?;
    /// let mut out = [0.0f32; 4];
    /// rt.launch(&plan, &problem, &[1.0, 2.0, 3.0, 4.0], &[1.0, 0.0, 0.0, 1.0], &mut out)?;
    /// assert_eq!(out, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn launch<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        lhs: &[T],
        rhs: &[T],
        mut out: &mut [T],
    ) -> Result<(), Error> {
        Ok(self.launch_once(plan, problem, &[operand(lhs), operand(rhs)], &mut out, false)?)
    }

    /// Runs a plan on operands in the caller's memory. With `timed` the kernel's own time is reported, as in races: moving operands is
    /// counted apart.
    #[inline(always)]
    pub(crate) fn launch_once(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &mut impl Lend,
        timed: bool,
    ) -> Result<(), LaunchError> {
        // The processor by its name, so that the call is known to the compiler, and all of it in one function: each copy of
        // operands from one frame to the next costs a warm call 4 ns, because its loads span several stores and wait for them.
        if plan.device as usize == HOST && !timed {
            if !plan.is_foreign() {
                return self.shared.cpu.launch(plan.kernel, problem, &plan.point, inputs, out.lend());
            }
            if !plan.is_users() {
                return self.launch_library(plan, problem, inputs, out.lend());
            }
        }
        self.launch_on(plan, problem, inputs, out.lend(), timed)
    }

    /// A library's kernel of the processor, noted while it runs.
    #[inline(never)]
    fn launch_library(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: SliceMut<'_>,
    ) -> Result<(), LaunchError> {
        let Shared { planner, in_calls, cpu, .. } = &*self.shared;
        let _inside = in_calls.enter(planner, problem, plan);
        cpu.launch(plan.kernel, problem, &plan.point, inputs, out)
    }

    #[cold]
    fn launch_on(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        mut out: SliceMut<'_>,
        timed: bool,
    ) -> Result<(), LaunchError> {
        let Some(executor) = self.shared.executors.get(plan.device as usize) else {
            return Err(LaunchError::Kernel(format!("there is no device {}", plan.device)));
        };
        let Shared { planner, in_calls, .. } = &*self.shared;
        // Users' kernels are entered by the thread that runs them.
        let is_foreign = !plan.is_users() && (plan.is_foreign() || executor.facts().habits.may_crash);
        let _inside = is_foreign.then(|| in_calls.enter(planner, problem, plan));
        let launch = HostLaunch { kernel: plan.kernel, problem, point: &plan.point, inputs };
        let time = match plan.is_users() {
            true => self.launch_users(executor.as_ref(), plan, launch, out.lend(), timed)?,
            false => executor.launch_host(launch, out.lend(), timed)?,
        };
        if self.memory(plan.device as usize).is_some() {
            let Counts { uploads, uploaded, downloads, downloaded, .. } = &*self.shared.counts;
            let moved = inputs.iter().map(|input| input.bytes().len() as u64).filter(|bytes| *bytes > 0);
            moved.for_each(|bytes| {
                count(uploads, 1);
                count(uploaded, bytes);
            });
            count(downloads, 1);
            count(downloaded, out.len() as u64 * out.dtype().size());
        }
        self.look(plan, problem, inputs, &out.view(), time)?;
        if let Some(time) = time {
            self.shared.planner.report(plan, time);
        }
        Ok(())
    }

    /// How far the result of a plan may be from the reference.
    pub(crate) fn tolerance(&self, plan: &Plan, problem: &Problem) -> f64 {
        let Some(executor) = self.shared.executors.get(plan.device as usize) else {
            return trimtab_operands::tolerance(problem);
        };
        allowed(executor.tolerance(problem), &executor.work(plan.kernel, problem, &plan.point))
    }

    /// A launch failed: the operands are to blame, or the next best plan answers.
    #[cold]
    fn recover(
        &self,
        problem: &Problem,
        plan: Plan,
        error: LaunchError,
        inputs: &[Slice<'_>],
        mut out: SliceMut<'_>,
    ) -> Result<(), Error> {
        let (mut plan, mut error) = (plan, error);
        // Each round quarantines one point; the reference ends the loop at the latest.
        loop {
            if error.is_callers() {
                return Err(Error::Launch(error));
            }
            plan = self.shared.planner.failed(problem, self.terms, &plan, &error)?;
            // Where only a try failed, the plan in force answers, and that is no new decision.
            let made = self.shared.planner.decision(problem, self.terms);
            if let Some(decision) = made.filter(|made| made.reason == Reason::NextBest) {
                self.shared.decided(&plan, &decision);
            }
            match self.launch_first(&plan, problem, inputs, &mut out) {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
    }
}
