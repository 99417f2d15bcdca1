//! What is known about times: facts of this very problem, fits over other problems, the analytic prior.

use crate::plan::{Rival, Standing};
use rustc_hash::FxHashMap;
use std::sync::{Arc, Mutex};
use trimtab_core::{
    Basis, DType, Device, Estimate, FailureKind, KernelId, Nanos, Point, Problem, Space, Terms,
};
use trimtab_model::{Fit, Observation, features, roofline};
use trimtab_wisdom::{Fact, Outcome, Stats, Wisdom};

/// Observations of one kernel a fit is made from; the newest count.
const MAX_OBSERVATIONS: usize = 256;
/// Conditions of facts in the order they are believed.
const CONDITIONS: [&str; 3] = ["quiet", "busy", LIVE];
/// The condition of facts from live calls: operands and caches as the caller had them.
pub(crate) const LIVE: &str = "live";

type KernelKey = (u16, KernelId, Option<DType>);

#[derive(Default)]
struct Known {
    observations: Vec<Observation>,
    fit: Option<Option<Arc<Fit>>>,
}

/// What was learned of other problems, per kernel. Filled from wisdom when first needed, then kept up to date.
#[derive(Default)]
pub(crate) struct Experience {
    known: Mutex<Option<FxHashMap<KernelKey, Known>>>,
    /// Points that lied on any problem: (device, kernel, point name) → what they did.
    liars: Mutex<FxHashMap<(u16, KernelId, String), String>>,
}

impl Experience {
    /// Forgets everything; wisdom is read again when needed.
    pub(crate) fn clear(&self) {
        if let Ok(mut known) = self.known.lock() {
            *known = None;
        }
        if let Ok(mut liars) = self.liars.lock() {
            liars.clear();
        }
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
        if let Ok(mut liars) = self.liars.lock() {
            liars.insert((rival.device, rival.kernel, rival.point_name.clone()), what);
        }
    }

    /// Takes in one more measurement.
    pub(crate) fn note_time(&self, devices: &[Arc<dyn Device>], problem: &Problem, rival: &Rival, ns: f64) {
        if let (Ok(mut known), Some(device)) = (self.known.lock(), devices.get(rival.device as usize))
            && let Some(known) = known.as_mut()
        {
            add(known, device.as_ref(), rival.device, rival.kernel, problem, &rival.point, ns);
        }
    }

    /// An estimate from other problems of the same kernel, or from its work alone.
    fn by_others(
        &self,
        devices: &[Arc<dyn Device>],
        wisdom: &Wisdom,
        problem: &Problem,
        rival: &Rival,
    ) -> Estimate {
        let device = &devices[rival.device as usize];
        let roof = roofline(&rival.work, problem.dtype().map_or(4, DType::size), &device.rates());
        let prior = roof.estimate();
        let Ok(mut known) = self.known.lock() else { return prior };
        let known = known.get_or_insert_with(|| self.read(devices, wisdom));
        let Some(entry) = known.get_mut(&(rival.device, rival.kernel, problem.dtype())) else { return prior };
        let fit = entry.fit.get_or_insert_with(|| Fit::new(&entry.observations).map(Arc::new));
        match fit {
            Some(fit) => fit.predict(&rival.work, &roof, &features(problem, &rival.point)),
            None => prior,
        }
    }

