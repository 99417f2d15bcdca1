//! What is known about times: facts of this very problem, fits over other problems, the analytic prior.

use crate::bans::{Bans, is_over};
use crate::build::Builds;
use crate::devices::{Devices, Scope};
use crate::field;
use crate::guard::Hanging;
use crate::objective::{is_extraordinary, is_implausible};
use crate::plan::{Rival, Standing};
use crate::remembered::{Remembered, believed, is_beside, mischief};
use crate::training::{Belief, Label, TrainingTables};
use rustc_hash::{FxHashMap, FxHashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use trimtab_core::{
    Basis, Condition, DType, Device, Estimate, Failure, FailureKind, KernelId, Nanos, Operation, Point,
    Problem, Rates, Space, Terms,
};
use trimtab_model::{Fit, Observation, features, roofline};
use trimtab_wisdom::{Outcome, Stats, Wisdom};

/// Observations of one kernel a fit is made from; the newest count.
const MAX_OBSERVATIONS: usize = 256;
/// Parts measurements are split into where predictions are judged, and the fewest of a kernel that are.
const FOLDS: usize = 4;
const FEWEST_FORETOLD: usize = 8;
/// The most by which rates are believed to flatter, in doublings.
const MOST_OPTIMISM: f64 = 4.0;
/// Failures of launches this process keeps in mind beside wisdom; with more it starts over.
const MAX_FAILED: usize = 4096;
/// Points that lied kept in mind; more are found out by their next check.
const MAX_LIARS: usize = 16_384;

/// The least that handing work to a helper is believed to cost on the processor; 1 to 2 µs were measured where it was awake.
const HANDED_OVER: Nanos = Nanos(2_000);

/// How far estimating may go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Only what was measured of this very problem.
    Facts,
    /// The model too.
    Model,
    /// The model too, and earlier time-outs are not held against anyone.
    Tune,
}

type FailedKey = (Problem, u16, KernelId, Point);
type KernelKey = (KernelId, Option<DType>);

#[derive(Default)]
struct Known {
    observations: Vec<Observation>,
    fit: Option<Option<Arc<Fit>>>,
}

/// What was learned of other problems, per kernel. Filled from wisdom when first needed, then kept up to date.
#[derive(Default)]
pub(crate) struct Experience {
    /// By device, for those that were asked about: reading one's facts asks for its rates, which a GPU nobody uses should
    /// not have to measure.
    known: Mutex<FxHashMap<u16, FxHashMap<KernelKey, Known>>>,
    /// Points that lied on any problem: (device, kernel, point name) → what they did.
    liars: Mutex<FxHashMap<(u16, KernelId, String), String>>,
    /// Rivals that failed in this process. Wisdom alone does not hold them back: a process whose clock is ahead may have
    /// timed them later.
    failed: Mutex<FxHashMap<FailedKey, (Failure, Nanos)>>,
    /// Kernels and devices that are left alone for a while.
    pub bans: Bans,
    /// What was learned of which rival is fastest.
    pub training: TrainingTables,
    /// What is built, and how long building takes.
    pub builds: Builds,
    /// Kernels whose threads hang now.
    pub hanging: Hanging,
    /// Kernels that did not finish in time somewhere.
    hung: Mutex<FxHashSet<(u16, KernelId)>>,
}

impl Experience {
    /// Forgets everything; wisdom is read again when needed.
    pub(crate) fn clear(&self) {
        if let Ok(mut known) = self.known.lock() {
            known.clear();
        }
        self.training.clear();
        self.builds.clear();
        self.bans.clear();
        if let Ok(mut liars) = self.liars.lock() {
            liars.clear();
        }
        if let Ok(mut hung) = self.hung.lock() {
            hung.clear();
        }
        if let Ok(mut failed) = self.failed.lock() {
            failed.clear();
        }
    }

    /// Forgets a device that left: another may take its place.
    pub(crate) fn leave(&self, device: u16) {
        if let Ok(mut known) = self.known.lock() {
            known.remove(&device);
        }
        if let Ok(mut liars) = self.liars.lock() {
            liars.retain(|key, _| key.0 != device);
        }
        if let Ok(mut hung) = self.hung.lock() {
            hung.retain(|key| key.0 != device);
        }
        if let Ok(mut failed) = self.failed.lock() {
            failed.retain(|key, _| key.1 != device);
        }
        self.training.leave(device);
        self.hanging.leave(device);
        self.bans.leave(device);
    }

