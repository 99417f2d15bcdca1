//! `trimtab wisdom`: look at, carry and forget what is remembered.

use crate::args::{Filter as FilterArgs, Global, Quarantine, Wisdom, problem};
use crate::failure::{FAILED, bad_input};
use crate::output::{Output, axes, counted, printable, time, times};
use crate::representative::is_of;
use crate::session::{Deviceless, Here, Session, warn, wisdom_dir};
use crate::table::Table;
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use trimtab::advanced::wisdom::{
    Best, BestChange, Fact, Filter, ImportReport, MAX_IMPORT_BYTES, Outcome, Rejected, Stats, files,
};
use trimtab::{Bytes, Problem, Runtime};

/// Rejected lines told one by one; the count is always told.
const REJECTED_SHOWN: usize = 10;

pub fn run(global: &Global, command: &Wisdom) -> Result<ExitCode> {
    // Here --device names whose facts are meant, which may be a machine that is not this one.
    let here = Global { device: None, ..global.clone() };
    match command {
        Wisdom::Path => path(global)?,
        Wisdom::List(filter) => {
            let filter = read_filter(global, filter, false)?;
            list(&Deviceless::open(global), &filter)?;
        }
        Wisdom::Export { file, filter } => {
            let filter = read_filter(global, filter, false)?;
            export(&Deviceless::open(global), &filter, file.as_deref())?;
        }
        Wisdom::Import { file, commit } => {
            import(&here, file, *commit)?;
        }
        Wisdom::Forget { filter, all } => {
            let filter = read_filter(global, filter, *all)?;
            if filter == Filter::default() {
                return Err(bad_input(
                    "say what to forget: --kernel KERNEL, --problem PROBLEM, --op OP, --device DEVICE, or --all",
                ));
            }
            let kept = Deviceless::open(global);
            forget(&kept, &filter)?;
            kept.keep();
        }
        Wisdom::Quarantine(Quarantine::List { kernel }) => {
            super::quarantine::list(&Deviceless::open(global), kernel.as_deref())?;
        }
        Wisdom::Quarantine(Quarantine::Lift { kernel }) => {
            let kept = Deviceless::open(global);
            super::quarantine::lift(&kept, kernel.as_deref())?;
            kept.keep();
        }
        Wisdom::Compact => return compact(&Deviceless::open(global)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Devices are looked for only to learn which one a short name means.
fn read_filter(global: &Global, args: &FilterArgs, all: bool) -> Result<Filter> {
    let fingerprint = |name: &String| -> Result<String> {
        // A fingerprint says what a device is, part by part.
        if name.contains('/') {
            return Ok(name.clone());
        }
        let id = name.trim().to_ascii_lowercase();
        let session =
            Session::start(&Global { device: (id == "cpu").then(|| id.clone()), ..global.clone() })?;
        let named = session.runtime.devices().iter().find(|device| device.facts().id == id);
        Ok(named.map_or_else(|| name.clone(), |device| device.facts().fingerprint.0.clone()))
    };
    let problem = args.problem.as_deref().map(problem).transpose()?;
    Ok(Filter {
        device: global.device.as_ref().map(fingerprint).transpose()?,
        kernel: args.kernel.clone(),
        problem: problem.map(|problem: Problem| problem.to_string()),
        operation: args.op.clone(),
        all,
    })
}

/// Asks nobody: neither a device nor what is kept there.
fn path(global: &Global) -> Result<()> {
    let (out, dir) = (Output::new(global), wisdom_dir(global));
    if out.is_json() {
        return out.object(&json!({ "path": dir.map(|dir| dir.display().to_string()) }));
    }
    let dir = dir.ok_or_else(|| anyhow!("wisdom is off; give --wisdom-dir DIR or set TRIMTAB_WISDOM_DIR"))?;
    out.verbatim(dir.display().to_string())
}

fn matches(filter: &Filter, fact: &Fact) -> bool {
    let same = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
    same(&filter.device, &fact.key.device)
        && same(&filter.kernel, &fact.key.kernel)
        && same(&filter.problem, &fact.key.problem)
        && filter.operation.as_ref().is_none_or(|operation| is_of(&fact.key.problem, operation))
}

fn list(kept: &Deviceless, filter: &Filter) -> Result<()> {
    let out = &kept.out;
    let facts: Vec<Fact> = kept.wisdom.all_facts().into_iter().filter(|fact| matches(filter, fact)).collect();
    if out.is_json() {
        return facts.iter().try_for_each(|fact| out.object(&fact_view(fact)));
    }
    let mut devices: Vec<&str> = facts.iter().map(|fact| fact.key.device.as_str()).collect();
    devices.dedup();
    for device in devices {
        let its: Vec<&Fact> = facts.iter().filter(|fact| fact.key.device == device).collect();
        let stat =
            |fact: &Fact, show: fn(&Stats) -> String| fact.outcome.stats().map(show).unwrap_or_default();
        let failure = |fact: &&Fact| match &fact.outcome {
            Outcome::Timed(_) => String::new(),
            Outcome::Failed { kind, message } => format!("{}: {message}", kind.name()),
        };
        let table = Table::of(&its)
            .column("problem", |fact| fact.key.problem.clone())
            .column("kernel", |fact| fact.key.kernel.clone())
            .column("point", |fact| fact.key.point.clone())
            .column("condition", |fact| fact.key.condition.to_string())
            .column(">n", |fact| stat(fact, |stats| stats.n.to_string()))
            .column(">min", |fact| stat(fact, |stats| time(stats.min_ns)))
            .column(">mean", |fact| stat(fact, |stats| time(stats.mean())))
            .column("failure", failure)
            .column("version", |fact| fact.key.version.clone())
            .table();
        out.line(device)?;
        out.table(&table)?;
        out.line("")?;
    }
    out.line(format!("{}, {}", counted(facts.len(), "fact"), kept.place()))
}

fn fact_view(fact: &Fact) -> Value {
    let (key, stats) = (&fact.key, fact.outcome.stats());
    let mut view = json!({
        "device": key.device,
        "kernel": key.kernel,
        "version": key.version,
        "problem": key.problem,
        "point": axes(&key.point),
        "condition": key.condition.name(),
        "n": stats.map_or(0, |stats| stats.n),
        "min_ns": stats.map(|stats| stats.min_ns),
        "mean_ns": stats.map(|stats| stats.mean()),
        "origin": fact.origin,
        "last_seen_ms": fact.last_seen_ms,
    });
    if let Some(energy) = stats.and_then(|stats| stats.energy_uj) {
        view["energy_uj"] = json!(energy);
    }
    if let Outcome::Failed { kind, message } = &fact.outcome {
        view["failure"] = json!({ "kind": kind.name(), "message": message });
    }
    view
}

fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

fn export(kept: &Deviceless, filter: &Filter, file: Option<&Path>) -> Result<()> {
    // Not asking for a part means asking for everything.
    let filter = if *filter == Filter::default() { Filter::everything() } else { filter.clone() };
    let text = kept.wisdom.export(&filter);
    match file.filter(|file| !is_standard(file)) {
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(text.as_bytes())?;
            out.flush()?;
            Ok(())
        }
        Some(file) => {
            std::fs::write(file, &text)
                .with_context(|| format!("{} could not be written", file.display()))?;
            let lines = text.lines().count().saturating_sub(1);
            let shown = file.display().to_string();
            let words = format!("wrote {} to {shown}", counted(lines, "line"));
            kept.out.either(&json!({ "file": shown, "lines": lines }), || kept.out.line(words))
        }
    }
}

fn read_text(file: &Path) -> Result<String> {
    let most = MAX_IMPORT_BYTES as u64;
    let bytes = match is_standard(file) {
        true => files::read_at_most(std::io::stdin().lock(), most),
        false => files::read(file, most),
    };
    let bytes = bytes.map_err(|error| bad_input(format!("{} could not be read: {error}", file.display())))?;
    // Lines that are not text are rejected one by one by the import.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Takes facts in. Devices are opened only if best times may be about them, to judge whether they can be that fast.
fn import(global: &Global, file: &Path, commit: bool) -> Result<()> {
    let text = read_text(file)?;
    let kept = Deviceless::open(global);
    let report =
        kept.wisdom.import(&text, commit).with_context(|| format!("{} was not imported", file.display()))?;
    is_written(&kept, "nothing was imported")?;
    kept.keep();
    for rejected in report.rejected.iter().take(REJECTED_SHOWN) {
        warn(&format!("line {} was not taken: {}", rejected.line, printable(&rejected.reason)));
    }
    if report.rejected_count > REJECTED_SHOWN {
        warn(&format!("{} more lines were not taken", report.rejected_count - REJECTED_SHOWN));
    }
    let here = Here::of(report.changes.iter().map(|change| change.device.as_str()));
    let judges = here.open(global)?;
    let judges = judges.as_ref();
    kept.out.either(&import_view(judges, &report), || show_import(&kept, judges, file, &report))
}

/// Whether the best time of a problem after an import is one its device cannot reach.
fn doubtful(judges: Option<&Runtime>, change: &BestChange) -> bool {
    let (Some(judges), Some(Best { kernel, point, mean_ns, .. })) = (judges, change.after.as_ref()) else {
        return false;
    };
    judges.planner().is_implausible(&change.device, &change.problem, kernel, point, *mean_ns)
}

fn import_view(judges: Option<&Runtime>, report: &ImportReport) -> Value {
    let best = |best: &Best| {
        let Best { kernel, version, point, mean_ns, .. } = best;
        json!({ "kernel": kernel, "version": version, "point": axes(point), "mean_ns": mean_ns })
    };
    let change = |change: &BestChange| {
        json!({
            "device": change.device,
            "problem": change.problem,
            "before": change.before.as_ref().map(best),
            "after": change.after.as_ref().map(best),
            "ratio": change.ratio,
            // Its device cannot be that fast: it does not decide.
            "implausible": doubtful(judges, change),
        })
    };
    let rejection = |rejected: &Rejected| json!({ "line": rejected.line, "reason": rejected.reason });
    json!({
        "committed": report.committed,
        "new": report.new,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "rejected": report.rejected_count,
        "rejections": report.rejected.iter().map(rejection).collect::<Vec<_>>(),
        "changes": report.changes.iter().map(change).collect::<Vec<_>>(),
    })
}

fn show_import(
    kept: &Deviceless,
    judges: Option<&Runtime>,
    file: &Path,
    report: &ImportReport,
) -> Result<()> {
    let devices = judges.into_iter().flat_map(Runtime::devices);
    let here: Vec<String> = devices.map(|device| device.facts().fingerprint.0.clone()).collect();
    let words = |best: &Option<Best>| match best {
        Some(best) if best.point == "-" => best.kernel.clone(),
        Some(best) => format!("{} {}", best.kernel, best.point),
        None => "–".to_string(),
    };
    let mean = |best: &Option<Best>| best.as_ref().map(|best| time(best.mean_ns)).unwrap_or_default();
    let doubt = |change: &BestChange| match doubtful(judges, change) {
        true => "implausible, not believed".to_string(),
        false => String::new(),
    };
    let foreign = |change: &BestChange| match here.contains(&change.device) {
        true => String::new(),
        false => change.device.clone(),
    };
    let table = Table::of(&report.changes)
        .column("problem", |change| change.problem.clone())
        .column("before", |change| words(&change.before))
        .column(">time", |change| mean(&change.before))
        .column("after", |change| words(&change.after))
        .column(">time", |change| mean(&change.after))
        .column(">ratio", |change| change.ratio.map(times).unwrap_or_default())
        .column("device", foreign)
        .column("note", doubt)
        .table();
    let out = &kept.out;
    out.table_if_any(&table)?;
    let counts = format!(
        "{} new, {} updated, {} unchanged, {} rejected",
        report.new, report.updated, report.unchanged, report.rejected_count
    );
    out.line(match report.committed {
        true => format!("Imported: {counts}; {}", kept.place()),
        false => format!(
            "Dry run, nothing changed: {counts}. `trimtab wisdom import {} --commit` takes it in.",
            file.display()
        ),
    })
}

/// An error if the store refused what this command changed: it would be gone with this process.
pub(super) fn is_written(kept: &Deviceless, what: &str) -> Result<()> {
    let wisdom = &kept.wisdom;
    match wisdom.refused() {
        None => Ok(()),
        Some(why) => {
            let place = wisdom.place().unwrap_or_default();
            Err(anyhow!(
                "{what}: {place} cannot be written: {why}; make room or make it writable, then try again"
            ))
        }
    }
}

fn forget(kept: &Deviceless, filter: &Filter) -> Result<()> {
    let forgotten = trimtab::advanced::plan::forget(&kept.wisdom, filter);
    is_written(kept, "nothing was forgotten")?;
    let words = match forgotten {
        0 => "nothing matched; `trimtab wisdom list` shows what there is".to_string(),
        forgotten => format!(
            "forgot {}; the next call of the problems they were about decides anew: by a race, or by what alike problems teach",
            counted(forgotten, "entry").replace("entrys", "entries")
        ),
    };
    kept.out.either(&json!({ "forgotten": forgotten }), || kept.out.line(words))
}

fn compact(kept: &Deviceless) -> Result<ExitCode> {
    let report = kept.wisdom.compact();
    let failed = report.error.is_some();
    if kept.out.is_json() {
        kept.out.object(&json!({
            "segments_merged": report.segments_merged,
            "segments_written": report.segments_written,
            "segments_kept": report.segments_kept,
            "bytes_before": report.bytes_before,
            "bytes_after": report.bytes_after,
            "facts": report.facts,
            "facts_dropped": report.facts_dropped,
            "error": report.error,
        }))?;
    } else if let Some(error) = report.error {
        return Err(anyhow!("wisdom was not compacted: {error}"));
    } else {
        if report.segments_merged == 0 {
            let left = counted(report.segments_kept, "file");
            kept.out.line(format!("nothing to merge; {left} left alone: compact already, or in use"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let merged = counted(report.segments_merged, "file");
        let sizes = format!("{} → {}", Bytes(report.bytes_before), Bytes(report.bytes_after));
        let dropped = if report.facts_dropped > 0 {
            format!(", {} dropped", report.facts_dropped)
        } else {
            String::new()
        };
        let facts = counted(report.facts, "fact");
        kept.out.line(format!(
            "merged {merged} into {} ({sizes}), {facts}{dropped}; {} left alone",
            report.segments_written, report.segments_kept
        ))?;
    }
    Ok(ExitCode::from(if failed { FAILED } else { 0 }))
}