    fn read(&self, devices: &[Arc<dyn Device>], wisdom: &Wisdom) -> FxHashMap<KernelKey, Known> {
        let mut known = FxHashMap::default();
        for (index, device) in devices.iter().enumerate() {
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
                match &fact.outcome {
                    Outcome::Failed { kind: FailureKind::Wrong, message } => {
                        if let Ok(mut liars) = self.liars.lock() {
                            let key = (index as u16, kernel, fact.key.point.to_string());
                            liars.insert(key, format!("wrong result on {}: {message}", fact.key.problem));
                        }
                    }
                    Outcome::Failed { .. } => (),
                    Outcome::Timed(stats) => {
                        let Ok(problem) = Problem::parse(&fact.key.problem) else { continue };
                        if problem.operation() != kernels[number].operation {
                            continue;
                        }
                        let space = axes.entry(kernel).or_insert_with(|| device.space(kernel, &problem));
                        let Some(point) = space.read(&fact.key.point) else { continue };
                        add(
                            &mut known,
                            device.as_ref(),
                            index as u16,
                            kernel,
                            &problem,
                            &point,
                            stats.min_ns,
                        );
                    }
                }
            }
        }
        known
    }

    /// Gives every rival that is not out for good its estimate, or puts it out with the reason.
    pub(crate) fn estimate(
        &self,
        devices: &[Arc<dyn Device>],
        wisdom: &Wisdom,
        problem: &Problem,
        terms: &Terms,
        rivals: &mut [Rival],
        with_model: bool,
    ) {
        let text = problem.to_string();
        let facts: Vec<FxHashMap<(String, String, String), Vec<Fact>>> =
            devices.iter().map(|device| facts_by_rival(wisdom, device.as_ref(), &text)).collect();
        let crashed: Vec<FxHashMap<KernelId, Vec<String>>> =
            devices.iter().map(|device| crashed(wisdom, device.as_ref())).collect();
        for rival in rivals {
            if matches!(rival.standing, Standing::Declined(_) | Standing::Excluded(_)) {
                continue;
            }
            let device = rival.device as usize;
            let key = (rival.name.to_string(), rival.version.to_string(), rival.point_name.clone());
            let facts = facts[device].get(&key).map_or(&[][..], Vec::as_slice);
            let is_reference = rival.class == trimtab_core::VariantClass::Reference;
            let points = crashed[device].get(&rival.kernel);
            if points.is_some_and(|points| points.contains(&rival.point_name)) && !is_reference {
                let advice = format!("`trimtab wisdom forget --kernel {}` lifts this", rival.name);
                rival.standing = Standing::Quarantined(format!("a process died while it ran; {advice}"));
                continue;
            }
            if let Some(what) = self.lied(rival).filter(|_| !is_reference) {
                rival.standing = Standing::Quarantined(what);
                continue;
            }
            rival.standing = match believed(facts) {
                Some(Err(failure)) if !is_reference => Standing::Quarantined(failure),
                Some(Ok((estimate, energy))) => {
                    rival.energy_uj = energy;
                    self.standing(rival, terms, estimate)
                }
                _ if with_model => {
                    let estimate = self.by_others(devices, wisdom, problem, rival);
                    self.standing(rival, terms, estimate)
                }
                _ => Standing::Unconsidered,
            };
        }
    }

    /// In the running with that estimate, unless the expected time breaks a limit.
    pub(crate) fn standing(&self, rival: &Rival, terms: &Terms, estimate: Estimate) -> Standing {
        match terms.constraints.excludes(&rival.work, Some(estimate.time)) {
            Some(reason) => Standing::Excluded(reason),
            None => Standing::Estimated {
                estimate,
                score: terms.objective.score(estimate.time.0 as f64, rival.work.scratch, rival.energy_uj),
            },
        }
    }
}

fn add(
    known: &mut FxHashMap<KernelKey, Known>,
    device: &dyn Device,
    index: u16,
    kernel: KernelId,
    problem: &Problem,
    point: &Point,
    ns: f64,
) {
    let entry = known.entry((index, kernel, problem.dtype())).or_default();
    let work = device.work(kernel, problem, point);
    if entry.observations.len() >= MAX_OBSERVATIONS {
        entry.observations.remove(0);
    }
    let roofline = roofline(&work, problem.dtype().map_or(4, DType::size), &device.rates());
    let sizes = features(problem, point);
    entry.observations.push(Observation { work, roofline, measured_ns: ns, sizes });
    entry.fit = None;
}

fn facts_by_rival(
    wisdom: &Wisdom,
    device: &dyn Device,
    problem: &str,
) -> FxHashMap<(String, String, String), Vec<Fact>> {
    let mut map: FxHashMap<(String, String, String), Vec<Fact>> = FxHashMap::default();
    for fact in wisdom.facts(&device.facts().fingerprint.0, problem) {
        let key = (fact.key.kernel.to_string(), fact.key.version.to_string(), fact.key.point.to_string());
        map.entry(key).or_default().push(fact);
    }
    map
}

fn crashed(wisdom: &Wisdom, device: &dyn Device) -> FxHashMap<KernelId, Vec<String>> {
    let fingerprint = &device.facts().fingerprint.0;
    let kernels = device.kernels().iter().enumerate();
    kernels
        .map(|(number, info)| {
            (KernelId(number as u32), wisdom.crashed(fingerprint, &info.name, &info.version.0))
        })
        .filter(|(_, points)| !points.is_empty())
        .collect()
}

/// The most believable fact: a time, or a failure that is newer than every time.
#[expect(clippy::type_complexity, reason = "read once, right below")]
fn believed(facts: &[Fact]) -> Option<Result<(Estimate, Option<f64>), String>> {
    let newest = facts.iter().max_by_key(|fact| fact.last_seen_ms)?;
    if let Outcome::Failed { kind, message } = &newest.outcome {
        return Some(Err(format!("{}: {message}", kind.name())));
    }
    let timed = |condition: &&str| {
        facts.iter().find_map(|fact| match &fact.outcome {
            Outcome::Timed(stats) if *fact.key.condition == **condition => Some(stats),
            _ => None,
        })
    };
    let stats = CONDITIONS.iter().find_map(timed)?;
    Some(Ok((estimate_of(stats), stats.energy_uj)))
}

/// A measured estimate: the minimum, with the relative spread of the samples.
pub(crate) fn estimate_of(stats: &Stats) -> Estimate {
    let deviation = stats.variance().unwrap_or(0.0).max(0.0).sqrt();
    let relative = if stats.mean() > 0.0 { deviation / stats.mean() } else { 0.0 };
    Estimate {
        time: Nanos(stats.min_ns.max(1.0) as u64),
        spread_log2: (1.0 + relative).log2(),
        basis: Basis::Measured(u32::try_from(stats.n).unwrap_or(u32::MAX)),
    }
}
