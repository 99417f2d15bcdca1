//! `trimtab calibrate`: what whole calls take on each device by size, from which size on a GPU is faster, and what that changes.

mod import;

use crate::args::Calibrate;
use crate::output::{Table, time, times};
use crate::progress::Bar;
use crate::session::{Session, warn};
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use trimtab::core::DeviceKind;
use trimtab::plan::calibration::{Calibration, DeviceTimes, Ladder};
use trimtab::plan::{Class, Crossover, Profile};

/// Times each size is measured on each device.
const ROUNDS: u32 = 5;
const ROUNDS_QUICK: u32 = 3;

/// Start and cost a unit of a class on a device.
#[derive(Clone, Copy, Serialize)]
struct Cost {
    start_ns: f64,
    unit_ns: f64,
}

impl From<&Profile> for Cost {
    fn from(profile: &Profile) -> Cost {
        Cost { start_ns: profile.start_ns, unit_ns: profile.unit_ns }
    }
}

/// One class on one device as JSON.
#[derive(Serialize)]
struct Row {
    class: &'static str,
    device: String,
    unit: &'static str,
    /// `measured` or `imported`.
    origin: &'static str,
    samples: u32,
    after: Cost,
    /// What decisions rested on before: an earlier calibration, or the built-in model.
    before: Option<Cost>,
    before_from: &'static str,
    /// After over before, of the cost a unit; none where either is zero.
    ratio: Option<f64>,
    /// What the times did not say and had to be assumed.
    assumed: Option<String>,
    smallest: u64,
    largest: u64,
    /// From which size on this device is faster than the processor; none for the processor.
    crossover: Option<CrossoverView>,
    /// Whether decisions use it: not if it is unstable.
    used: bool,
    /// Sizes with the least time seen.
    seen: Vec<(u64, f64)>,
}

/// A crossover as JSON.
#[derive(Serialize)]
struct CrossoverView {
    kind: &'static str,
    size: Option<u64>,
    low: Option<u64>,
    high: Option<u64>,
    tried_to: Option<u64>,
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
    if runtime.devices().len() < 2 && text.is_none() {
        let why = runtime.unusable().join("; ");
        let why = if why.is_empty() { "one device is pinned".to_string() } else { why };
        if !session.out.is_json() {
            session.out.line(format!("There is nothing to choose between: {why}."))?;
        }
        return finish(session, false, false);
    }
    let in_force = runtime.calibration();
    let complete = (0..runtime.devices().len()).all(|at| in_force.times(at).is_some());
    if text.is_none() && complete && !args.refresh {
        if !session.out.is_json() {
            session.out.line("Calibrated earlier; --refresh measures again.")?;
        }
        show(session, &in_force, None)?;
        return finish(session, false, false);
    }
    let before = Calibration::new(
        runtime.expected_calibration(args.quick).into_iter().map(Some).collect(),
        usize::MAX,
    );
    let measured = text.is_none();
    let times: Vec<DeviceTimes> = match &text {
        Some(samples) => import::times(runtime, samples)?,
        None => {
            let rounds = if args.quick { ROUNDS_QUICK } else { ROUNDS };
            let bar = Bar::new(Class::ALL.iter().map(|class| class.ladder(args.quick).len()).sum());
            runtime.measure_calibration(Ladder { quick: args.quick, rounds }, &mut |class, problem| {
                bar.say(|| format!("{class}: {problem}"));
                bar.next();
            })
        }
    };
    let calibration = runtime.calibration_with(&times);
    show(session, &calibration, Some((&before, &in_force)))?;
    // Of what was measured here one expects that it counts; of a file that it is looked at first.
    let commit = args.commit || (measured && !args.dry_run);
    if commit && let Err(error) = runtime.commit_calibration(calibration) {
        warn(&format!("in force now, but not kept: {error}"));
    }
    session.keep();
    finish(session, measured, commit)
}

