//! What a report says, gathered once: the text, the JSON and the page are three ways to write it.

use super::speed::{self, SpeedView};
use crate::commands::calibrate::{self, CrossoverView};
use crate::commands::devices::{self, DeviceView};
use crate::commands::quarantine::{self, Barred};
use crate::commands::{CONDITIONS, EstimateView, is_unknown, measured, stats, transfer_view};
use crate::output::printable;
use crate::representative;
use crate::session::Session;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;
use trimtab::advanced::core::{DeviceKind, Operation, Problem};
use trimtab::advanced::plan::calibration::Calibration;
use trimtab::advanced::plan::{Class, Decision, Offload, Profile, Rival, Standing};
use trimtab::{Entry, Runtime};

/// Most problems decided for a report: the typical ones, then those measured last.
const MOST_DECISIONS: usize = 240;
/// Places of a fit that are drawn, from the smallest size to the largest.
const PLACES: usize = 48;

/// A report.
#[derive(Serialize)]
pub(super) struct View {
    pub version: &'static str,
    /// Milliseconds since 1970.
    pub made_ms: u64,
    pub devices: Vec<DeviceView>,
    /// Devices that could not be used, or why nobody looked for them.
    pub unusable: Vec<String>,
    /// Whether there is more than one device to choose from.
    pub choice: bool,
    /// Whether decisions between devices use times of whole calls for some class.
    pub calibrated: bool,
    /// What to run next, where something is missing.
    pub advice: Option<&'static str>,
    /// One a class and device: what a call is expected to cost.
    pub calibration: Vec<CostView>,
    /// One a class: the size from which on another device is used.
    pub thresholds: Vec<ThresholdView>,
    pub offload: OffloadView,
    pub decisions: Vec<DecisionView>,
    /// One a product, device and kernel that was measured.
    pub speeds: Vec<SpeedView>,
    /// What is barred or suspect.
    pub barred: Vec<Barred>,
    /// Problems measured here that are not among the decisions, because there are so many.
    pub decisions_left_out: usize,
    pub stats: stats::StatsView,
    pub wisdom: WisdomView,
    /// What the plots of the page show beside.
    #[serde(skip)]
    pub curves: Vec<Curves>,
}

/// What a class costs on a device.
#[derive(Serialize)]
pub(super) struct CostView {
    /// Where the times come from that the costs were fitted to: `measured`, `imported`, or `built-in` where there are none.
    pub times_from: &'static str,
    /// Its `origin` is what decides: `override` (a threshold that was set), `measured`, `imported` or `built-in`.
    #[serde(flatten)]
    pub row: calibrate::Row,
}

/// From which size on a class is given to another device.
#[derive(Serialize)]
pub(super) struct ThresholdView {
    pub class: &'static str,
    pub unit: &'static str,
    /// `set`, `calibrated` or `costs`: nothing but what each call is expected to take.
    pub source: &'static str,
    /// The variable that sets it.
    pub variable: Option<String>,
    /// The size that was set.
    pub size: Option<u64>,
    /// Where it was calibrated, a crossover for each other device.
    pub crossovers: Vec<(String, CrossoverView)>,
    pub words: String,
}

/// Rules for all classes.
#[derive(Serialize)]
pub(super) struct OffloadView {
    pub off: bool,
    pub small_batch: Option<u64>,
}

/// What a call would do, and why.
#[derive(Serialize)]
pub(super) struct DecisionView {
    pub problem: String,
    pub operation: &'static str,
    pub device: String,
    pub kernel: String,
    pub point: String,
    /// One of ten words: `residency`, `fusion`, `model`, `measured`, `threshold`, `kernels`, `small-batch`, `unsupported`, `constraint`,
    /// `disabled`.
    pub why: &'static str,
    pub reason: &'static str,
    /// How far it is to be trusted: `provisional`, `checked`, `measured` or `settled`.
    pub trust: &'static str,
    pub note: String,
    /// The best kernel of the processor, and of the other devices.
    pub processor: Option<SideView>,
    pub other: Option<SideView>,
    /// Handing over to the best other device, where that alone rules it out.
    pub other_at_least_ns: Option<u64>,
    /// What was measured of the chosen kernel, and in which condition: `quiet`, `busy` or `live`.
    pub measured_ns: Option<f64>,
    pub measured_when: Option<String>,
    pub expected_loss: Option<f64>,
}