    /// Remembers that a rival failed on a problem.
    pub(crate) fn note_failure(&self, problem: &Problem, rival: &Rival, what: &Failure) {
        if let Ok(mut failed) = self.failed.lock() {
            if failed.len() >= MAX_FAILED {
                failed.clear();
            }
            let entry = (what.clone(), self.bans.now());
            failed.insert((*problem, rival.device, rival.kernel, rival.point), entry);
        }
    }

    /// Why a rival does not run on a problem in this process: it hangs, or it failed there. Who tunes gives it more time.
    fn failed(&self, problem: &Problem, rival: &Rival, effort: Effort) -> Option<String> {
        if let Some(why) = self.hanging.why(rival.device, rival.kernel) {
            return Some(why);
        }
        if let Some(why) = self.bans.why(rival) {
            return Some(why);
        }
        let failed = self.failed.lock().ok()?;
        let (failure, since) = failed.get(&(*problem, rival.device, rival.kernel, rival.point))?;
        let holds =
            !self.bans.is_past(*since) && (failure.kind != FailureKind::TimedOut || effort != Effort::Tune);
        holds.then(|| failure.to_string())
    }

    /// Whether a rival did not finish in time on a problem, in this process.
    pub(crate) fn was_late(&self, problem: &Problem, rival: &Rival) -> bool {
        let key = (*problem, rival.device, rival.kernel, rival.point);
        let failed = self.failed.lock().ok();
        failed.and_then(|failed| Some(failed.get(&key)?.0.kind)) == Some(FailureKind::TimedOut)
    }

    /// Remembers that a kernel did not finish in time.
    pub(crate) fn note_hang(&self, device: u16, kernel: KernelId) {
        if let Ok(mut hung) = self.hung.lock() {
            hung.insert((device, kernel));
        }
    }

    /// The least time a rival that was never measured can take: its work at the device's full rates.
    pub(crate) fn least(&self, devices: &Devices, problem: &Problem, rival: &Rival) -> Option<Nanos> {
        let device = devices.get(rival.device)?;
        let rates = device.rates();
        // Where a helper came late when that was measured, as beside busy processes, it may come in time now.
        let on_host = device.facts().habits.host_memory;
        let launch = if on_host { rates.launch.min(HANDED_OVER) } else { rates.launch };
        // Half of it: caches may serve what is counted as memory traffic.
        at(&Rates { launch, ..rates }, problem, rival).map(|time| Nanos(time.0 / 2))
    }

    /// The time of a rival's work at the device's full rates, if it tells its work.
    pub(crate) fn at_roofline(&self, devices: &Devices, problem: &Problem, rival: &Rival) -> Option<Nanos> {
        at(&devices.get(rival.device)?.rates(), problem, rival)
    }

    /// Why a point must not run on any problem.
    pub(crate) fn lied(&self, rival: &Rival) -> Option<String> {
        let liars = self.liars.lock().ok()?;
        if liars.is_empty() {
            return None;
        }
        liars.get(&(rival.device, rival.kernel, rival.point_name.clone())).cloned()
    }

    /// Remembers that a point gave a wrong result.
    pub(crate) fn note_lie(&self, rival: &Rival, what: String) {
        self.lies((rival.device, rival.kernel, rival.point_name.clone()), what);
    }

    fn lies(&self, who: (u16, KernelId, String), what: String) {
        if let Ok(mut liars) = self.liars.lock()
            && (liars.len() < MAX_LIARS || liars.contains_key(&who))
        {
            liars.insert(who, what);
        }
    }

    /// Takes in one more measurement.
    pub(crate) fn note_time(
        &self,
        devices: &Devices,
        problem: &Problem,
        rival: &Rival,
        stats: &Stats,
        at_ms: u64,
    ) {
        if let (Ok(mut known), Some(device)) = (self.known.lock(), devices.get(rival.device))
            && let Some(known) = known.get_mut(&rival.device)
        {
            add(known, device.as_ref(), rival.kernel, problem, &rival.point, stats.min_ns);
            let told = Label::new(stats, Belief::Quiet, at_ms);
            self.training.note(rival.device, problem, (rival.kernel, rival.point), told);
        }
    }

