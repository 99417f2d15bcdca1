//! The runtime: devices, planner and memory together, shared by cheap clones.

use crate::builder::{Builder, cap_threads};
use crate::error::Error;
use crate::expression::Schedules;
use crate::journal::Journal;
use crate::residency::{Activity, Counts, Room};
use std::sync::{Arc, OnceLock};
use trimtab_core::{Constraints, Device, LaunchError, Lookup, Objective, Problem, Terms};
use trimtab_cpu::{CpuDevice, Element, Slice};
use trimtab_operands::Launch;
use trimtab_plan::regret::LiveStats;
use trimtab_plan::{Decision, Plan, Planner, Reason, TermsId, TuneRequest};
use trimtab_tune::Progress;
use trimtab_wisdom::{Filter, ImportReport, Wisdom, WisdomError};

/// Chooses the kernel, settings and device for every operation, runs it, learns, remembers, and can say why.
///
/// Clones are cheap and share everything. Building one probes the machine; nothing is measured before the first call.
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

pub(crate) struct Shared {
    pub planner: Planner,
    pub cpu: Arc<CpuDevice>,
    /// The processor's position in the planner's list; past its end if another device is pinned.
    pub cpu_at: u16,
    /// What runs plans of the other devices, by position; nothing at the processor's.
    pub launchers: Vec<Option<Arc<dyn Launch>>>,
    /// The memory of those devices, by position.
    pub rooms: Vec<Option<Arc<Room>>>,
    pub counts: Arc<Counts>,
    /// A planner for each device alone, where there are several: what a device would take, whoever else there is.
    pub alone: Vec<OnceLock<Planner>>,
    pub schedules: Schedules,
    pub journal: Arc<Journal>,
    pub warnings: Vec<String>,
    /// GPUs that could not be used, or why there is none.
    pub unusable: Vec<String>,
}

