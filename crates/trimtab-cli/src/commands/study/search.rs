//! What searches of commands and of kernels in files share: studies by size, the budget, progress, what is printed in the end.

use super::no_number::NoNumber;
use super::{best_of, best_view, check_name, evaluation_view, opened, shown, studies};
use crate::args::Global;
use crate::args::study::{KeptWhere, Search};
use crate::failure::{FAILED, bad_input};
use crate::interrupt;
use crate::output::{Output, counted, percent, printable, time};
use crate::progress::{Bar, HowLong};
use crate::session::warn;
use crate::table::Table;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use trimtab::Nanos;
use trimtab::advanced::study::{
    Definition, DriveError, Effort, EndedBy, Evaluation, Goals, Json, LOG_ENDING, OUTLIER, Outcome,
    Parameter, ParameterSpace, Runner, Setting, Spending, StudyError, StudyFile, drive, failures,
    fingerprint_of, outliers,
};
use trimtab::advanced::tune::search::Donor;

/// Points tried where neither a number nor a time is given.
const USUAL_EVALUATIONS: usize = 100;
/// The most sizes of one command.
const MAX_SIZES: usize = 1_000;

/// Where in a study's directory is what was built for its points.
pub const BUILT: &str = "built";

/// Sizes by name.
pub type Sizes = Vec<(String, Setting)>;

/// A search as it is asked for, read before anything runs.
pub struct Asked<'a> {
    pub space: Arc<ParameterSpace>,
    /// Each with a search of its own; one without any where there are none.
    pub sizes: Vec<Sizes>,
    /// The same as they were given.
    pub size_texts: &'a [String],
    pub goals: Goals,
    pub donors: Vec<Donor>,
    pub search: &'a Search,
    pub kept: &'a KeptWhere,
    /// The name of the study, and what it is called after without one.
    pub name: Option<&'a str>,
    pub program: String,
    /// Everything else that makes this study another.
    pub what: Value,
    /// `s`, where the value is a time.
    pub unit: &'static str,
    /// Whether what is timed includes starting a process.
    pub times_processes: bool,
    pub evals: Option<u64>,
    pub budget: Option<Nanos>,
    pub workers: usize,
    pub effort: Effort,
    pub build_ahead: bool,
}

/// Makes what runs points of these sizes; the path is the study's directory.
pub type MakeRunner<'a> = dyn Fn(&Sizes, &Path, &Arc<AtomicBool>) -> Box<dyn Runner> + 'a;

impl Asked<'_> {
    fn definition(&self, sizes: &Sizes) -> Definition {
        Definition {
            space: self.space.definition().clone(),
            goals: self.goals.clone(),
            strategy: self.search.strategy.clone(),
            seed: self.search.seed,
            sizes: sizes.iter().map(|(name, value)| (name.clone(), value.to_json())).collect(),
            unit: self.unit.to_string(),
            what: self.what.clone(),
        }
    }
}

