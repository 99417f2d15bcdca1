//! Writes down the intent before foreign code runs for the first time, so that a crash is not repeated.

use crate::plan::Rival;
use rustc_hash::{FxHashMap, FxHashSet};
use trimtab_core::{Bench, Device, Failure, KernelId, Nanos, Point, Problem, Sample, Space, VariantClass};
use trimtab_wisdom::Wisdom;

/// A bench that leaves a note before a library's or a user's kernel first runs.
pub struct Guarded<'a> {
    bench: Box<dyn Bench + 'a>,
    wisdom: &'a Wisdom,
    device: &'a dyn Device,
    problem: Problem,
    started: FxHashSet<(KernelId, Point)>,
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
        Guarded { bench, wisdom, device, problem, started: FxHashSet::default(), axes: FxHashMap::default() }
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
    let fingerprint = &device.facts().fingerprint.0;
    wisdom.intend(fingerprint, &rival.name, &rival.version.0, &rival.point_name);
    let outcome = run();
    wisdom.done(fingerprint, &rival.name, &rival.version.0, &rival.point_name);
    outcome
}

impl Bench for Guarded<'_> {
    fn run(
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
        let fingerprint = &self.device.facts().fingerprint.0;
        let axes = self.axes.entry(kernel).or_insert_with(|| {
            Space::new(self.device.space(kernel, &self.problem).axes().to_vec(), Vec::new())
        });
        let name = axes.name(point);
        self.wisdom.intend(fingerprint, &info.name, &info.version.0, &name);
        let outcome = self.bench.run(kernel, point, iterations, timeout);
        self.wisdom.done(fingerprint, &info.name, &info.version.0, &name);
        outcome
    }
}
