//! What commands that tune anything share: where studies are kept, how spaces are read, how evaluations are written.

pub mod ask_tell;
pub mod best;
mod no_number;
mod page;
pub mod report;
mod search;
pub mod tune_command;
pub mod tune_kernel;

use crate::args::study::{Search, Space};
use crate::args::{Global, study::Study};
use crate::failure::bad_input;
use crate::output::{Output, counted, time};
use crate::session::wisdom_dir;
use crate::table::Table;
use anyhow::{Context, Result, anyhow};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use trimtab::Nanos;
use trimtab::advanced::study::{
    Answers, Definition, Evaluation, Goals, MAX_SPACE_BYTES, Objective, Outcome, Parameter, ParameterSpace,
    SpaceDefinition, StudyError, StudyFile, open_space, t4_donor, write_t4,
};
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::tune::search::{Donor, STRATEGIES};
use trimtab::advanced::wisdom::files;

/// How long a study is waited for that somebody is at, and how often it is looked at.
const LEFT_BEHIND: Nanos = Nanos::from_millis(2_000);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Where studies are kept; nothing where wisdom is off and nobody says.
fn studies(global: &Global, dir: Option<&Path>) -> Option<PathBuf> {
    dir.map(Path::to_path_buf).or_else(|| wisdom_dir(global).map(|dir| dir.join("studies")))
}

/// Opens a study, and waits a moment where another process is at it: a child of one that was killed holds the lock until it has become
/// the program it was started for.
fn opened(
    path: &Path,
    definition: &Definition,
    space: &Arc<ParameterSpace>,
    donors: &[Donor],
    fresh: bool,
) -> Result<StudyFile> {
    let watch = Stopwatch::start();
    loop {
        let space = Arc::clone(space);
        match StudyFile::open(path, definition.clone(), space, donors.to_vec(), fresh) {
            Err(StudyError::Busy(_)) if watch.elapsed() < LEFT_BEHIND => std::thread::sleep(LOOK_AGAIN),
            opened => return opened.map_err(search::said),
        }
    }
}

/// The directory of a study that is there.
fn kept(global: &Global, dir: Option<&Path>, name: &str) -> Result<PathBuf> {
    check_name(name)?;
    let studies = studies(global, dir)
        .ok_or_else(|| bad_input("wisdom is off; say where studies are kept: --dir DIR"))?;
    let path = studies.join(name);
    if !path.is_dir() {
        let known = names(&studies);
        let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        return Err(bad_input(format!(
            "there is no study `{name}` in {}; there are: {known}",
            studies.display()
        )));
    }
    Ok(path)
}

fn names(studies: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(studies).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A name is a directory's.
fn check_name(name: &str) -> Result<()> {
    let good = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && !name.starts_with('.')
        && !name.is_empty();
    match good {
        true => Ok(()),
        false => Err(bad_input(format!(
            "`{name}` cannot be the name of a study; use letters, digits, `-`, `_` and `.`"
        ))),
    }
}

/// The space of these options.
fn space(args: &Space) -> Result<ParameterSpace> {
    if let Some(file) = &args.space {
        let shown = file.display();
        let bytes = files::read(file, MAX_SPACE_BYTES)
            .map_err(|error| bad_input(format!("{shown} cannot be read: {error}")))?;
        return open_space(&bytes, &[]).map_err(|error| bad_input(format!("{shown}: {error}")));
    }
    let parameters = args.params.iter().map(|text| {
        Parameter::parse(text).map_err(|reason| bad_input(format!("--param '{text}': {reason}")))
    });
    let definition = SpaceDefinition {
        parameters: parameters.collect::<Result<_>>()?,
        constraints: args.constraints.clone(),
        listed: None,
    };
    ParameterSpace::new(definition).map_err(|error| bad_input(error.reason))
}

/// What these options are after; `numbers` are those read besides the metric.
fn goals(args: &Search, numbers: Vec<String>) -> Result<Goals> {
    if !STRATEGIES.contains(&args.strategy.as_str()) {
        return Err(bad_input(format!(
            "there is no strategy `{}`; there are: {}",
            args.strategy,
            STRATEGIES.join(", ")
        )));
    }
    Ok(Goals {
        maximise: args.maximise,
        numbers,
        objectives: args.objective.iter().map(|text| Objective::parse(text)).collect(),
        limits: args.limit.clone(),
    })
}

fn donors(args: &Search, space: &ParameterSpace) -> Result<Vec<Donor>> {
    let read = |file: &PathBuf| {
        let shown = file.display();
        let bytes = files::read(file, MAX_SPACE_BYTES)
            .map_err(|error| bad_input(format!("{shown} cannot be read: {error}")))?;
        t4_donor(space, &bytes).map_err(|error| bad_input(format!("{shown}: {error}")))
    };
    args.seed_from.iter().map(read).collect()
}

/// A value with its unit.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "s" => time(value * 1e9),
        _ if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e7) => format!("{value:.4e}"),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

