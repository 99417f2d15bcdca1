//! `trimtab record`: measures the settings of kernels on real devices and writes them down as recordings.

use crate::args::Record;
use crate::failure::{FAILED, bad_input};
use crate::interrupt;
use crate::output::{counted, time};
use crate::progress::{Bar, HowLong};
use crate::session::{Session, warn};
use crate::table::Table;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use trimtab::advanced::core::{Device, KernelId, Nanos, Problem};
use trimtab::advanced::plan::Guarded;
use trimtab::advanced::tune::{Budget, Rules};
use trimtab_replay::{Completeness, RecordRequest, Recorded, read_recordings, record, write_recordings};

const NS_PER_MS: f64 = 1e6;
/// Why nothing is there of a kernel that was begun.
const STOPPED: &str = "it was stopped before anything was measured";

/// A kernel with settings to choose among, on a problem.
struct Job<'a> {
    device: &'a dyn Device,
    kernel: KernelId,
    name: &'a str,
    problem: Problem,
}

/// One recording.
#[derive(Serialize)]
struct RecordedView {
    space: String,
    kernel: String,
    problem: String,
    device: String,
    device_name: String,
    /// Legal settings.
    points: usize,
    /// Settings with a time or a failure.
    rows: usize,
    failed: usize,
    /// Most samples of a setting.
    repeats: usize,
    completeness: &'static str,
    /// Settings that could not be tried, for reasons that are not theirs.
    untried: usize,
    /// Whether all that was wanted was measured.
    finished: bool,
    optimum_ms: Option<f64>,
    optimum: BTreeMap<String, u32>,
    #[serde(skip)]
    optimum_name: String,
    median_ms: Option<f64>,
    #[serde(skip)]
    device_id: String,
}

pub fn run(session: &Session, problems: &[Problem], args: &Record) -> Result<ExitCode> {
    let jobs = jobs(session, problems, args)?;
    let budget = Budget::time(args.budget);
    let what = format!("recording {}", counted(jobs.len(), "kernel"));
    let bar = Bar::announced(
        jobs.len(),
        &what,
        HowLong::AtMost(args.budget),
        "Ctrl-C ends it and keeps what was measured",
    );
    interrupt::end_in_order();
    let (mut views, mut failed, mut cut) = (Vec::new(), 0, 0);
    for (done, job) in jobs.iter().enumerate() {
        if interrupt::asked() || budget.exhausted() {
            break;
        }
        let share = Nanos(budget.left().0 / (jobs.len() - done) as u64);
        let recorded = match measure(session, job, args, share, &bar) {
            Ok(recorded) => recorded,
            // One kernel that cannot be measured must not cost the others their recordings.
            Err(reason) => {
                bar.around(|| warn(&format!("{} was not recorded on {}: {reason}", job.name, job.problem)));
                cut += usize::from(reason == STOPPED);
                failed += 1;
                bar.next();
                continue;
            }
        };
        cut += usize::from(!recorded.finished);
        if let Some(earlier) = richer(&args.data, &recorded) {
            let name = &recorded.recording.name;
            bar.around(|| {
                warn(&format!("{name} was cut short; the earlier one with {earlier} settings is kept"))
            });
            failed += 1;
            bar.next();
            continue;
        }
        write_recordings(&args.data, std::slice::from_ref(&recorded.recording))?;
        let view = view(job, &recorded);
        bar.around(|| {
            if let Some((count, first)) = &recorded.untried {
                warn(&format!(
                    "{}: {count} settings could not be tried and were left out: {first}",
                    view.space
                ));
            }
            if session.out.is_json() { session.out.object(&view) } else { Ok(()) }
        })?;
        views.push(view);
        bar.next();
    }
    drop(bar);
    // Notes about foreign code that ran well are taken back.
    session.keep();
    if !session.out.is_json() {
        show(session, args, &views)?;
    }
    let missing = jobs.len() - views.len() - failed;
    if missing + cut > 0 {
        let (ended, hint) = match interrupt::asked() {
            true => ("Ctrl-C", ""),
            false => ("the budget", "; give more with --budget"),
        };
        let all = jobs.len();
        warn(&format!(
            "{ended} ended it: of {all} recordings {cut} are cut short, {missing} were not begun{hint}"
        ));
    }
    let code = if failed > 0 || interrupt::asked() || views.is_empty() { FAILED } else { 0 };
    Ok(ExitCode::from(code))
}

/// How many settings an earlier recording of the same has, if this one was cut short and has fewer.
fn richer(data: &Path, recorded: &Recorded) -> Option<usize> {
    let name = recorded.recording.name.as_str();
    let earlier = read_recordings(data, &[name]).ok()?.pop()?;
    let rows = earlier.rows.len();
    (!recorded.finished && rows > recorded.recording.rows.len()).then_some(rows)
}

