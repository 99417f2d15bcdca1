//! Writes recordings in the format they are read in: `index.json`, and per space compressed tables of points and repeats.
//!
//! Every file is written beside its place and renamed, so that a reader sees the old or the new one, never half of one.

use crate::reader::{ReadError, read_index};
use crate::recording::{Completeness, Outcome, Recording};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use trimtab_core::{FailureKind, MAX_AXES};

/// Why a recording could not be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum WriteError {
    /// A file could not be written.
    #[error("{path} cannot be written: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// The index that is there already cannot be read, so nothing can be added to it.
    #[error(transparent)]
    Index(#[from] ReadError),
    /// The recording cannot be said in the format.
    #[error("{name} cannot be written as a recording: {reason}")]
    Unfit { name: String, reason: String },
    /// There is one of that name, which would be lost.
    #[error("there is a recording {name} in {directory} already")]
    Exists { name: String, directory: PathBuf },
}

/// What becomes of a recording that has the name of one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameName {
    /// It takes the other's place.
    Replaces,
    /// It is not written, and that is an error.
    IsRefused,
    /// It gets a number behind its name: `conv__card_2`.
    IsNumbered,
}

/// The most recordings of one name that are numbered.
const MAX_NUMBERED: u32 = 10_000;

/// Columns that stand behind the axes; no axis may have such a name.
const COLUMNS: [&str; 8] =
    ["status", "time_ms", "min_ms", "median_ms", "std_ms", "n", "compile_ms", "failure"];

/// Legal points are counted for the index up to so many combinations, times what their constraints evaluate; beyond, only where every
/// one has a row.
const COUNTED: u64 = 100_000_000;

/// Adds recordings to a directory, which is made if it does not exist. Recordings of the same name are replaced, all
/// others are kept as they are.
pub fn write_recordings(directory: &Path, recordings: &[Recording]) -> Result<(), WriteError> {
    let mut recordings: Vec<Cow<'_, Recording>> = recordings.iter().map(Cow::Borrowed).collect();
    write(directory, &mut recordings, SameName::Replaces)
}

/// Adds a recording in the same way and gives back the name it got: what becomes of one of the same name is the caller's to say.
pub fn add_recording(directory: &Path, recording: &Recording, same: SameName) -> Result<String, WriteError> {
    let mut one = [Cow::Borrowed(recording)];
    write(directory, &mut one, same)?;
    let [written] = one;
    Ok(written.into_owned().name)
}

/// The name a recording gets among those that are there.
fn name_among(entries: &[Value], name: &str, directory: &Path, same: SameName) -> Result<String, WriteError> {
    // Names are files' names, and some systems do not tell capitals apart.
    let is_there = |name: &str| {
        let is_its = |known: &Value| {
            known.get("space").and_then(Value::as_str).is_some_and(|known| known.eq_ignore_ascii_case(name))
        };
        entries.iter().any(is_its)
    };
    if same == SameName::Replaces || !is_there(name) {
        return Ok(name.to_string());
    }
    let mut numbered = (2..=MAX_NUMBERED).map(|number| format!("{name}_{number}"));
    let free = numbered.find(|name| !is_there(name)).filter(|_| same == SameName::IsNumbered);
    free.ok_or_else(|| WriteError::Exists { name: name.to_string(), directory: directory.to_path_buf() })
}

fn write(directory: &Path, recordings: &mut [Cow<'_, Recording>], same: SameName) -> Result<(), WriteError> {
    for recording in &*recordings {
        check(recording)?;
    }
    let spaces = directory.join("spaces");
    std::fs::create_dir_all(&spaces).map_err(|source| WriteError::File { path: spaces.clone(), source })?;
    // Two processes that add to one index would lose what the other added. Where directories cannot be locked they may.
    let lock = std::fs::File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
    let index = directory.join("index.json");
    let mut entries = if index.exists() { read_index(directory)?.1 } else { Vec::new() };
    for recording in recordings {
        let name = name_among(&entries, &recording.name, directory, same)?;
        if name != recording.name {
            recording.to_mut().name = name;
        }
        let (csv, reps) = (format!("{}.csv.gz", recording.name), format!("{}.reps.csv.gz", recording.name));
        let reps = (!recording.repeats.is_empty()).then_some(reps);
        write_table(&spaces.join(&csv), &rows(recording))?;
        if let Some(reps) = &reps {
            write_table(&spaces.join(reps), &repeats(recording))?;
        }
        let entry = entry(recording, &csv, reps.as_deref());
        let same = |known: &&mut Value| known.get("space").and_then(Value::as_str) == Some(&recording.name);
        match entries.iter_mut().find(same) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }
    // One space a line: a change of one recording is a change of one line.
    let lines: Vec<String> = entries.iter().map(Value::to_string).collect();
    let written = write_file(&index, format!("[\n{}\n]\n", lines.join(",\n")).as_bytes());
    drop(lock);
    written
}

/// A name that is safe as a file name everywhere: other characters become `_`.
pub fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = text.trim().chars().map(safe).collect();
    name.trim_start_matches('.').to_string()
}