/// What a device is expected to take.
#[derive(Serialize)]
pub(super) struct SideView {
    pub device: String,
    /// Empty where the device is known by its calibration only.
    pub kernel: String,
    /// The kernel's time; that of a whole call where a calibration says no more.
    pub estimate: EstimateView,
    /// Moving operands and result; nothing on the processor, absent where only the whole call is known.
    pub transfer_ns: Option<u64>,
}

impl SideView {
    /// A whole call.
    pub fn call_ns(&self) -> f64 {
        self.estimate.ns.saturating_add(self.transfer_ns.unwrap_or(0)) as f64
    }
}

/// What is remembered.
#[derive(Serialize)]
pub(super) struct WisdomView {
    pub dir: Option<String>,
    /// Of all its files.
    pub bytes: Option<u64>,
    pub facts: usize,
    pub verdicts: usize,
    pub warnings: Vec<String>,
}

/// What is drawn of a class.
pub(super) struct Curves {
    pub class: Class,
    pub lines: Vec<Curve>,
}

/// What is drawn of a class on a device.
pub(super) struct Curve {
    pub device: String,
    pub is_host: bool,
    /// Whether the times were seen here or in a file, and not only expected.
    pub seen: bool,
    /// Every repeat, by size.
    pub repeats: Vec<(f64, f64)>,
    /// The time each size is taken to need.
    pub points: Vec<(f64, f64)>,
    pub fit: Vec<(f64, f64)>,
}

impl View {
    /// Gathers everything; no kernel is measured.
    pub fn of(session: &Session, pinned: bool) -> View {
        let runtime = &session.runtime;
        let calibration = runtime.calibration();
        let choice = runtime.planned().count() > 1;
        let calibrated = |class: &Class| {
            let seen = |at: usize| calibration.profile(at, *class).is_some();
            choice && (0..runtime.devices().len()).any(seen) && calibration.is_used(*class)
        };
        let any = Class::ALL.iter().any(calibrated);
        let (problems, decisions_left_out) = problems(runtime);
        let surveyed = |problem: &Problem| {
            let decision = runtime.planner().survey(runtime.explain(problem).ok()?.as_ref());
            Some((decision_view(runtime, problem, &decision)?, speed::of(runtime, problem, &decision)))
        };
        let (decisions, speeds): (Vec<DecisionView>, Vec<Vec<SpeedView>>) =
            problems.iter().filter_map(surveyed).unzip();
        let stats = stats::view(runtime, pinned);
        let expected = calibrate::expected(runtime, true);
        let advice = match (choice, any, stats.facts) {
            (true, false, _) => Some("trimtab calibrate"),
            (_, _, 0) => Some("trimtab tune"),
            _ => None,
        };
        View {
            version: env!("CARGO_PKG_VERSION"),
            made_ms: runtime.wisdom().now_ms(),
            devices: runtime.planned().map(|(_, device)| devices::view(session, device.as_ref())).collect(),
            unusable: runtime.unusable().to_vec(),
            choice,
            calibrated: any,
            advice,
            calibration: costs(runtime, &calibration, &expected),
            thresholds: Class::ALL.iter().map(|class| threshold(runtime, &calibration, *class)).collect(),
            offload: OffloadView { off: rules(runtime).off, small_batch: rules(runtime).small_batch },
            decisions,
            speeds: speeds.into_iter().flatten().collect(),
            barred: quarantine::all(runtime.wisdom()),
            decisions_left_out,
            wisdom: wisdom(runtime, stats.facts, stats.verdicts),
            stats,
            curves: Class::ALL.iter().map(|class| curves(runtime, &calibration, &expected, *class)).collect(),
        }
    }
}

fn rules(runtime: &Runtime) -> &Offload {
    &runtime.planner().settings().offload
}

/// What each class costs on each device: by its times where there are some, else by the built-in model.
fn costs(runtime: &Runtime, calibration: &Calibration, expected: &Calibration) -> Vec<CostView> {
    let mut all = calibrate::rows(runtime, calibration);
    let known: BTreeSet<(&str, String)> = all.iter().map(|row| (row.class, row.device.clone())).collect();
    let rest = calibrate::rows(runtime, expected).into_iter();
    all.extend(rest.filter(|row| !known.contains(&(row.class, row.device.clone()))).map(|row| {
        // Nothing was seen: these are expectations.
        calibrate::Row { origin: "built-in", samples: 0, crossover: None, seen: Vec::new(), ..row }
    }));
    let place = |row: &calibrate::Row| {
        let class = Class::ALL.iter().position(|class| class.name() == row.class);
        (class, runtime.devices().iter().position(|device| device.facts().id == row.device))
    };
    all.sort_by_key(place);
    let choice = runtime.planned().count() > 1;
    let cost = |row: calibrate::Row| {
        let set = Class::parse(row.class).and_then(|class| rules(runtime).threshold(class));
        let origin = match set {
            Some(_) if choice => "override",
            _ if !row.used => "built-in",
            _ => row.origin,
        };
        CostView { times_from: row.origin, row: calibrate::Row { origin, ..row } }
    };
    all.into_iter().map(cost).collect()
}