/// Searches.
pub fn run(global: &Global, asked: &Asked<'_>, make: &MakeRunner<'_>) -> Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::set_when_asked(&stop);
    let (name, place, _forgotten) = place(global, asked)?;
    let out = Output::new(global);
    let mut searched: Vec<StudyFile> = Vec::new();
    let mut ended_by = EndedBy::Space;
    let count = asked.sizes.len();
    let mut no_number = NoNumber::default();
    for (at, sizes) in asked.sizes.iter().enumerate() {
        let donors: Vec<Donor> =
            asked.donors.iter().cloned().chain(searched.iter().map(|file| file.study.donor())).collect();
        let file = format!("{}.{LOG_ENDING}", key(sizes));
        let (path, definition) = (place.join(file), asked.definition(sizes));
        let mut file = opened(&path, &definition, &asked.space, &donors, asked.kept.fresh)?;
        file.warnings().iter().for_each(|warning| warn(warning));
        if asked.kept.fresh && at == 0 {
            forget_built(&place.join(BUILT))?;
        }
        // What earlier sizes left over is shared by those to come.
        let spent: f64 = searched.iter().map(StudyFile::seconds).sum();
        let budget = asked.budget.map(|budget| {
            let left = (budget.0 as f64 / 1e9 - spent).max(0.0) / (count - at) as f64;
            Nanos((left * 1e9) as u64)
        });
        let evaluations =
            asked.evals.map(|evals| evals as usize).or(asked.budget.is_none().then_some(USUAL_EVALUATIONS));
        let spending = Spending {
            evaluations,
            budget,
            workers: asked.workers,
            effort: asked.effort,
            build_ahead: asked.build_ahead,
            stop: Arc::clone(&stop),
        };
        let most = evaluations.map_or(file.study.space().len(), |most| most.min(file.study.space().len()));
        let bar = match at {
            0 => {
                let how_long = asked.budget.map_or(HowLong::Points(most * count), HowLong::AtMost);
                let what = format!("searching settings for {}", printable(&name));
                Bar::announced(most, &what, how_long, "what is measured is kept at once")
            }
            _ => Bar::new(most),
        };
        if global.json {
            let known = file.study.evaluations().to_vec();
            known.iter().try_for_each(|known| line(&out, &file, known, true))?;
        }
        (0..file.earlier().min(most)).for_each(|_| bar.next());
        let runner = make(sizes, &place, &stop);
        let mut closed = None;
        let ended = drive(&mut file, runner.as_ref(), &spending, &mut |file, known| {
            bar.next();
            no_number.look(file);
            bar.say(|| progress(file, &spending, most));
            if global.json {
                closed = line(&out, file, known, false).err();
            }
            closed.is_none()
        });
        drop(bar);
        // Whoever reads us has seen enough.
        if let Some(error) = closed {
            return Err(error);
        }
        ended_by = ended.map_err(drive_said)?;
        searched.push(file);
        if matches!(ended_by, EndedBy::Interrupt | EndedBy::Metric) {
            break;
        }
    }
    if global.json {
        out.object(&last_line(&name, &searched, ended_by))?;
    } else {
        show(&out, &name, &place, &searched, ended_by)?;
    }
    searched.iter().for_each(|file| no_number.end(file));
    doubts(&searched, asked.times_processes);
    let found = !searched.is_empty() && searched.iter().all(|file| file.study.best().is_some());
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// An error of a study: what the caller can change is bad input.
pub(super) fn said(error: StudyError) -> anyhow::Error {
    match error {
        StudyError::Wrong(reason) => bad_input(reason),
        error @ (StudyError::Other { .. } | StudyError::Busy(_)) => bad_input(error.to_string()),
        error => error.into(),
    }
}

fn drive_said(error: DriveError) -> anyhow::Error {
    match error {
        DriveError::Study(error) => said(error),
        DriveError::Fatal(reason) => bad_input(reason),
    }
}

/// Every combination of sizes; one without any where there are none.
pub fn sizes(texts: &[String], space: &ParameterSpace) -> Result<Vec<Sizes>> {
    let mut all: Vec<(String, Vec<Setting>)> = Vec::new();
    for text in texts {
        let size =
            Parameter::parse(text).map_err(|reason| bad_input(format!("--size '{text}': {reason}")))?;
        if size.values.iter().any(|value| value.number().is_none_or(|number| number <= 0.0)) {
            return Err(bad_input(format!("--size '{text}': sizes are numbers above zero")));
        }
        let taken = space.parameters().iter().any(|known| known.name == size.name)
            || all.iter().any(|(name, _)| *name == size.name);
        if taken {
            return Err(bad_input(format!(
                "--size '{text}': the name is taken; choose another for one of them"
            )));
        }
        all.push((size.name, size.values));
    }
    combined(&all)
}

/// Every combination.
pub fn combined(sizes: &[(String, Vec<Setting>)]) -> Result<Vec<Sizes>> {
    let mut all: Vec<Sizes> = vec![Vec::new()];
    for (name, values) in sizes {
        let with = |known: &Sizes, value: &Setting| {
            known.iter().cloned().chain([(name.clone(), value.clone())]).collect()
        };
        all = all
            .iter()
            .flat_map(|known| values.iter().map(move |value| (known, value)))
            .map(|(known, value)| with(known, value))
            .collect();
        if all.len() > MAX_SIZES {
            return Err(bad_input(format!(
                "there are more than {MAX_SIZES} combinations of sizes; give fewer"
            )));
        }
    }
    Ok(all)
}