    /// An estimate from other problems of the same kernel, or from its work alone; nothing for a kernel that says nothing
    /// about its work, or never finished, and was not measured anywhere.
    fn by_others(&self, problem: &Problem, rival: &Rival, rates: &Rates) -> Option<Estimate> {
        let roof = roofline(&rival.work, problem.dtype().map_or(4, DType::size), rates);
        let Ok(mut known) = self.known.lock() else { return None };
        let entry =
            known.get_mut(&rival.device).and_then(|known| known.get_mut(&(rival.kernel, problem.dtype())));
        if let Some(entry) = entry {
            let fit = entry.fit.get_or_insert_with(|| Fit::new(&entry.observations).map(Arc::new));
            if let Some(fit) = fit {
                return Some(fit.predict(&rival.work, &roof, &features(problem, &rival.point)));
            }
        }
        let hung = self.hung.lock().is_ok_and(|hung| hung.contains(&(rival.device, rival.kernel)));
        (!hung && !is_unknown(&rival.work)).then(|| roof.estimate())
    }

    /// What each measurement of kernels of an operation would have been expected to take by fits to the others, a quarter of them left
    /// out at a time, beside what it took.
    pub(crate) fn foretold(
        &self,
        device: &dyn Device,
        index: u16,
        is_asked: &dyn Fn(Operation) -> bool,
    ) -> Vec<(Estimate, f64)> {
        let Ok(known) = self.known.lock() else { return Vec::new() };
        let mut pairs = Vec::new();
        for ((kernel, _), known) in known.get(&index).into_iter().flatten() {
            let info = device.kernels().get(kernel.0 as usize);
            let enough = known.observations.len() >= FEWEST_FORETOLD;
            if !enough || !info.is_some_and(|info| is_asked(info.operation)) {
                continue;
            }
            for fold in 0..FOLDS {
                let part = |own: bool| {
                    let all = known.observations.iter().enumerate();
                    all.filter(move |(nth, _)| (nth % FOLDS == fold) == own).map(|(_, seen)| *seen)
                };
                let Some(fit) = Fit::new(&part(false).collect::<Vec<_>>()) else { continue };
                let expected = |seen: &Observation| fit.predict(&seen.work, &seen.roofline, &seen.sizes);
                pairs.extend(part(true).map(|seen| (expected(&seen), seen.measured_ns)));
            }
        }
        pairs
    }

    /// Reads wisdom about a device if that was not done yet. No lock is held meanwhile: device and kernels are asked.
    pub(crate) fn load(&self, devices: &Devices, index: u16, wisdom: &Wisdom) {
        let missing = self.known.lock().is_ok_and(|known| !known.contains_key(&index));
        if let (true, Some(device)) = (missing, devices.get(index)) {
            let read = self.read(device.as_ref(), index, wisdom);
            if let Ok(mut known) = self.known.lock() {
                known.entry(index).or_insert(read);
            }
        }
    }

    fn read(&self, device: &dyn Device, index: u16, wisdom: &Wisdom) -> FxHashMap<KernelKey, Known> {
        let (mut known, now_ms) = (FxHashMap::default(), wisdom.now_ms());
        let mut facts = wisdom.device_facts(&device.facts().fingerprint.0);
        facts.sort_by(|a, b| (a.last_seen_ms, &a.key).cmp(&(b.last_seen_ms, &b.key)));
        let kernels = device.kernels();
        let numbers: FxHashMap<&str, usize> =
            kernels.iter().enumerate().map(|(number, info)| (info.name.as_str(), number)).collect();
        // A kernel's axes are the same for every problem, so one space per kernel reads all its points.
        let mut axes: FxHashMap<KernelId, Space> = FxHashMap::default();
        for fact in &facts {
            let Some(&number) = numbers.get(&*fact.key.kernel) else { continue };
            if *kernels[number].version.0 != *fact.key.version {
                continue;
            }
            let kernel = KernelId(number as u32);
            let is_suspect = fact.key.condition == Condition::Suspect;
            match &fact.outcome {
                Outcome::Failed { kind, .. } if is_over(*kind, fact.last_seen_ms, now_ms) => (),
                // It ran when a process died, perhaps of something else.
                Outcome::Failed { kind: FailureKind::Crashed, .. } if is_suspect => (),
                Outcome::Failed { kind: kind @ (FailureKind::Wrong | FailureKind::Crashed), message } => {
                    let key = (index, kernel, fact.key.point.to_string());
                    self.lies(key, mischief(*kind, &fact.key.problem, message));
                }
                Outcome::Failed { kind: FailureKind::TimedOut, .. } => self.note_hang(index, kernel),
                Outcome::Failed { .. } => (),
                // What building took says nothing about running; explored calls are live calls, and counted there.
                Outcome::Timed(_) if fact.key.condition != Condition::Live && is_beside(fact) => (),
                Outcome::Timed(stats) => {
                    let Ok(problem) = Problem::parse(&fact.key.problem) else { continue };
                    if problem.operation() != kernels[number].operation {
                        continue;
                    }
                    let space = axes.entry(kernel).or_insert_with(|| device.space(kernel, &problem));
                    let Some(point) = space.read(&fact.key.point) else { continue };
                    if !add(&mut known, device, kernel, &problem, &point, stats.min_ns) {
                        continue;
                    }
                    // Live calls time what is in force under whatever the caller does: not a comparison.
                    let belief = match fact.key.condition {
                        Condition::Live => continue,
                        Condition::Quiet => Belief::Quiet,
                        _ => Belief::Busy,
                    };
                    let told = Label::new(stats, belief, fact.last_seen_ms);
                    self.training.note(index, &problem, (kernel, point), told);
                }
            }
        }
        known
    }