fn threshold(runtime: &Runtime, calibration: &Calibration, class: Class) -> ThresholdView {
    let rules = rules(runtime);
    let devices = runtime.planned();
    let others = devices.filter(|(_, device)| device.facts().kind != DeviceKind::Cpu);
    let crossovers: Vec<(String, CrossoverView)> = others
        .filter_map(|(at, device)| {
            Some((device.facts().id.clone(), calibration.crossover(at, class)?.into()))
        })
        .collect();
    let set = rules.threshold(class);
    let own = Offload { all: None, ..rules.clone() }.threshold(class);
    let scope = if own.is_some() { class.name() } else { "all" };
    let variable = set.map(|_| format!("TRIMTAB_THRESHOLD_{}", scope.to_uppercase()));
    let source = match set {
        Some(_) => "set",
        None if !crossovers.is_empty() && calibration.is_used(class) => "calibrated",
        None => "costs",
    };
    let words = match (set, &variable) {
        _ if runtime.planned().count() < 2 => "nothing to choose between".to_string(),
        (Some(0), Some(variable)) => format!("everything goes to another device, set by {variable}"),
        (Some(u64::MAX), Some(variable)) => format!("nothing goes to another device, set by {variable}"),
        (Some(size), Some(variable)) => {
            format!("from {} {} on, set by {variable}", calibrate::count(size), class.unit())
        }
        _ if crossovers.is_empty() => "by what each call is expected to take; not calibrated".to_string(),
        _ => {
            let each = crossovers
                .iter()
                .map(|(device, crossover)| format!("{device} {}", calibrate::words(crossover, class.unit())));
            each.collect::<Vec<_>>().join("; ")
        }
    };
    ThresholdView { class: class.name(), unit: class.unit(), source, variable, size: set, crossovers, words }
}

/// The typical problems and those measured on these devices, the latest first; and how many more there are.
fn problems(runtime: &Runtime) -> (Vec<Problem>, usize) {
    let mut problems = representative::problems();
    let mut known: BTreeSet<String> = problems.iter().map(Problem::to_string).collect();
    let own: BTreeSet<&str> = runtime.devices().iter().map(|d| d.facts().fingerprint.0.as_str()).collect();
    let mut facts = runtime.wisdom().all_facts();
    facts.retain(|fact| own.contains(fact.key.device.as_str()));
    facts.sort_by_key(|fact| std::cmp::Reverse(fact.last_seen_ms));
    let mut left_out = 0;
    for fact in facts {
        // What only its program knows cannot be decided here.
        let problem = Problem::parse(&fact.key.problem).ok();
        let problem = problem.filter(|problem| !matches!(problem, Problem::Custom(_)));
        let Some(problem) = problem.filter(|problem| known.insert(problem.to_string())) else { continue };
        if problems.len() < MOST_DECISIONS {
            problems.push(problem);
        } else {
            left_out += 1;
        }
    }
    let place = |problem: &Problem| Operation::ALL.iter().position(|of| *of == problem.operation());
    problems.sort_by_key(|problem| (place(problem), Class::of(problem)));
    (problems, left_out)
}

fn decision_view(runtime: &Runtime, problem: &Problem, decision: &Decision) -> Option<DecisionView> {
    let winner = decision.winner()?;
    let entry = Entry::of(decision);
    let seen = measured(runtime, problem, winner);
    let (measured_ns, measured_when) =
        seen.iter().zip(CONDITIONS).find_map(|(ns, when)| Some((Some((*ns)?), Some(when)))).unzip();
    let processor = side(runtime, decision, true);
    let other = side(runtime, decision, false).or_else(|| calibrated(runtime, problem, decision));
    // Only where that alone is more than the processor takes does it say anything.
    let own = processor.as_ref().map_or(0, |side| side.estimate.ns);
    let transfers = decision.rivals.iter().filter(|rival| !is_host(runtime, rival));
    let least = transfers.map(|rival| rival.transfer.0).filter(|ns| *ns > own && other.is_none()).min();
    Some(DecisionView {
        problem: problem.to_string(),
        operation: problem.operation().name(),
        device: entry.device,
        kernel: winner.name.to_string(),
        point: winner.point_name.clone(),
        why: entry.why.name(),
        reason: decision.reason.name(),
        trust: decision.trust().name(),
        note: entry.note,
        processor,
        other,
        other_at_least_ns: least,
        measured_ns: measured_ns.flatten(),
        measured_when: measured_when.flatten().map(|condition| condition.to_string()),
        expected_loss: decision.expected_loss,
    })
}

