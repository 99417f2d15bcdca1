//! What building a kernel takes is part of a first call's cost: whoever is not built yet carries it in the comparison.
//!
//! A call that would have to wait longer for a kernel to be built than another device needs for it all is answered by that one. The
//! background then builds the faster, and puts it in force: a service pays once and nobody waits, a process of one call never pays.

use crate::decide::{Decider, Deciding};
use crate::event::Event;
use crate::experience::Effort;
use crate::offload::of_device;
use crate::plan::Rival;
use crate::record::Decision;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Mutex;
use trimtab_core::{Condition, Device, KernelId, Nanos, Point, Problem, VariantClass};
use trimtab_wisdom::{Outcome, Wisdom};

/// Built kernels a process keeps in mind; with more it starts over.
const MAX_BUILT: usize = 4096;

/// A sum and of how many.
#[derive(Clone, Copy, Default)]
struct Mean(f64, u32);

impl Mean {
    fn add(&mut self, ns: f64) {
        *self = Mean(self.0 + ns, self.1 + 1);
    }

    fn get(self) -> Option<f64> {
        (self.1 > 0).then(|| self.0 / f64::from(self.1))
    }
}

/// How long kernels of a device took to build.
#[derive(Default)]
struct BuildTimes {
    /// The least of each kernel and point: what a driver built once it often keeps.
    points: FxHashMap<(String, String), f64>,
    kernels: FxHashMap<String, Mean>,
    all: Mean,
}

impl BuildTimes {
    fn add(&mut self, kernel: &str, point: &str, ns: f64) {
        let least = self.points.entry((kernel.to_string(), point.to_string())).or_insert(ns);
        *least = least.min(ns);
        self.kernels.entry(kernel.to_string()).or_default().add(ns);
        self.all.add(ns);
    }

    fn read(wisdom: &Wisdom, device: &dyn Device) -> BuildTimes {
        let mut times = BuildTimes::default();
        for fact in wisdom.device_facts(&device.facts().fingerprint.0) {
            if let (Condition::Compile, Outcome::Timed(stats)) = (&fact.key.condition, &fact.outcome) {
                times.add(&fact.key.kernel, &fact.key.point, stats.min_ns);
            }
        }
        times
    }

    /// Of this point, else of its kernel, else of the device's kernels.
    fn of(&self, rival: &Rival) -> Option<f64> {
        let point = self.points.get(&(rival.name.to_string(), rival.point_name.clone()));
        let kernel = || self.kernels.get(&*rival.name).and_then(|mean| mean.get());
        point.copied().or_else(kernel).or_else(|| self.all.get())
    }
}

/// What is built in this process, and how long building takes.
#[derive(Default)]
pub(crate) struct Builds {
    built: Mutex<FxHashSet<(u16, KernelId, Point)>>,
    times: Mutex<FxHashMap<u16, BuildTimes>>,
}

impl Builds {
    /// Forgets everything but what is built.
    pub(crate) fn clear(&self) {
        if let Ok(mut times) = self.times.lock() {
            times.clear();
        }
    }

    /// Takes in how long a kernel took to build.
    pub(crate) fn took(&self, rival: &Rival, ns: f64) {
        if let Ok(mut times) = self.times.lock()
            && let Some(times) = times.get_mut(&rival.device)
        {
            times.add(&rival.name, &rival.point_name, ns);
        }
    }
}

impl Decider {
    /// A kernel ran, or is about to: from now on it is built.
    pub(crate) fn built(&self, at: u16, kernel: KernelId, point: &Point) {
        let builds = self.devices.get(at).is_some_and(|device| device.facts().habits.first_launch_compiles);
        if let (true, Ok(mut built)) = (builds, self.experience.builds.built.lock()) {
            if built.len() >= MAX_BUILT {
                built.clear();
            }
            built.insert((at, kernel, *point));
        }
    }

    /// How long a kernel is expected to take to build before it can run; nothing if it is built, or if nothing is known.
    fn build_of(&self, rival: &Rival) -> Nanos {
        let builds = &self.experience.builds;
        let device = self.devices.get(rival.device);
        let Some(device) = device.filter(|device| device.facts().habits.first_launch_compiles) else {
            return Nanos(0);
        };
        if builds.built.lock().is_ok_and(|built| built.contains(&(rival.device, rival.kernel, rival.point))) {
            return Nanos(0);
        }
        let Ok(mut times) = builds.times.lock() else { return Nanos(0) };
        let times =
            times.entry(rival.device).or_insert_with(|| BuildTimes::read(&self.wisdom, device.as_ref()));
        Nanos(times.of(rival).unwrap_or(0.0) as u64)
    }
}