/// Every kernel that takes one of the problems and has settings.
fn jobs<'a>(session: &'a Session, problems: &[Problem], args: &Record) -> Result<Vec<Job<'a>>> {
    let mut all = Vec::new();
    for problem in problems {
        if matches!(problem, Problem::Custom(_)) {
            return Err(bad_input(format!("{problem} runs only in the program whose choice it is")));
        }
        for (_, device) in session.runtime.planned() {
            for (at, info) in device.kernels().iter().enumerate() {
                let kernel = KernelId(at as u32);
                let takes =
                    info.operation == problem.operation() && device.declines(kernel, problem).is_none();
                if takes && device.space(kernel, problem).points().len() > 1 {
                    all.push(Job { device: device.as_ref(), kernel, name: &info.name, problem: *problem });
                }
            }
        }
    }
    let mut known: Vec<&str> = all.iter().map(|job| job.name).collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() {
        let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
        return Err(bad_input(format!(
            "no kernel here that takes {} has settings to choose among",
            texts.join(", ")
        )));
    }
    if let Some(unknown) = args.kernel.iter().find(|name| !known.contains(&name.trim())) {
        return Err(bad_input(format!("--kernel {unknown}: there are {}", known.join(", "))));
    }
    all.retain(|job| args.kernel.is_empty() || args.kernel.iter().any(|name| name.trim() == job.name));
    Ok(all)
}

fn measure(
    session: &Session,
    job: &Job<'_>,
    args: &Record,
    share: Nanos,
    bar: &Bar,
) -> Result<Recorded, String> {
    let facts = job.device.facts();
    let info = &job.device.kernels()[job.kernel.0 as usize];
    let wisdom = session.runtime.wisdom();
    let budget = Budget::time(share);
    let bench = job.device.bench(&job.problem, share).map_err(|decline| decline.to_string())?;
    let mut bench = Guarded::new(bench, job.problem, wisdom, job.device);
    let request = RecordRequest {
        kernel: job.kernel,
        problem: job.problem,
        evals: args.evals.map_or(usize::MAX, |evals| evals as usize),
        repeats: args.repeats,
        seed: args.seed,
        rules: Rules::careful(),
        crashed: wisdom.crashed(&facts.fingerprint.0, &info.name, &info.version.0),
        origin: format!("trimtab record {}, kernel version {}", env!("CARGO_PKG_VERSION"), info.version),
    };
    let mut progress = |progress: trimtab_replay::RecordProgress| {
        let (runs, planned) = (progress.runs, progress.planned);
        bar.say(|| format!("{} on {}, {}: {runs} of {planned} runs", job.name, facts.id, job.problem));
    };
    let mut recorded = record(job.device, &mut bench, &request, &budget, &interrupt::asked, &mut progress);
    // Two cards of one model are two devices.
    let twin = |other: &&std::sync::Arc<dyn Device>| other.facts().name == facts.name;
    if session.runtime.devices().iter().filter(twin).count() > 1 {
        recorded.recording.device.push_str(&format!("_{}", facts.id));
        recorded.recording.name.push_str(&format!("_{}", facts.id));
    }
    match (&recorded.untried, recorded.recording.rows.is_empty()) {
        (Some((_, failure)), true) => Err(failure.to_string()),
        (None, true) => Err(STOPPED.to_string()),
        _ => Ok(recorded),
    }
}

fn view(job: &Job<'_>, recorded: &Recorded) -> RecordedView {
    let recording = &recorded.recording;
    let times: Vec<f64> = recording.rows.iter().filter_map(|row| row.outcome.mean_ms()).collect();
    let optimum_ms = recording.optimum_ms();
    let best =
        recording.rows.iter().find(|row| row.outcome.mean_ms().is_some_and(|ms| Some(ms) == optimum_ms));
    let optimum_name = best.map(|row| recording.space().name(&row.point)).unwrap_or_default();
    RecordedView {
        space: recording.name.clone(),
        kernel: recording.kernel.clone(),
        problem: job.problem.to_string(),
        device: recording.device.clone(),
        device_name: recording.device_name.clone(),
        points: recorded.legal,
        rows: recording.rows.len(),
        failed: recording.rows.len() - times.len(),
        repeats: (0..recording.rows.len()).map(|row| recording.repeat_count(row)).max().unwrap_or(0),
        completeness: recording.completeness.name(),
        untried: recorded.untried.as_ref().map_or(0, |(count, _)| *count),
        finished: recorded.finished && recorded.untried.is_none(),
        optimum_ms,
        optimum: crate::output::axes(&optimum_name),
        optimum_name,
        median_ms: trimtab::advanced::tune::median(&times),
        device_id: job.device.facts().id.clone(),
    }
}

fn show(session: &Session, args: &Record, views: &[RecordedView]) -> Result<()> {
    let out = &session.out;
    let everything = Completeness::Everything.name();
    let settings = |view: &RecordedView| match view.completeness == everything {
        true => view.rows.to_string(),
        false => format!("{} of {}", view.rows, view.points),
    };
    let shown = |ms: Option<f64>| ms.map(|ms| time(ms * NS_PER_MS)).unwrap_or_default();
    let table = Table::of(views)
        .column("kernel", |view| view.kernel.clone())
        .column("problem", |view| view.problem.clone())
        .column("device", |view| view.device_id.clone())
        .column(">settings", settings)
        .column(">failed", |view| view.failed.to_string())
        .column(">repeats", |view| view.repeats.to_string())
        .column(">median", |view| shown(view.median_ms))
        .column(">best", |view| shown(view.optimum_ms))
        .column("best setting", |view| view.optimum_name.clone())
        .table();
    let data = args.data.display();
    if table.is_empty() {
        return out.line("nothing was recorded");
    }
    out.table(&table)?;
    out.line("")?;
    let recordings = counted(views.len(), "recording");
    out.line(format!("{recordings} in {data}; replay with: trimtab simulate --data {data}"))
}
