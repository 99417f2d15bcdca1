//! `trimtab calibrate`: what whole calls take on each device by size, from which size on a GPU is faster, and what that changes.

mod import;

use crate::args::Calibrate;
use crate::interrupt;
use crate::output::{counted, time, times};
use crate::progress::{Bar, HowLong};
use crate::session::{Session, warn};
use crate::table::Table;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;
use trimtab::advanced::core::DeviceKind;
use trimtab::advanced::plan::calibration::{Before, Calibration, DeviceTimes, Ladder, contested};
use trimtab::advanced::plan::{Class, Crossover, Profile, Rung};
use trimtab::{Nanos, Runtime};

/// Times each size is measured on each device.
const ROUNDS: u32 = 5;
const ROUNDS_QUICK: u32 = 3;
/// Calls of each size before those that count.
const WARM_CALLS: u32 = 3;
/// What choosing a size's kernels on a device usually takes, in nanoseconds: the runtime's budget for it, rarely less.
const CHOOSING: f64 = 200e6;
const CHOOSING_QUICK: f64 = 40e6;

/// Start and cost a unit of a class on a device.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Cost {
    pub start_ns: f64,
    pub unit_ns: f64,
}

impl From<&Profile> for Cost {
    fn from(profile: &Profile) -> Cost {
        Cost { start_ns: profile.start_ns, unit_ns: profile.unit_ns }
    }
}

/// One class on one device as JSON.
#[derive(Serialize)]
pub(super) struct Row {
    pub class: &'static str,
    pub device: String,
    pub unit: &'static str,
    /// `measured` or `imported`.
    pub origin: &'static str,
    pub samples: u32,
    pub after: Cost,
    /// What decisions rested on before: an earlier calibration, or the built-in model.
    pub before: Option<Cost>,
    pub before_from: &'static str,
    /// After over before, of the cost a unit; none where either is zero.
    pub ratio: Option<f64>,
    /// What the times did not say and had to be assumed.
    pub assumed: Option<String>,
    pub smallest: u64,
    pub largest: u64,
    /// From which size on this device is faster than the processor; none for the processor.
    pub crossover: Option<CrossoverView>,
    /// Whether decisions use it: not if it is unstable.
    pub used: bool,
    /// Sizes with the least time seen.
    pub seen: Vec<(u64, f64)>,
}

impl Row {
    /// The cost a unit before, in words.
    pub fn before_unit(&self) -> String {
        self.before.map(|cost| unit_time(cost.unit_ns)).unwrap_or_default()
    }

    /// From which size on it is faster than the processor, in words.
    pub fn faster(&self) -> String {
        self.crossover.as_ref().map(|view| words(view, self.unit)).unwrap_or_default()
    }
}

/// A crossover as JSON.
#[derive(Serialize)]
pub(super) struct CrossoverView {
    pub kind: &'static str,
    pub size: Option<u64>,
    pub low: Option<u64>,
    pub high: Option<u64>,
    pub tried_to: Option<u64>,
}

impl From<Crossover> for CrossoverView {
    fn from(crossover: Crossover) -> CrossoverView {
        let view =
            CrossoverView { kind: crossover.name(), size: None, low: None, high: None, tried_to: None };
        match crossover {
            Crossover::At { size, low, high } => {
                CrossoverView { size: Some(size), low: Some(low), high: Some(high), ..view }
            }
            Crossover::NeverUpTo(size) => CrossoverView { tried_to: Some(size), ..view },
            Crossover::Unstable { low, high } => CrossoverView { low: Some(low), high: Some(high), ..view },
            Crossover::Always => view,
        }
    }
}

/// How it ended, as JSON.
#[derive(Serialize)]
struct Summary {
    /// Whether anything was measured now.
    measured: bool,
    /// Whether it is in force and kept.
    committed: bool,
    devices: usize,
    kept_in: Option<String>,
}