/// What was compiled is forgotten with everything else.
fn forget_built(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(bad_input(format!("{} cannot be removed: {error}; remove it", dir.display())))
        }
        _ => Ok(()),
    }
}

fn key(sizes: &Sizes) -> String {
    let parts: Vec<String> = sizes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if parts.is_empty() { "study".to_string() } else { parts.join(",") }
}

/// A directory that is gone when the command ends.
struct Forgotten(PathBuf);

impl Drop for Forgotten {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The name of the study and its directory.
fn place(global: &Global, asked: &Asked<'_>) -> Result<(String, PathBuf, Option<Forgotten>)> {
    let name = match asked.name {
        Some(name) => name.to_string(),
        None => {
            let program = Path::new(&asked.program)
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let plain: String =
                program.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(32).collect();
            let all = json!({ "definition": asked.definition(&Vec::new()), "sizes": asked.size_texts });
            let plain = if plain.is_empty() { "command" } else { plain.as_str() };
            format!("{plain}-{}", &fingerprint_of(&all.to_string())[..8])
        }
    };
    check_name(&name)?;
    if let Some(studies) = studies(global, asked.kept.dir.as_deref()) {
        let place = studies.join(&name);
        // A relative path means something else to a child that runs elsewhere.
        let place = std::path::absolute(&place).unwrap_or(place);
        return Ok((name, place, None));
    }
    warn("wisdom is off: nothing of this search is kept; say where with --dir DIR");
    let place = std::env::temp_dir().join(format!("trimtab-study-{}", std::process::id()));
    Ok((name, place.clone(), Some(Forgotten(place))))
}

/// One evaluation as a line of JSON.
fn line(out: &Output, file: &StudyFile, known: &Evaluation, earlier: bool) -> Result<()> {
    let mut view = evaluation_view(file, known);
    if earlier {
        view.insert("earlier".into(), json!(true));
    }
    out.object(&view)
}

fn last_line(name: &str, searched: &[StudyFile], ended_by: EndedBy) -> Value {
    let sum = |count: &dyn Fn(&StudyFile) -> usize| searched.iter().map(count).sum::<usize>();
    let by_sizes = searched.iter().any(|file| !file.definition().sizes.is_empty());
    let mut last = json!({
        "best": searched.last().filter(|_| !by_sizes).map_or(Value::Null, best_view),
        "evaluations": sum(&|file| file.study.evaluations().len()),
        "failed": sum(&|file| file.study.failed()),
        "ended_by": ended_by.name(),
        "name": name,
    });
    if by_sizes {
        let bests = searched.iter().map(|file| {
            let sizes: Map<String, Json> = file.definition().sizes.iter().cloned().collect();
            json!({ "sizes": sizes, "best": best_view(file) })
        });
        last["bests"] = bests.collect();
    }
    if let [file] = searched
        && !file.study.goals().objectives.is_empty()
    {
        last["front"] = file.study.front().into_iter().filter_map(|known| best_of(file, known)).collect();
    }
    last
}

/// The line of the progress bar.
fn progress(file: &StudyFile, spending: &Spending, most: usize) -> String {
    let study = &file.study;
    let mut words = Vec::new();
    match study.best().and_then(|best| Some((best, best.outcome.ran()?.value))) {
        Some((best, value)) => {
            words.push(format!(
                "best {} at {}",
                shown(value, &file.definition().unit),
                study.space().point(best.at).words()
            ));
        }
        None => words.push("nothing ran yet".to_string()),
    }
    if study.failed() > 0 {
        words.push(format!("{} failed", study.failed()));
    }
    let (done, spent) = (study.evaluations().len(), file.seconds());
    let each = (done > 0).then(|| spent / done as f64);
    let by_points = (most > done).then(|| each.map(|each| each * (most - done) as f64)).flatten();
    let by_time = spending.budget.map(|budget| (budget.0 as f64 / 1e9 - spent).max(0.0));
    let left = match (by_points, by_time) {
        (Some(points), Some(time)) => Some(points.min(time)),
        (points, time) => points.or(time),
    };
    // As many points as the time will do for, and no more than are allowed.
    let by_time = by_time.zip(each).map(|(left, each)| (left / each.max(1e-9)) as usize);
    let points = most.saturating_sub(done).min(by_time.unwrap_or(usize::MAX));
    let gain = study.expected_gain(points);
    words.extend(gain.map(|gain| format!("the {points} left may gain {}", percent(gain))));
    words.extend(left.map(|left| format!("{} left", time(left * 1e9))));
    words.join(", ")
}

fn show(out: &Output, name: &str, place: &Path, searched: &[StudyFile], ended_by: EndedBy) -> Result<()> {
    let by_sizes = searched.iter().any(|file| !file.definition().sizes.is_empty());
    let several = searched.iter().any(|file| !file.study.goals().objectives.is_empty());
    if by_sizes || several {
        let mut table = Table::new(&["sizes", ">value", "numbers", "point"]);
        for file in searched {
            let sizes: Vec<String> =
                file.definition().sizes.iter().map(|(name, value)| format!("{name}={value}")).collect();
            for known in if several { file.study.front() } else { file.study.best().into_iter().collect() } {
                let Outcome::Ran(ran) = &known.outcome else { continue };
                let numbers: Vec<String> =
                    ran.others.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let point = file.study.space().point(known.at).words();
                table.row(vec![
                    sizes.join(" "),
                    shown(ran.value, &file.definition().unit),
                    numbers.join(" "),
                    point,
                ]);
            }
        }
        out.table_if_any(&table)?;
    } else if let Some((file, best)) = searched.last().and_then(|file| Some((file, file.study.best()?))) {
        let value = best.outcome.ran().map_or(f64::NAN, |ran| ran.value);
        out.line(format!("best   {}", file.study.space().point(best.at).words()))?;
        let beside = best.outcome.ran().map(|ran| {
            ran.others.iter().map(|(name, value)| format!(", {name} {value}")).collect::<String>()
        });
        out.line(format!(
            "value  {} ({}{})",
            shown(value, &file.definition().unit),
            counted(best.repeats as usize, "run"),
            beside.unwrap_or_default()
        ))?;
    }
    for file in searched {
        let failed: Vec<String> =
            failures(&file.study).iter().map(|kind| format!("{} {}", kind.count, kind.fault)).collect();
        let failed =
            if failed.is_empty() { String::new() } else { format!(", failed: {}", failed.join(", ")) };
        let (tried, all) = (file.study.evaluations().len(), file.study.space().len());
        out.line(format!("tried  {tried} of {}{failed}", counted(all, "point")))?;
        if let (None, Some(kind)) = (file.study.best(), failures(&file.study).first()) {
            out.line(format!("nothing ran: at {}: {}", kind.example, kind.message))?;
            kind.output.iter().try_for_each(|line| out.line(format!("    {line}")))?;
        }
    }
    let why = match ended_by {
        EndedBy::Interrupt => "interrupted; everything measured is kept, the same command goes on from here",
        EndedBy::Budget => "the budget is spent",
        EndedBy::Evaluations => "as many points were tried as were asked for",
        EndedBy::Space => "every point was tried",
        EndedBy::Metric => "no point had the number asked for: mend --metric, or --also",
    };
    out.line(format!("ended  {why}"))?;
    out.line(format!("kept   as {name} in {}; trimtab study report {name} shows more", place.display()))
}

/// What a careful person would want to know of the times.
fn doubts(searched: &[StudyFile], times_processes: bool) {
    let (mut slow, mut all) = (0, 0);
    for file in searched.iter().filter(|file| file.definition().unit == "s") {
        for ran in file.study.evaluations().iter().filter_map(|known| known.outcome.ran()) {
            slow += outliers(&ran.samples);
            all += ran.samples.len();
        }
        if let Some(best) = file
            .study
            .best()
            .and_then(|best| best.outcome.ran())
            .filter(|ran| times_processes && ran.value < 0.005)
        {
            let value = shown(best.value, "s");
            warn(&format!(
                "the best takes {value}: starting a process is much of that; let the command do more, or measure inside of it (--metric regex:…)"
            ));
        }
    }
    if slow * 10 > all {
        warn(&printable(&format!(
            "{slow} of {all} runs took over {} longer than the fastest of their point: something else uses the machine; the fastest counts",
            percent(OUTLIER - 1.0)
        )));
    }
}