fn finish(session: &Session, measured: bool, committed: bool) -> Result<ExitCode> {
    let dir = session.runtime.wisdom().dir().map(|dir| dir.display().to_string());
    if session.out.is_json() {
        let devices = session.runtime.devices().len();
        session.out.object(&Summary { measured, committed, devices, kept_in: dir })?;
    } else if committed {
        session.out.line(format!("In force, and {}.", session.wisdom_place()))?;
    } else if session.runtime.devices().len() > 1 {
        session.out.line("Nothing was changed.")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows every class on every device; `before` is what decisions rested on, and whether that was a calibration.
fn show(
    session: &Session,
    calibration: &Calibration,
    before: Option<(&Calibration, &Calibration)>,
) -> Result<()> {
    let rows = rows(session, calibration, before);
    if session.out.is_json() {
        return rows.iter().try_for_each(|row| session.out.object(row));
    }
    let mut table = Table::new(&[
        "class",
        "device",
        ">start",
        ">per unit",
        ">before",
        ">ratio",
        "faster than the processor",
        "note",
    ]);
    for row in &rows {
        let crossover = row.crossover.as_ref().map(|view| words(view, row.unit)).unwrap_or_default();
        table.row(vec![
            row.class.to_string(),
            row.device.clone(),
            time(row.after.start_ns),
            unit_time(row.after.unit_ns),
            row.before.map(|cost| unit_time(cost.unit_ns)).unwrap_or_default(),
            row.ratio.map(times).unwrap_or_default(),
            crossover,
            row.assumed.clone().unwrap_or_default(),
        ]);
    }
    if table.is_empty() { session.out.line("No times.") } else { session.out.table(&table) }
}

fn rows(
    session: &Session,
    calibration: &Calibration,
    before: Option<(&Calibration, &Calibration)>,
) -> Vec<Row> {
    let devices = session.runtime.devices();
    let mut rows = Vec::new();
    for class in Class::ALL {
        for (at, device) in devices.iter().enumerate() {
            let (Some(profile), Some(kept)) = (calibration.profile(at, class), calibration.times(at)) else {
                continue;
            };
            let after = Cost::from(profile);
            let old = before.and_then(|(before, _)| before.profile(at, class)).map(Cost::from);
            let was_calibrated = before.is_some_and(|(_, in_force)| {
                in_force.profile(at, class).is_some() && in_force.is_used(class)
            });
            let ratio = old.filter(|old| old.unit_ns > 0.0 && after.unit_ns > 0.0);
            let (smallest, largest) = profile.range();
            let steps = kept.steps.get(&class).into_iter().flatten();
            let is_host = device.facts().kind == DeviceKind::Cpu;
            rows.push(Row {
                class: class.name(),
                device: device.facts().id.clone(),
                unit: class.unit(),
                origin: kept.origin.name(),
                samples: profile.samples,
                after,
                before: old,
                before_from: match (old, was_calibrated) {
                    (None, _) => "none",
                    (_, true) => "calibrated",
                    (_, false) => "built-in",
                },
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

fn words(view: &CrossoverView, unit: &str) -> String {
    match (view.size, view.low, view.high, view.tried_to) {
        (Some(size), Some(low), Some(high), _) => {
            format!("from {} {unit} on ({} to {})", count(size), count(low), count(high))
        }
        (_, _, _, Some(most)) => format!("never up to {} {unit}", count(most)),
        (_, Some(low), Some(high), _) => {
            format!("unstable ({} to {}), default kept", count(low), count(high))
        }
        _ => "always".to_string(),
    }
}

/// A size in three digits: 65.5 k, 16.8 M.
fn count(size: u64) -> String {
    let size = size as f64;
    match size {
        size if size < 1e4 => format!("{size}"),
        size if size < 1e6 => format!("{:.1} k", size / 1e3),
        size if size < 1e9 => format!("{:.1} M", size / 1e6),
        size => format!("{:.1} G", size / 1e9),
    }
}

/// A time a unit, which is often far below a nanosecond.
fn unit_time(ns: f64) -> String {
    if ns < 0.1 { format!("{:.2} ps", ns * 1e3) } else { time(ns) }
}