fn is_host(runtime: &Runtime, rival: &Rival) -> bool {
    let device = runtime.devices().get(rival.device as usize);
    device.is_some_and(|device| device.facts().kind == DeviceKind::Cpu)
}

/// What a calibration expects of the best other device, where that has put all its kernels out of the running.
fn calibrated(runtime: &Runtime, problem: &Problem, decision: &Decision) -> Option<SideView> {
    let calibration = runtime.calibration();
    let out = |rival: &&Rival| !is_host(runtime, rival) && matches!(rival.standing, Standing::Dominated(_));
    let expected = decision.rivals.iter().filter(out).filter_map(|rival| {
        let estimate = calibration.expected(rival.device as usize, problem)?;
        Some((rival, estimate))
    });
    let (rival, estimate) = expected.min_by_key(|(_, estimate)| estimate.time)?;
    Some(SideView {
        device: rival.device_id.to_string(),
        kernel: String::new(),
        estimate: EstimateView::from(estimate),
        // It is in the time of the whole call.
        transfer_ns: None,
    })
}

/// The best rival of the processor, or of all other devices; what is chosen stands for its side.
fn side(runtime: &Runtime, decision: &Decision, host: bool) -> Option<SideView> {
    let chosen = decision.winner().filter(|winner| is_host(runtime, winner) == host);
    let its = decision.rivals.iter().filter(|rival| is_host(runtime, rival) == host);
    let its = its.filter(|rival| chosen.is_none_or(|chosen| std::ptr::eq(chosen, *rival)));
    let known = its.filter_map(|rival| Some((rival, rival.estimate().filter(|e| !is_unknown(e))?)));
    let (rival, estimate) = known.min_by_key(|(rival, _)| rival.call_time())?;
    Some(SideView {
        device: rival.device_id.to_string(),
        kernel: rival.name.to_string(),
        estimate: EstimateView::from(estimate),
        transfer_ns: transfer_view(runtime, rival),
    })
}

fn wisdom(runtime: &Runtime, facts: usize, verdicts: usize) -> WisdomView {
    let dir = runtime.wisdom().dir();
    WisdomView {
        bytes: dir.as_deref().map(size_of_dir),
        dir: dir.map(|dir| dir.display().to_string()),
        facts,
        verdicts,
        warnings: runtime.wisdom().warnings().iter().map(|warning| printable(&warning.to_string())).collect(),
    }
}

/// The bytes of the files in a directory and its folders; what cannot be read counts nothing.
fn size_of_dir(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => size_of_dir(&entry.path()),
        Ok(facts) => facts.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

fn curves(runtime: &Runtime, calibration: &Calibration, expected: &Calibration, class: Class) -> Curves {
    let line = |(at, device): (usize, &std::sync::Arc<dyn trimtab::Device>)| {
        let profile = calibration.profile(at, class);
        let steps = calibration.times(at).and_then(|times| times.steps.get(&class));
        let steps = steps.into_iter().flatten();
        let all = |step: &trimtab::advanced::plan::Rung| {
            let size = step.size as f64;
            step.ns.iter().map(|ns| (size, *ns)).collect::<Vec<_>>()
        };
        Some(Curve {
            device: device.facts().id.clone(),
            is_host: device.facts().kind == DeviceKind::Cpu,
            seen: profile.is_some(),
            repeats: steps.clone().flat_map(all).collect(),
            points: steps.filter_map(|step| Some((step.size as f64, step.time()?))).collect(),
            fit: drawn(profile.or_else(|| expected.profile(at, class))?),
        })
    };
    Curves { class, lines: runtime.planned().filter_map(line).collect() }
}

/// What a fit says, evenly spread over the sizes it rests on.
fn drawn(profile: &Profile) -> Vec<(f64, f64)> {
    let (from, to) = profile.range();
    let (from, to) = ((from.max(1) as f64).log2(), (to.max(1) as f64).log2());
    let at = |nth: usize| (from + (to - from) * nth as f64 / (PLACES - 1) as f64).exp2();
    (0..PLACES).map(at).map(|size| (size, profile.at(size.round() as u64))).collect()
}
