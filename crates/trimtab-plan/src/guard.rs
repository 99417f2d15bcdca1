//! Writes down the intent before foreign code runs for the first time, so that a crash is not repeated, and keeps a kernel that hangs
//! from being started again.

use crate::plan::{Plan, Rival};
use crate::planner::Planner;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use trimtab_core::{
    Bench, Device, Failure, FailureKind, KernelId, Nanos, Point, Problem, Sample, Space, VariantClass,
};
use trimtab_tune::counting_hangs;
use trimtab_wisdom::Wisdom;

type ThreadsByKernel = FxHashMap<(u16, KernelId), Arc<AtomicU32>>;

/// How many threads hang in kernels that timed out: while one does, its kernel is not started again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hanging(Arc<Mutex<ThreadsByKernel>>);

impl Hanging {
    /// Why a kernel is not started now.
    pub(crate) fn why(&self, device: u16, kernel: KernelId) -> Option<String> {
        let threads = self.0.lock().ok()?.get(&(device, kernel))?.load(Ordering::Relaxed);
        (threads > 0).then(|| "a run of it was given up and still hangs in this process".to_string())
    }

    /// Runs a kernel, unless it hangs.
    pub(crate) fn run<R>(
        &self,
        device: u16,
        kernel: KernelId,
        run: impl FnOnce() -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        if let Some(why) = self.why(device, kernel) {
            return Err(Failure::new(FailureKind::Untried, why));
        }
        let threads = Arc::<AtomicU32>::default();
        let outcome = counting_hangs(&threads, run);
        let late = matches!(&outcome, Err(failure) if failure.kind == FailureKind::TimedOut);
        if let (true, Ok(mut all)) = (late, self.0.lock()) {
            all.insert((device, kernel), threads);
        }
        outcome
    }

    /// Forgets a device that left.
    pub(crate) fn leave(&self, device: u16) {
        if let Ok(mut all) = self.0.lock() {
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

    fn is_foreign(&self, kernel: KernelId) -> bool {
        if in_a_driver(self.device) {
            return true;
        }
        self.device.kernels().get(kernel.0 as usize).is_some_and(|info| is_foreign(info.class))
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
    /// a live call is found out like one that does so in a race. Later calls leave no note, which would cost them too much.
    pub fn first_launch<R>(&self, problem: &Problem, plan: &Plan, run: impl FnOnce() -> R) -> R {
        let Some(device) = self.decider().devices.get(plan.device) else { return run() };
        let Some(info) = device.kernels().get(plan.kernel.0 as usize) else { return run() };
        if !is_foreign(info.class) && !in_a_driver(device.as_ref()) {
            return run();
        }
        let point = device.space(plan.kernel, problem).name(&plan.point);
        noted(self.wisdom(), device.as_ref(), (&info.name, &info.version.0, &point), run)
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
        hanging.run(device, kernel, || self.run_noted(kernel, point, iterations, timeout))
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
