//! Writes down the intent before foreign code runs for the first time, so that a crash is not repeated, and keeps a kernel that hangs
//! from being started again.

use crate::plan::{Plan, Rival};
use crate::planner::Planner;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::{Arc, PoisonError, RwLock};
use trimtab_core::{
    Basis, Bench, Device, Estimate, Failure, KernelId, Nanos, Point, Problem, Sample, Space, VariantClass,
};
use trimtab_tune::Leash;
use trimtab_wisdom::Wisdom;

/// What holds back kernels that hang, each by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hanging(Arc<RwLock<FxHashMap<(u16, KernelId), Leash>>>);

impl Hanging {
    /// What holds back a kernel. There are as many as kernels that were started by somebody who may leave them behind.
    pub(crate) fn leash(&self, device: u16, kernel: KernelId) -> Leash {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&(device, kernel)).cloned();
        known.unwrap_or_else(|| {
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            all.entry((device, kernel)).or_default().clone()
        })
    }

    /// Checks or measures a kernel, unless it hangs. A user's waits for its turn: a caller may be in it, and may never come back.
    pub(crate) fn run<R>(
        &self,
        (device, kernel): (u16, KernelId),
        is_users: bool,
        run: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let leash = self.leash(device, kernel);
        if is_users { leash.run_alone(run) } else { leash.run(run) }
    }

    /// Why a kernel is not started now.
    pub(crate) fn why(&self, device: u16, kernel: KernelId) -> Option<String> {
        self.0.read().ok()?.get(&(device, kernel))?.why()
    }

    /// Forgets a device that left.
    pub(crate) fn leave(&self, device: u16) {
        if let Ok(mut all) = self.0.write() {
            all.retain(|key, _| key.0 != device);
        }
    }
}

/// A bench that leaves a note before a library's or a user's kernel first runs.
pub struct Guarded<'a> {
    bench: Box<dyn Bench + 'a>,
    wisdom: &'a Wisdom,
    device: &'a dyn Device,
    problem: Problem,
    started: FxHashSet<(KernelId, Point)>,
    /// What hangs, and the device's number there.
    hanging: (Hanging, u16),
    /// Each kernel's axes, to name points: a space of many points is not built for every one of them.
    axes: FxHashMap<KernelId, Space>,
}

impl<'a> Guarded<'a> {
    /// Guards a bench of that problem on that device, with notes in this wisdom.
    pub fn new(
        bench: Box<dyn Bench + 'a>,
        problem: Problem,
        wisdom: &'a Wisdom,
        device: &'a dyn Device,
    ) -> Guarded<'a> {
        let (started, hanging, axes) = Default::default();
        Guarded { bench, wisdom, device, problem, started, hanging, axes }
    }

    /// The same, where other benches may hang too.
    pub(crate) fn beside(self, hanging: &Hanging, device: u16) -> Guarded<'a> {
        Guarded { hanging: (hanging.clone(), device), ..self }
    }

    /// Whether a rival ran here already.
    pub(crate) fn has_run(&self, rival: &Rival) -> bool {
        self.started.contains(&(rival.kernel, rival.point))
    }

    fn class(&self, kernel: KernelId) -> Option<VariantClass> {
        self.device.kernels().get(kernel.0 as usize).map(|info| info.class)
    }

    fn is_foreign(&self, kernel: KernelId) -> bool {
        in_a_driver(self.device) || self.class(kernel).is_some_and(is_foreign)
    }
}

/// Our own kernels are checked at every point before a release; code from elsewhere is not.
fn is_foreign(class: VariantClass) -> bool {
    matches!(class, VariantClass::Library | VariantClass::Custom)
}

/// On a GPU whatever runs is compiled by a driver, and drivers crash the process on some kernels.
fn in_a_driver(device: &dyn Device) -> bool {
    device.facts().habits.may_crash
}

/// Runs a rival once outside a race, with a note before it if its code is foreign.
pub(crate) fn with_intent<R>(
    wisdom: &Wisdom,
    device: &dyn Device,
    rival: &Rival,
    run: impl FnOnce() -> R,
) -> R {
    if !is_foreign(rival.class) && !in_a_driver(device) {
        return run();
    }
    noted(wisdom, device, (&rival.name, &rival.version.0, &rival.point_name), run)
}

/// Runs a kernel, its name, version and point written down before and crossed out after.
fn noted<R>(
    wisdom: &Wisdom,
    device: &dyn Device,
    (name, version, point): (&str, &str, &str),
    run: impl FnOnce() -> R,
) -> R {
    let fingerprint = &device.facts().fingerprint.0;
    wisdom.intend(fingerprint, name, version, point);
    let outcome = run();
    wisdom.done(fingerprint, name, version, point);
    outcome
}

impl Planner {
    /// Runs a plan on live operands for the first time, with a note before it if its code is foreign: whoever ends the process in
    /// a live call is found out like one that does so in a race. Later calls are noted in a file's memory, which costs less.
    pub fn first_launch<R>(&self, problem: &Problem, plan: &Plan, run: impl FnOnce() -> R) -> R {
        let Some(device) = self.decider().devices.get(plan.device) else { return run() };
        let Some(info) = device.kernels().get(plan.kernel.0 as usize) else { return run() };
        if !is_foreign(info.class) && !in_a_driver(device.as_ref()) {
            return run();
        }
        let point = device.space(plan.kernel, problem).name(&plan.point);
        noted(self.wisdom(), device.as_ref(), (&info.name, &info.version.0, &point), run)
    }

    /// What holds back the kernel of a plan while a run of it hangs.
    pub fn leash(&self, plan: &Plan) -> Leash {
        self.decider().experience.hanging.leash(plan.device, plan.kernel)
    }

    /// What a plan was measured to take on its problem, if it was.
    pub fn measured(&self, plan: &Plan) -> Option<Nanos> {
        let record = self.record_of(plan)?;
        let its = record.rivals.iter().find(|rival| plan.runs(rival))?;
        match its.estimate()? {
            Estimate { time, basis: Basis::Measured(_), .. } => Some(time),
            _ => None,
        }
    }

    /// What a plan runs, as wisdom names it: device, kernel, version, point.
    pub fn names(&self, problem: &Problem, plan: &Plan) -> Option<[String; 4]> {
        let device = self.decider().devices.get(plan.device)?;
        let info = device.kernels().get(plan.kernel.0 as usize)?;
        let point = device.space(plan.kernel, problem).name(&plan.point);
        let fingerprint = device.facts().fingerprint.0.clone();
        Some([fingerprint, info.name.clone(), info.version.to_string(), point])
    }
}

impl Bench for Guarded<'_> {
    fn run(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let (hanging, device) = self.hanging.clone();
        let is_users = self.class(kernel) == Some(VariantClass::Custom);
        hanging.run((device, kernel), is_users, || self.run_noted(kernel, point, iterations, timeout))
    }
}

impl Guarded<'_> {
    fn run_noted(
        &mut self,
        kernel: KernelId,
        point: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let first = self.started.insert((kernel, *point));
        if !first || !self.is_foreign(kernel) {
            return self.bench.run(kernel, point, iterations, timeout);
        }
        let Some(info) = self.device.kernels().get(kernel.0 as usize) else {
            return self.bench.run(kernel, point, iterations, timeout);
        };
        let axes = self.axes.entry(kernel).or_insert_with(|| {
            Space::new(self.device.space(kernel, &self.problem).axes().to_vec(), Vec::new())
        });
        let name = axes.name(point);
        let run = || self.bench.run(kernel, point, iterations, timeout);
        noted(self.wisdom, self.device, (&info.name, &info.version.0, &name), run)
    }
}