impl Shared {
    /// Keeps what drivers built and how fast devices are for the next process.
    pub(crate) fn keep_built(&self) {
        for (device, launcher) in self.planner.devices().iter().zip(&self.launchers) {
            let Some(launcher) = launcher else { continue };
            let kept = [(BUILT, launcher.built()), (SPEEDS, launcher.speeds().map(String::into_bytes))];
            for (what, bytes) in kept {
                if let Some(bytes) = bytes {
                    // What cannot be written costs time in the next process, nothing else.
                    let _ = self.planner.wisdom().keep_blob(&blob_name(what, device.as_ref()), &bytes);
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

/// What is kept of a device beside facts: kernels its driver built, its speeds, and what whole calls take.
pub(crate) const BUILT: &str = "built";
pub(crate) const SPEEDS: &str = "speeds";
pub(crate) const CALIBRATION: &str = "calibration";

/// The name under which something of a device is kept.
pub(crate) fn blob_name(what: &str, device: &dyn Device) -> String {
    format!("{what}-{}", device.facts().fingerprint)
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Runtime({:?}, terms {})", self.shared.planner, self.given)
    }
}

impl Runtime {
    /// A runtime set up by the environment alone.
    pub fn new() -> Result<Runtime, Error> {
        Runtime::builder().build()
    }

    /// Sets up a runtime.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The same runtime under other terms. Plans made under different terms are kept apart.
    ///
    /// ```
    /// use trimtab::{core::Constraints, Runtime, Tensor};
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
    pub fn minimising(&self, objective: Objective) -> Result<Runtime, Error> {
        self.under(Terms { objective, ..self.given })
    }

    fn under(&self, mut terms: Terms) -> Result<Runtime, Error> {
        cap_threads(&mut terms, self.shared.cpu.pool().threads(), self.shared.cpu.facts().threads);
        let id = self.shared.planner.terms(&terms)?;
        Ok(Runtime { shared: Arc::clone(&self.shared), terms: id, given: terms })
    }

    /// The terms calls through this handle are planned under.
    pub fn terms(&self) -> &Terms {
        &self.given
    }

    /// The planner, for those who bring their own kernels or devices.
    pub fn planner(&self) -> &Planner {
        &self.shared.planner
    }

    /// The planner that asks one device alone.
    pub(crate) fn planner_for(&self, device: usize) -> &Planner {
        let planner = &self.shared.planner;
        let make = || {
            let only = planner.devices().get(device).cloned();
            let wisdom = Arc::clone(planner.wisdom());
            Planner::new(only.into_iter().collect(), wisdom, planner.settings().clone(), Terms::default())
        };
        match self.shared.alone.get(device) {
            Some(alone) if planner.devices().len() > 1 => alone.get_or_init(make),
            _ => planner,
        }
    }

    /// What was learned has changed: everything that rests on it is planned anew.
    fn replan(&self) {
        self.shared.alone.iter().filter_map(OnceLock::get).for_each(Planner::replan);
        self.shared.schedules.clear();
    }

    /// The last decisions: one for each plan put in force or replaced, one for each launch of a new expression.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// The processor.
    pub fn cpu(&self) -> &CpuDevice {
        &self.shared.cpu
    }

    /// The devices planned for.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        self.shared.planner.devices()
    }

    /// What is remembered.
    pub fn wisdom(&self) -> &Wisdom {
        self.shared.planner.wisdom()
    }

    /// GPUs that could not be used, or why there is none and how to get one. Empty if nobody looked: with the processor pinned.
    pub fn unusable(&self) -> &[String] {
        &self.shared.unusable
    }

    /// What could not be set up, and what to do about it.
    pub fn warnings(&self) -> &[String] {
        &self.shared.warnings
    }

    /// The plan for a problem, made now if need be. Hold it and pass it to [`Runtime::launch`] to pay nothing per call.
    pub fn plan(&self, problem: &Problem) -> Result<Plan, Error> {
        let (plan, made) = self.shared.planner.decide(problem, self.terms)?;
        if let Some(decision) = made {
            self.shared.journal.decided(&plan, &decision);
        }
        Ok(plan)
    }

    /// Measures a problem and puts the winner in force.
    pub fn tune(
        &self,
        problem: &Problem,
        request: &TuneRequest,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Arc<Decision>, Error> {
        let planner = &self.shared.planner;
        let decision = planner.tune(problem, self.terms, request, progress)?;
        if let Some((_, plan)) = planner.known(problem, self.terms) {
            self.shared.journal.decided(plan, &decision);
        }
        self.shared.keep_built();
        self.replan();
        Ok(decision)
    }

    /// The record of the plan in force, or without one of what a call would begin with: why, what else there is, and how each was
    /// judged. Measures nothing.
    pub fn explain(&self, problem: &Problem) -> Result<Arc<Decision>, Error> {
        Ok(self.shared.planner.explain(problem, self.terms)?)
    }

    /// What live calls of this process showed: how many were timed, what trying others cost, how near expected times were.
    /// What outlives the process is in wisdom: see [`plan::regret`](trimtab_plan::regret).
    pub fn stats(&self) -> LiveStats {
        self.shared.planner.stats()
    }

    /// What was moved to devices and back, and what had to make room there, since this runtime was built.
    pub fn activity(&self) -> Activity {
        self.shared.counts.activity()
    }

    /// Takes in facts from elsewhere; with `commit` they count from the next call on.
    pub fn import(&self, text: &str, commit: bool) -> Result<ImportReport, WisdomError> {
        let report = self.shared.planner.import(text, commit)?;
        if commit {
            self.replan();
        }
        Ok(report)
    }

    /// Forgets facts; what rested on them is planned anew.
    pub fn forget(&self, filter: &Filter) -> usize {
        let count = self.shared.planner.forget(filter);
        self.replan();
        count
    }

    /// Runs a problem with one or two inputs, choosing as needed. The warm path: one lookup, then the kernel.
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

    /// Like [`Runtime::execute`], for any number of inputs.
    #[inline]
    pub fn execute_inputs<T: Element>(
        &self,
        problem: &impl Lookup,
        inputs: &[Slice<'_>],
        out: &mut [T],
    ) -> Result<(), Error> {
        let planner = &self.shared.planner;
        let Some((problem, plan)) = planner.for_call(problem, self.terms) else {
            return self.execute_cold(&problem.problem(), inputs, out);
        };
        let outcome = if plan.device == self.shared.cpu_at {
            planner.run(plan, || self.launch_here(plan, problem, inputs, out))
        } else {
            self.launch_elsewhere(plan, problem, inputs, out, planner.should_time(plan))
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(error) => self.recover(problem, *plan, error, inputs, out),
        }
    }

    #[cold]
    fn execute_cold<T: Element>(
        &self,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &mut [T],
    ) -> Result<(), Error> {
        let plan = self.plan(problem)?;
        match self.launch_once(&plan, problem, inputs, out) {
            Ok(()) => {
                self.shared.keep_built();
                Ok(())
            }
            Err(error) => self.recover(problem, plan, error, inputs, out),
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
        out: &mut [T],
    ) -> Result<(), Error> {
        Ok(self.launch_once(plan, problem, &[operand(lhs), operand(rhs)], out)?)
    }

    #[inline]
    pub(crate) fn launch_once<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &mut [T],
    ) -> Result<(), LaunchError> {
        if plan.device == self.shared.cpu_at {
            self.launch_here(plan, problem, inputs, out)
        } else {
            self.launch_elsewhere(plan, problem, inputs, out, false)
        }
    }

    /// On a device beside the processor. Reported is the kernel's own time, as in races: moving operands is counted apart.
    #[cold]
    fn launch_elsewhere<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &mut [T],
        timed: bool,
    ) -> Result<(), LaunchError> {
        let Some(Some(launcher)) = self.shared.launchers.get(plan.device as usize) else {
            return Err(LaunchError::Kernel(format!("there is no device {}", plan.device)));
        };
        let time = launcher.launch(plan.kernel, problem, &plan.point, inputs, T::erase_mut(out), timed)?;
        if let Some(time) = time {
            self.shared.planner.report(plan, time);
        }
        Ok(())
    }

    #[inline]
    fn launch_here<T: Element>(
        &self,
        plan: &Plan,
        problem: &Problem,
        inputs: &[Slice<'_>],
        out: &mut [T],
    ) -> Result<(), LaunchError> {
        self.shared.cpu.launch(plan.kernel, problem, &plan.point, inputs, T::erase_mut(out))
    }

    /// How far the result of a plan may be from the reference.
    pub(crate) fn tolerance(&self, plan: &Plan, problem: &Problem) -> f64 {
        match self.shared.launchers.get(plan.device as usize) {
            Some(Some(launcher)) => launcher.tolerance(problem),
            _ => trimtab_operands::tolerance(problem),
        }
    }

    /// A launch failed: the operands are to blame, or the next best plan answers.
    #[cold]
    fn recover<T: Element>(
        &self,
        problem: &Problem,
        plan: Plan,
        error: LaunchError,
        inputs: &[Slice<'_>],
        out: &mut [T],
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
                self.shared.journal.decided(&plan, &decision);
            }
            match self.launch_once(&plan, problem, inputs, out) {
                Ok(()) => return Ok(()),
                Err(next) => error = next,
            }
        }
    }
}