    /// The identity of the set of rivals that nothing in wisdom speaks against on this problem.
    pub(crate) fn signature(
        &self,
        devices: &Devices,
        scope: &Scope,
        wisdom: &Wisdom,
        problem: &Problem,
        rivals: &[Rival],
    ) -> u64 {
        let text = problem.to_string();
        let devices = devices.within(scope);
        let known: FxHashMap<u16, Remembered> = devices
            .iter()
            .map(|(at, device)| (*at, Remembered::new(wisdom, device.as_ref(), &text)))
            .collect();
        field::signature(&devices, rivals, |rival| {
            known.get(&rival.device).is_some_and(|known| {
                known.crashed(rival).is_some() || matches!(known.believed(rival), Some(Err(_)))
            })
        })
    }

    /// Gives every rival of a device that is not out for good its estimate, or puts it out with the reason.
    pub(crate) fn estimate(
        &self,
        devices: &Devices,
        wisdom: &Wisdom,
        problem: &Problem,
        terms: &Terms,
        rivals: &mut [Rival],
        effort: Effort,
    ) {
        let Some(at) = rivals.first().map(|rival| rival.device) else { return };
        let Some(device) = devices.get(at) else { return };
        if effort != Effort::Facts {
            // Before the first rival is looked at: who lied on another problem is in there.
            self.load(devices, at, wisdom);
        }
        let known = Remembered::new(wisdom, device.as_ref(), &problem.to_string());
        // What is remembered alone costs no rates, unless it is out of the ordinary.
        let out_of_reach = |rival: &Rival, ns: f64| {
            let asks = effort != Effort::Facts || is_extraordinary(&rival.work, ns);
            asks && is_implausible(&rival.work, problem, ns, &device.rates())
        };
        // Asked for once, and only if a rival needs them.
        let mut rates: Option<Rates> = None;
        for rival in rivals {
            if rival.is_barred() {
                continue;
            }
            // Who answers when nobody else can is the processor's; that of another device may fail and lie as others do.
            let is_reference = rival.is_reference() && device.facts().habits.host_memory;
            if let (false, Some(why)) = (is_reference, known.crashed(rival)) {
                rival.standing = Standing::Quarantined(why);
                continue;
            }
            let out = || self.lied(rival).or_else(|| self.failed(problem, rival, effort));
            if let (false, Some(what)) = (is_reference, out()) {
                rival.standing = Standing::Quarantined(what);
                continue;
            }
            let mut model = || match effort {
                Effort::Facts => None,
                Effort::Model | Effort::Tune => {
                    let rates = rates.get_or_insert_with(|| device.rates());
                    self.by_others(problem, rival, rates)
                }
            };
            if effort != Effort::Facts
                && let Some(what) = known.forgiven(rival)
            {
                self.bans.let_back(rival.label(), what);
            }
            let believed = match effort {
                // What is remembered alone decides the same at all times.
                Effort::Facts => believed(known.of(rival), None),
                _ => known.believed(rival),
            };
            let doubted = match &believed {
                Some(Ok((estimate, _))) => {
                    Some(estimate.time).filter(|time| out_of_reach(rival, time.0 as f64))
                }
                _ => None,
            };
            let believed = believed.filter(|_| doubted.is_none());
            rival.standing = match believed {
                // What was too slow for a small budget gets another chance under a larger one.
                Some(Err((FailureKind::TimedOut, _))) if effort == Effort::Tune => match model() {
                    Some(estimate) => self.standing(rival, terms, estimate),
                    None => Standing::Unconsidered,
                },
                Some(Err((kind, message))) if !is_reference => {
                    Standing::Quarantined(format!("{}: {message}", kind.name()))
                }
                Some(Ok((estimate, energy))) => {
                    rival.energy_uj = energy;
                    self.standing(rival, terms, estimate)
                }
                _ => match model() {
                    Some(estimate) => self.standing(rival, terms, estimate),
                    None => Standing::Unconsidered,
                },
            };
            rival.implausible = doubted;
        }
    }