/// An evaluation as JSON.
fn evaluation_view(file: &StudyFile, known: &Evaluation) -> Map<String, Value> {
    let mut view = Map::new();
    view.insert("point".into(), file.study.space().point(known.at).to_json());
    let ran = match &known.outcome {
        Outcome::Ran(ran) => {
            view.insert("value".into(), json!(ran.value));
            Some(ran)
        }
        Outcome::Failed(failed) => {
            view.insert("failure".into(), json!(failed.to_string()));
            view.insert("failure_kind".into(), json!(failed.fault));
            if !failed.output.is_empty() {
                view.insert("output".into(), json!(failed.output));
            }
            failed.ran.as_ref()
        }
    };
    if let Some(ran) = ran {
        if ran.samples.len() > 1 {
            view.insert("samples".into(), json!(ran.samples));
        }
        if !ran.others.is_empty() {
            view.insert("numbers".into(), json!(ran.others));
        }
    }
    view.insert("repeats".into(), json!(known.repeats));
    if !file.definition().sizes.is_empty() {
        let sizes: Map<String, Value> = file.definition().sizes.iter().cloned().collect();
        view.insert("sizes".into(), Value::Object(sizes));
    }
    view
}

/// The best, or null.
fn best_view(file: &StudyFile) -> Value {
    file.study.best().and_then(|best| best_of(file, best)).unwrap_or(Value::Null)
}

fn best_of(file: &StudyFile, known: &Evaluation) -> Option<Value> {
    let ran = known.outcome.ran()?;
    let mut view = json!({ "point": file.study.space().point(known.at).to_json(), "value": ran.value });
    if !ran.others.is_empty() {
        view["numbers"] = json!(ran.others);
    }
    Some(view)
}

pub fn run(global: &Global, command: &Study) -> Result<ExitCode> {
    match command {
        Study::List { dir } => list(global, dir.as_deref()),
        Study::Report { name, html, dir } => report::run(global, name, html.as_deref(), dir.as_deref()),
        Study::Export { name, file, dir } => export(global, name, file.as_deref(), dir.as_deref()),
    }
}

fn list(global: &Global, dir: Option<&Path>) -> Result<ExitCode> {
    let out = Output::new(global);
    let studies = studies(global, dir)
        .ok_or_else(|| bad_input("wisdom is off; say where studies are kept: --dir DIR"))?;
    let mut table = Table::new(&["study", ">sizes", ">tried", ">failed", ">best", "at"]);
    for name in names(&studies) {
        let Ok(answers) = Answers::read(&studies.join(&name)) else { continue };
        let files = answers.files();
        let tried: usize = files.iter().map(|file| file.study.evaluations().len()).sum();
        let failed: usize = files.iter().map(|file| file.study.failed()).sum();
        let only = if files.len() == 1 { files.first() } else { None };
        if global.json {
            out.object(&json!({ "name": name, "sizes": files.len(), "evaluations": tried, "failed": failed, "best": only.map(best_view) }))?;
            continue;
        }
        let best = only.and_then(|file| Some((file, file.study.best()?)));
        let value =
            best.and_then(|(file, best)| Some(shown(best.outcome.ran()?.value, &file.definition().unit)));
        let point = best.map(|(file, best)| file.study.space().point(best.at).words());
        table.row(vec![
            name,
            files.len().to_string(),
            tried.to_string(),
            failed.to_string(),
            value.unwrap_or_default(),
            point.unwrap_or_default(),
        ]);
    }
    if !global.json {
        match table.is_empty() {
            true => out.line(format!("no studies in {}", studies.display()))?,
            false => out.table(&table)?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn export(global: &Global, name: &str, file: Option<&Path>, dir: Option<&Path>) -> Result<ExitCode> {
    let answers = Answers::read(&kept(global, dir, name)?)?;
    let [study] = answers.files() else {
        return Err(anyhow!("`{name}` has {} sizes; T4 results are of one", answers.files().len()));
    };
    let (results, out) = (write_t4(&study.study, name, &study.definition().unit), Output::new(global));
    let Some(file) = file.filter(|file| *file != Path::new("-")) else {
        let text =
            if global.json { serde_json::to_vec(&results)? } else { serde_json::to_vec_pretty(&results)? };
        let mut out = std::io::stdout().lock();
        out.write_all(&text)?;
        out.write_all(b"\n")?;
        return Ok(ExitCode::SUCCESS);
    };
    let text = serde_json::to_vec_pretty(&results)?;
    trimtab_replay::write_whole(file, &text)
        .with_context(|| format!("{} could not be written", file.display()))?;
    let (count, shown) = (study.study.evaluations().len(), file.display().to_string());
    let words = format!("wrote {} to {shown}", counted(count, "result"));
    out.either(&json!({ "file": shown, "results": count }), || out.line(words))?;
    Ok(ExitCode::SUCCESS)
}