impl Rival {
    /// Its score in a call that has to wait until it is built.
    pub(crate) fn rank_now(&self) -> f64 {
        let call = self.call_time().map_or(1.0, |time| time.0.max(1) as f64);
        self.rank() + (1.0 + self.build.0 as f64 / call).log2()
    }
}

impl Decision {
    /// Who would have been chosen, were it built.
    pub(crate) fn awaited(&self) -> Option<&Rival> {
        let awaited = self.events.iter().rev().find_map(|event| match event {
            Event::AwaitsBuild { rival, .. } => Some(*rival),
            _ => None,
        });
        self.rivals.get(awaited?)
    }
}

impl Deciding<'_> {
    /// Whether what building takes counts: a call waits for it, and there is a background that makes good what is left for later.
    fn counts_builds(&self) -> bool {
        let waits = self.ask.defers && self.ask.accept_partial && self.ask.behind.is_none();
        waits && !self.ask.scope.is_alone() && !matches!(self.ask.problem, Problem::Custom(_))
    }

    /// Gives the rivals of a device what building them takes.
    pub(crate) fn add_builds(&mut self, device: u16) {
        if !self.counts_builds() {
            return;
        }
        let its = of_device(&self.record.rivals, device);
        for rival in self.record.rivals[its].iter_mut().filter(|rival| rival.estimate().is_some()) {
            rival.build = self.by.build_of(rival);
        }
    }

    /// Notes that a rival would have been chosen, were it built.
    pub(crate) fn await_build(&mut self, rival: usize) {
        let Rival { build, device_id, .. } = &self.record.rivals[rival];
        let (kernel, device) = (self.record.rivals[rival].label(), device_id.to_string());
        self.record.apply(Event::AwaitsBuild { rival, kernel, device, build_ns: build.0 });
    }

    /// The best of these in a call that is made now; who would be better, were it built, is noted once it is chosen.
    pub(crate) fn best_now(&self, of: impl Iterator<Item = usize>) -> Option<(usize, Option<usize>)> {
        let (all, rivals): (Vec<usize>, &[Rival]) = (of.collect(), &self.record.rivals);
        let least = |rank: &dyn Fn(&Rival) -> f64| {
            all.iter().copied().min_by(|&a, &b| rank(&rivals[a]).total_cmp(&rank(&rivals[b])))
        };
        let (now, later) = (least(&Rival::rank_now)?, least(&Rival::rank)?);
        Some((now, Some(later).filter(|later| *later != now && rivals[*later].build.0 > 0)))
    }

    /// Who answers instead of the winner of an earlier race that would have to be built first: the best of what was measured on devices
    /// that build nothing, if that is sooner done.
    pub(crate) fn sooner_than(&mut self, winner: usize) -> Option<usize> {
        if !self.counts_builds() {
            return None;
        }
        let build = self.by.build_of(&self.record.rivals[winner]);
        self.record.rivals[winner].build = build;
        let built = self.record.rivals[winner].call_time()?.0.saturating_add(build.0);
        if build.0 == 0 {
            return None;
        }
        let mut sooner: Option<(usize, Nanos)> = None;
        for (at, device) in &self.order {
            if device.facts().habits.first_launch_compiles {
                continue;
            }
            let its = of_device(&self.record.rivals, *at);
            let Decider { devices, wisdom, experience, .. } = self.by;
            let (problem, terms) = (&self.ask.problem, &self.ask.terms);
            let rivals = &mut self.record.rivals[its.clone()];
            experience.estimate(devices, wisdom, problem, terms, rivals, Effort::Facts);
            let times = its.filter_map(|index| Some((index, self.record.rivals[index].call_time()?)));
            sooner = sooner.into_iter().chain(times).min_by_key(|(_, time)| *time);
        }
        let (sooner, _) = sooner.filter(|(_, time)| time.0 < built)?;
        (self.record.rivals[sooner].class != VariantClass::Custom || self.verify(sooner)).then_some(sooner)
    }
}