pub fn run(session: &Session, args: &Calibrate) -> Result<ExitCode> {
    let runtime = &session.runtime;
    let text = args.from.as_deref().map(import::read).transpose()?;
    if runtime.planned().count() < 2 && text.is_none() {
        let why = runtime.unusable().join("; ");
        let why = if why.is_empty() { "one device is pinned".to_string() } else { why };
        if !session.out.is_json() {
            session.out.line(format!("There is nothing to choose between: {why}."))?;
        }
        return finish(session, false, false);
    }
    let in_force = runtime.calibration();
    // A device that was measured may lack a class it cannot do; of one whose times were imported, classes nobody spoke of are missing.
    let is_missing = |at: usize, class: Class| {
        let known = |times: &DeviceTimes| {
            times.steps.contains_key(&class) || Class::ALL.iter().any(|class| times.is_measured(*class))
        };
        !in_force.times(at).is_some_and(known)
    };
    let devices: Vec<_> = runtime.planned().map(|(_, device)| Arc::clone(device)).collect();
    let contested = contested(&devices);
    let missing: Vec<Class> = contested
        .iter()
        .copied()
        .filter(|class| args.refresh || runtime.planned().any(|(at, _)| is_missing(at, *class)))
        .collect();
    if text.is_none() && missing.is_empty() {
        if !session.out.is_json() {
            session.out.line("Calibrated earlier; --refresh measures again.")?;
        }
        show(session, &in_force)?;
        return finish(session, false, false);
    }
    let before = expected(runtime, args.quick);
    let measured = text.is_none();
    let mut times: Vec<DeviceTimes> = match &text {
        Some(samples) => import::times(runtime, samples)?,
        None => {
            let rounds = if args.quick { ROUNDS_QUICK } else { ROUNDS };
            let alone = Class::ALL.iter().filter(|class| !contested.contains(class));
            let alone: Vec<&str> = alone.map(|class| class.name()).collect();
            if !alone.is_empty() && !session.out.is_json() {
                let what = alone.join(", ");
                session.out.line(format!("Not measured: {what}. One device alone has kernels for them."))?;
            }
            interrupt::would_say("nothing of this calibration is kept, what was in force stays".to_string());
            let sizes = missing.iter().map(|class| class.ladder(args.quick).len()).sum();
            let what =
                format!("measuring {} on {}", counted(sizes, "size"), counted(devices.len(), "device"));
            let about = HowLong::About(about(&before, runtime.devices().len(), &missing, rounds, args.quick));
            let bar = Bar::announced(sizes, &what, about, "it counts when all is measured");
            let ladder = Ladder { quick: args.quick, rounds, classes: &missing };
            let mut measured = runtime.measure_calibration(ladder, &mut |class, problem| {
                bar.say(|| format!("{class}: {problem}"));
                bar.next();
            });
            // What is known stays, though others had to be measured beside it.
            for (at, times) in measured.iter_mut().enumerate().filter(|_| !args.refresh) {
                times.steps.retain(|class, _| is_missing(at, *class));
            }
            measured.retain(|times| !times.steps.is_empty());
            measured
        }
    };
    for (at, device) in runtime.planned() {
        let fingerprint = &device.facts().fingerprint.0;
        for its in times.iter_mut().filter(|times| times.fingerprint == *fingerprint) {
            let known = its.steps.keys().filter_map(|class| Some((*class, before.profile(at, *class)?)));
            let was = |class: Class| in_force.profile(at, class).is_some() && in_force.is_used(class);
            let before = known.map(|(class, Profile { start_ns, unit_ns, .. })| {
                let (start_ns, unit_ns) = (*start_ns, *unit_ns);
                (class, Before { start_ns, unit_ns, calibrated: was(class) })
            });
            its.before = before.collect();
        }
    }
    let calibration = runtime.calibration_with(&times);
    show(session, &calibration)?;
    // Of what was measured here one expects that it counts; of a file that it is looked at first.
    let commit = args.commit || (measured && !args.dry_run);
    if commit && let Err(error) = runtime.commit_calibration(calibration) {
        warn(&format!("in force now, but not kept: {error}"));
    }
    session.keep();
    finish(session, measured, commit)
}

/// What measuring these classes is expected to take: choosing each size's kernels, and the calls, of which a few warm up.
pub(super) fn about(
    expected: &Calibration,
    devices: usize,
    classes: &[Class],
    rounds: u32,
    quick: bool,
) -> Nanos {
    let choosing = if quick { CHOOSING_QUICK } else { CHOOSING };
    let all = (0..devices)
        .filter_map(|at| expected.times(at))
        .flat_map(|times| classes.iter().filter_map(|class| times.steps.get(class)));
    let size = |rung: &Rung| choosing + rung.time().unwrap_or(0.0) * f64::from(rounds + WARM_CALLS);
    Nanos(all.flatten().map(size).sum::<f64>() as u64)
}