fn check(recording: &Recording) -> Result<(), WriteError> {
    let unfit =
        |reason: String| Err(WriteError::Unfit { name: recording.name.clone(), reason: reason.to_string() });
    if recording.name.is_empty() || recording.name != file_name(&recording.name) {
        return unfit("a name is made of ASCII letters, digits, `_`, `-` and `.`".to_string());
    }
    if recording.axes.len() > MAX_AXES {
        return unfit(format!("{} axes, at most {MAX_AXES}", recording.axes.len()));
    }
    for (at, axis) in recording.axes.iter().enumerate() {
        let bad = axis.name.is_empty() || axis.name.contains([',', '"', '\n', '\r']);
        if bad || COLUMNS.contains(&axis.name.as_str()) {
            return unfit(format!("no axis can be called `{}`", axis.name));
        }
        if recording.axes[..at].iter().any(|other| other.name == axis.name) {
            return unfit(format!("two axes are called `{}`", axis.name));
        }
    }
    for row in &recording.rows {
        let values = row.point.values();
        let known = recording.axes.iter().zip(values).all(|(axis, value)| axis.values.contains(value));
        if values.len() != recording.axes.len() || !known {
            return unfit(format!("the point {values:?} is not on its axes"));
        }
        match row.outcome {
            Outcome::Ran(timing) if !(timing.mean_ms > 0.0 && timing.mean_ms.is_finite()) => {
                return unfit(format!("the point {values:?} took {} ms", timing.mean_ms));
            }
            Outcome::Failed(FailureKind::Untried) => {
                return unfit(format!("the point {values:?} was not tried"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_table(path: &Path, text: &str) -> Result<(), WriteError> {
    let failed = |source| WriteError::File { path: path.to_path_buf(), source };
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).map_err(failed)?;
    write_file(path, &encoder.finish().map_err(failed)?)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_whole(path, bytes).map_err(|source| WriteError::File { path: path.to_path_buf(), source })
}

/// Writes beside the place and renames, so that whoever looks sees the old file or the new one, never half of one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::File::create(&beside)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&beside, path));
    written.inspect_err(|_| {
        // What is left of the attempt is of no use to anyone, and may never have been made.
        let _ = std::fs::remove_file(&beside);
    })
}

/// The status in the table, and the finer kind where the status does not tell.
fn status(outcome: &Outcome) -> (&'static str, &'static str) {
    match outcome {
        Outcome::Ran(_) => ("ok", ""),
        Outcome::Failed(FailureKind::Compile) => ("compile_failed", ""),
        Outcome::Failed(FailureKind::Launch) => ("runtime_failed", ""),
        Outcome::Failed(other) => ("failed", other.name()),
    }
}

fn rows(recording: &Recording) -> String {
    let compiled = recording.rows.iter().any(|row| row.compile_ms.is_some());
    let finer = recording.rows.iter().any(|row| !status(&row.outcome).1.is_empty());
    let mut text: String = recording.axes.iter().map(|axis| format!("{},", axis.name)).collect();
    text.push_str("status,time_ms,min_ms,median_ms,std_ms,n");
    text.push_str(if compiled { ",compile_ms" } else { "" });
    text.push_str(if finer { ",failure\n" } else { "\n" });
    for (at, row) in recording.rows.iter().enumerate() {
        for value in row.point.values() {
            // Writing to a string never fails.
            let _ = write!(text, "{value},");
        }
        let (status, kind) = status(&row.outcome);
        text.push_str(status);
        match row.outcome {
            Outcome::Ran(timing) => {
                let spread = spread(recording, at).map(|ms| ms.to_string()).unwrap_or_default();
                let n = recording.repeat_count(at).max(1);
                let _ =
                    write!(text, ",{},{},{},{spread},{n}", timing.mean_ms, timing.min_ms, timing.median_ms);
            }
            Outcome::Failed(_) => text.push_str(",,,,,0"),
        }
        if compiled {
            let _ = write!(text, ",{}", row.compile_ms.map(|ms| ms.to_string()).unwrap_or_default());
        }
        text.push_str(&if finer { format!(",{kind}\n") } else { "\n".to_string() });
    }
    text
}

fn repeats(recording: &Recording) -> String {
    let mut text = "row,reps_in_1e-4_of_time_ms...\n".to_string();
    for row in 0..recording.rows.len() {
        let (from, to) = (recording.repeats_from[row] as usize, recording.repeats_from[row + 1] as usize);
        if from < to {
            let cells: Vec<String> = recording.repeats[from..to].iter().map(u32::to_string).collect();
            let _ = writeln!(text, "{row},{}", cells.join(","));
        }
    }
    text
}

/// The standard deviation of a row's repeats in milliseconds; absent for fewer than two.
fn spread(recording: &Recording, row: usize) -> Option<f64> {
    let count = recording.repeat_count(row);
    let repeats: Vec<f64> = (0..count).filter_map(|repeat| recording.repeat_ms(row, repeat)).collect();
    let mean = repeats.iter().sum::<f64>() / count as f64;
    let squares: f64 = repeats.iter().map(|ms| (ms - mean) * (ms - mean)).sum();
    (count > 1).then(|| (squares / (count - 1) as f64).sqrt())
}

/// Names that have one value, and what holds for legal points.
pub(crate) fn written_constraints(recording: &Recording) -> (Map<String, Value>, Vec<&str>) {
    let fixed = recording.fixed.iter().map(|(name, value)| (name.clone(), json!(value)));
    (fixed.collect(), recording.constraints.iter().map(|constraint| constraint.text()).collect())
}

fn entry(recording: &Recording, csv: &str, reps: Option<&str>) -> Value {
    let mut problem = Map::new();
    problem.insert("op".to_string(), recording.op.as_str().into());
    problem.insert("sizes".to_string(), recording.sizes.as_slice().into());
    for (name, work) in [("flops", recording.flops), ("bytes", recording.bytes)] {
        if work > 0 {
            problem.insert(name.to_string(), work.into());
        }
    }
    let params: Map<String, Value> =
        recording.axes.iter().map(|axis| (axis.name.clone(), axis.values.as_slice().into())).collect();
    let (fixed, constraints) = written_constraints(recording);
    let mut counts = Map::new();
    for row in &recording.rows {
        let count = counts.entry(status(&row.outcome).0).or_insert(json!(0));
        *count = json!(count.as_u64().unwrap_or(0) + 1);
    }
    let mut object = json!({
        "space": recording.name,
        "kernel": recording.kernel,
        "variant": recording.variant,
        "device": recording.device,
        "device_name": recording.device_name,
        "api": recording.api,
        "problem": problem,
        "params": params,
        "fixed": fixed,
        "constraints": constraints,
        "cartesian": recording.combinations(),
        "rows": recording.rows.len(),
        "status": counts,
        "completeness": recording.completeness.name(),
        "objective": "minimise time_ms",
        "csv": csv,
        "reps_csv": reps,
        "origin": recording.origin,
    });
    summarise(recording, &mut object);
    object
}

/// What can be worked out from the rows, for people and other programs that read the index alone.
fn summarise(recording: &Recording, object: &mut Value) {
    let countable = recording.combinations().is_some_and(|combinations| {
        let terms: u64 = recording.constraints.iter().map(|one| u64::from(one.terms())).sum();
        combinations.saturating_mul(terms.max(1)) <= COUNTED
    });
    let feasible = match recording.completeness {
        Completeness::Everything => Some(recording.rows.len() as u64),
        Completeness::Sample => countable.then(|| recording.count_legal()),
    };
    object["feasible"] = json!(feasible);
    let ran = || recording.rows.iter().filter_map(|row| Some((row.outcome.mean_ms()?, row)));
    let mut times: Vec<f64> = ran().map(|(ms, _)| ms).collect();
    times.sort_unstable_by(f64::total_cmp);
    if let Some((optimum, row)) = ran().min_by(|a, b| a.0.total_cmp(&b.0)) {
        let within = |factor: f64| {
            times.iter().filter(|ms| **ms <= optimum * factor).count() as f64 / times.len() as f64
        };
        let at = |share: f64| optimum / times[(share * (times.len() - 1) as f64).round() as usize];
        let names = recording.axes.iter().map(|axis| axis.name.clone());
        let point: Map<String, Value> =
            names.zip(row.point.values().iter().map(|value| json!(value))).collect();
        object["optimum_ms"] = json!(optimum);
        object["optimum"] = json!(point);
        object["median_ms"] = json!(trimtab_tune::median(&times));
        object["worst_ms"] = json!(times.last());
        object["within_5pct"] = json!(within(1.05));
        object["within_10pct"] = json!(within(1.1));
        object["perf_quantiles"] = json!({"p01": at(0.01), "p05": at(0.05), "p25": at(0.25), "p50": at(0.5)});
    }
    let most = (0..recording.rows.len()).map(|row| recording.repeat_count(row)).max().unwrap_or(0);
    let mut spreads: Vec<f64> = recording
        .rows
        .iter()
        .enumerate()
        .filter_map(|(at, row)| Some(spread(recording, at)? / row.outcome.mean_ms()?))
        .collect();
    spreads.sort_unstable_by(f64::total_cmp);
    object["repeats"] = json!(most.max(1));
    object["median_cv"] = json!(trimtab_tune::median(&spreads));
    let p95 = spreads.get((0.95 * spreads.len() as f64) as usize).or(spreads.last());
    object["p95_cv"] = json!(p95);
}