    /// How much longer than by a device's rates alone its kernels take, in doublings: rates are what it does at best, and whoever was
    /// never measured would win by that alone. Nothing where all were measured, or nobody.
    pub(crate) fn optimism(&self, device: &dyn Device, problem: &Problem, rivals: &[Rival]) -> f64 {
        let is_analytic = |estimate: Estimate| estimate.basis == Basis::Analytic;
        if !rivals.iter().filter_map(Rival::estimate).any(is_analytic) {
            return 0.0;
        }
        let (size, rates) = (problem.dtype().map_or(4, DType::size), device.rates());
        let known = rivals.iter().filter_map(|rival| Some((rival, rival.estimate()?)));
        let mut factors: Vec<f64> = known
            .filter(|(rival, estimate)| !is_analytic(*estimate) && !is_unknown(&rival.work))
            .map(|(rival, estimate)| estimate.time.0 as f64 / roofline(&rival.work, size, &rates).total_ns())
            .map(f64::log2)
            .filter(|factor| factor.is_finite())
            .collect();
        factors.sort_by(f64::total_cmp);
        factors.get(factors.len() / 2).map_or(0.0, |typical| typical.clamp(0.0, MOST_OPTIMISM))
    }

    /// In the running with that estimate, unless the expected time breaks a limit.
    pub(crate) fn standing(&self, rival: &Rival, terms: &Terms, estimate: Estimate) -> Standing {
        let call = Nanos(estimate.time.0.saturating_add(rival.transfer.0));
        match terms.constraints.excludes(&rival.work, Some(call)) {
            Some(reason) => Standing::Excluded(reason),
            None => Standing::Estimated {
                estimate,
                score: terms.objective.score(call.0 as f64, rival.work.scratch, rival.energy_uj),
            },
        }
    }
}

/// Takes in a time, unless its device cannot be that fast: whether it did.
fn add(
    known: &mut FxHashMap<KernelKey, Known>,
    device: &dyn Device,
    kernel: KernelId,
    problem: &Problem,
    point: &Point,
    ns: f64,
) -> bool {
    let (work, rates) = (device.work(kernel, problem, point), device.rates());
    if is_implausible(&work, problem, ns, &rates) {
        return false;
    }
    let entry = known.entry((kernel, problem.dtype())).or_default();
    if entry.observations.len() >= MAX_OBSERVATIONS {
        entry.observations.remove(0);
    }
    let roofline = roofline(&work, problem.dtype().map_or(4, DType::size), &rates);
    let sizes = features(problem, point);
    entry.observations.push(Observation { work, roofline, measured_ns: ns, sizes });
    entry.fit = None;
    true
}

/// Keeps one more; with too many it starts over.
pub(crate) fn insert_within<V: Eq + Hash>(set: &mut FxHashSet<V>, one: V, most: usize) {
    if set.len() >= most {
        set.clear();
    }
    set.insert(one);
}

/// Whether a kernel says nothing about what it does: then no time follows from its work.
fn is_unknown(work: &trimtab_core::Work) -> bool {
    work.flops.0 == 0 && work.bytes.0 == 0
}
/// The time of a rival's work at these rates, if it tells its work.
fn at(rates: &Rates, problem: &Problem, rival: &Rival) -> Option<Nanos> {
    let roof = roofline(&rival.work, problem.dtype().map_or(4, DType::size), rates);
    (!is_unknown(&rival.work)).then(|| roof.estimate().time)
}