fn finish(session: &Session, measured: bool, committed: bool) -> Result<ExitCode> {
    let dir = session.runtime.wisdom().dir().map(|dir| dir.display().to_string());
    if session.out.is_json() {
        let devices = session.runtime.planned().count();
        session.out.object(&Summary { measured, committed, devices, kept_in: dir })?;
    } else if committed {
        session.out.line(format!("In force, and {}.", session.wisdom_place()))?;
    } else if session.runtime.planned().count() > 1 {
        session.out.line("Nothing was changed.")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What decisions rest on now, in the form of a calibration; nothing is measured.
pub(super) fn expected(runtime: &Runtime, quick: bool) -> Calibration {
    Calibration::new(runtime.expected_calibration(quick).into_iter().map(Some).collect(), usize::MAX)
}

/// Shows every class on every device.
pub(super) fn show(session: &Session, calibration: &Calibration) -> Result<()> {
    let rows = rows(&session.runtime, calibration);
    if session.out.is_json() {
        return rows.iter().try_for_each(|row| session.out.object(row));
    }
    let table = Table::of(&rows)
        .column("class", |row| row.class.to_string())
        .column("device", |row| row.device.clone())
        .column(">start", |row| time(row.after.start_ns))
        .column(">per unit", |row| unit_time(row.after.unit_ns))
        .column(">before", Row::before_unit)
        .column(">ratio", |row| row.ratio.map(times).unwrap_or_default())
        .column("faster than the processor", Row::faster)
        .column("note", |row| row.assumed.clone().unwrap_or_default())
        .table();
    if table.is_empty() { session.out.line("No times.") } else { session.out.table(&table) }
}

/// Every class on every device that there are times of.
pub(super) fn rows(runtime: &Runtime, calibration: &Calibration) -> Vec<Row> {
    let mut rows = Vec::new();
    for class in Class::ALL {
        for (at, device) in runtime.planned() {
            let (Some(profile), Some(kept)) = (calibration.profile(at, class), calibration.times(at)) else {
                continue;
            };
            let after = Cost::from(profile);
            let before = kept.before.get(&class);
            let old = before.map(|&Before { start_ns, unit_ns, .. }| Cost { start_ns, unit_ns });
            let ratio = old.filter(|old| old.unit_ns > 0.0 && after.unit_ns > 0.0);
            let (smallest, largest) = profile.range();
            let steps = kept.steps.get(&class).into_iter().flatten();
            let is_host = device.facts().kind == DeviceKind::Cpu;
            rows.push(Row {
                class: class.name(),
                device: device.facts().id.clone(),
                unit: class.unit(),
                origin: kept.origin_of(class).name(),
                samples: profile.samples,
                after,
                before: old,
                before_from: before.map_or("none", |before| before.name()),
                ratio: ratio.map(|old| after.unit_ns / old.unit_ns),
                assumed: profile.assumed.map(|assumed| assumed.to_string()),
                smallest,
                largest,
                crossover: calibration.crossover(at, class).filter(|_| !is_host).map(CrossoverView::from),
                used: calibration.is_used(class),
                seen: steps.filter_map(|step| Some((step.size, step.time()?))).collect(),
            });
        }
    }
    rows
}

/// A crossover in words.
pub(super) fn words(view: &CrossoverView, unit: &str) -> String {
    match (view.size, view.low, view.high, view.tried_to) {
        (Some(size), Some(low), Some(high), _) => {
            format!("from {} {unit} on ({} to {})", count(size), count(low), count(high))
        }
        (_, _, _, Some(most)) => format!("never up to {} {unit}", count(most)),
        (_, Some(low), Some(high), _) => {
            format!("unstable ({} to {}), default kept", count(low), count(high))
        }
        _ => "at every size tried".to_string(),
    }
}

/// A size in three digits: 65.5 k, 16.8 M.
pub(super) fn count(size: u64) -> String {
    let size = size as f64;
    match size {
        size if size < 1e4 => format!("{size}"),
        size if size < 1e6 => format!("{:.1} k", size / 1e3),
        size if size < 1e9 => format!("{:.1} M", size / 1e6),
        size => format!("{:.1} G", size / 1e9),
    }
}

/// A time a unit, which is often far below a nanosecond.
pub(super) fn unit_time(ns: f64) -> String {
    if ns < 0.1 { format!("{:.2} ps", ns * 1e3) } else { time(ns) }
}
