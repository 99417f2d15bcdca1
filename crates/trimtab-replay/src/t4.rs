//! The T4 results of the auto-tuning community: what Kernel Tuner and others write, read as a recording and written from one.
//!
//! T4 holds configurations and their times. What a recording knows beyond that (its names, constraints, completeness)
//! goes into `metadata`, where other programs pass it over, and is read back from there.

use crate::file_name;
use crate::reader::read_constraints;
use crate::recording::{Axis, Completeness, Outcome, Recording, Row, Timing};
use crate::writer::written_constraints;
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trimtab_core::{FailureKind, MAX_AXES, MAX_SIZES, Point};
use trimtab_wisdom::files;

/// The version of the schema that is written.
const VERSION: &str = "1.0.0";
/// The most bytes of T4 results that are read, unpacked.
pub const MAX_T4_BYTES: u64 = 128 << 20;
/// How a compressed file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Why T4 results could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum T4Error {
    /// The text is not JSON, or holds no results.
    #[error("{0}")]
    Text(String),
    /// One of the results is wrong.
    #[error("result {number}: {reason}")]
    Entry { number: usize, reason: String },
}

/// What T4 results do not say about themselves. What is given here wins over what the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct T4Names {
    /// The recording's name; made of kernel and device if absent.
    pub name: Option<String>,
    /// The kernel.
    pub kernel: Option<String>,
    /// The device.
    pub device: Option<String>,
    /// Whether every legal point is among the results.
    pub complete: bool,
}

/// Results read from T4, and how many of them were left out because they lie outside their space's constraints.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The recording.
    pub recording: Recording,
    /// Results left out.
    pub illegal: usize,
    /// Whether the caller or the file named the recording; else its name is made of kernel and device, and others may have the same.
    pub is_named: bool,
}

/// Reads T4 results, compressed or not. Fields nobody here knows are passed over.
pub fn read_t4(bytes: &[u8], names: &T4Names) -> Result<Imported, T4Error> {
    let unpacked;
    let bytes = match bytes.starts_with(&GZIP) {
        true => {
            let failed = |error| T4Error::Text(format!("cannot be decompressed: {error}"));
            unpacked = files::read_at_most(GzDecoder::new(bytes), MAX_T4_BYTES).map_err(failed)?;
            unpacked.as_slice()
        }
        false => bytes,
    };
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| T4Error::Text(format!("not JSON: {error}")))?;
    let results = value.get("results").and_then(Value::as_array);
    let results = results.ok_or_else(|| {
        let what = "no list `results`: not a T4 results file";
        let hint = if value.get("cache").is_some() {
            "; this is a cache file of Kernel Tuner: convert it with `kernel_tuner.cache.cli_tools` or store_output_file"
        } else {
            ""
        };
        T4Error::Text(format!("{what}{hint}"))
    })?;
    let metadata = value.get("metadata").cloned().unwrap_or_default();
    let unit = metadata.get("timeunit").and_then(Value::as_str).unwrap_or("ms");
    let default_ms = unit_ms(unit).ok_or_else(|| T4Error::Text(unknown_unit(unit)))?;
    let axis_names = axis_names(results)?;
    let mut rows: Vec<Row> = Vec::new();
    let mut repeats: Vec<Vec<f64>> = Vec::new();
    let mut places = BTreeMap::new();
    let mut illegal = 0;
    for (at, result) in results.iter().enumerate() {
        let wrong = |reason: String| T4Error::Entry { number: at + 1, reason };
        let point = point(result, &axis_names).map_err(wrong)?;
        let Some(outcome) = outcome(result, default_ms).map_err(wrong)? else {
            illegal += 1;
            continue;
        };
        if let Some(earlier) = places.insert(point, at + 1) {
            return Err(wrong(format!(
                "the same configuration as result {earlier}; keep one of them, or give both times as `runtimes` of one"
            )));
        }
        let compile =
            number(result, &["times", "compilation_time"]).or(number(result, &["times", "compilation"]));
        let compile_ms = compile.map(|time| time * default_ms).filter(|ms| *ms > 0.0 && ms.is_finite());
        rows.push(Row { point, outcome: outcome.0, compile_ms });
        repeats.push(outcome.1);
    }
    if rows.is_empty() {
        return Err(T4Error::Text("no result can be used: the list is empty".to_string()));
    }
    let recording = assemble(&metadata, names, axis_names, rows)?;
    let is_named = names.name.is_some() || metadata.get("space").is_some_and(Value::is_string);
    Ok(Imported { recording: recording.with_repeats(&repeats), illegal, is_named })
}

/// Writes a recording as T4 results.
pub fn write_t4(recording: &Recording) -> Value {
    let results: Vec<Value> =
        recording.rows.iter().enumerate().map(|(at, row)| result(recording, at, row)).collect();
    let axes: Vec<Value> =
        recording.axes.iter().map(|axis| json!({"name": axis.name, "values": axis.values})).collect();
    let (fixed, constraints) = written_constraints(recording);
    json!({
        "schema_version": VERSION,
        "metadata": {
            "timeunit": "milliseconds",
            "space": recording.name,
            "kernel": recording.kernel,
            "variant": recording.variant,
            "device": recording.device,
            "device_name": recording.device_name,
            "api": recording.api,
            "problem": {
                "op": recording.op, "sizes": recording.sizes, "flops": recording.flops, "bytes": recording.bytes,
            },
            "axes": axes,
            "fixed": fixed,
            "constraints": constraints,
            "completeness": recording.completeness.name(),
            "origin": recording.origin,
        },
        "results": results,
    })
}

fn result(recording: &Recording, at: usize, row: &Row) -> Value {
    let configuration: Map<String, Value> = recording
        .axes
        .iter()
        .zip(row.point.values())
        .map(|(axis, value)| (axis.name.clone(), json!(value)))
        .collect();
    let (invalidity, correctness) = match row.outcome {
        Outcome::Ran(_) => ("correct", 1.0),
        Outcome::Failed(FailureKind::Compile) => ("compile", 0.0),
        Outcome::Failed(FailureKind::Wrong) => ("correctness", 0.0),
        Outcome::Failed(FailureKind::TimedOut) => ("timeout", 0.0),
        Outcome::Failed(FailureKind::Launch | FailureKind::Crashed | FailureKind::Untried) => {
            ("runtime", 0.0)
        }
    };
    let runtimes: Vec<f64> =
        (0..recording.repeat_count(at)).filter_map(|repeat| recording.repeat_ms(at, repeat)).collect();
    let measurements: Vec<Value> = match row.outcome {
        Outcome::Ran(timing) => {
            [("time", timing.mean_ms), ("time_min", timing.min_ms), ("time_median", timing.median_ms)]
                .iter()
                .map(|(name, ms)| json!({"name": name, "value": ms, "unit": "ms"}))
                .collect()
        }
        Outcome::Failed(_) => Vec::new(),
    };
    let mut times = Map::new();
    if let Some(compile_ms) = row.compile_ms {
        times.insert("compilation_time".to_string(), json!(compile_ms));
    }
    times.insert("runtimes".to_string(), json!(runtimes));
    json!({
        "configuration": configuration,
        "objectives": ["time"],
        "times": times,
        "invalidity": invalidity,
        "correctness": correctness,
        "measurements": measurements,
    })
}

/// Milliseconds of a unit. The long names are as found in files, one of them misspelt.
fn unit_ms(unit: &str) -> Option<f64> {
    Some(match unit.trim().to_ascii_lowercase().as_str() {
        "s" | "sec" | "second" | "seconds" => 1e3,
        "ms" | "millisecond" | "milliseconds" | "miliseconds" => 1.0,
        "us" | "µs" | "μs" | "microsecond" | "microseconds" => 1e-3,
        "ns" | "nanosecond" | "nanoseconds" => 1e-6,
        _ => return None,
    })
}

fn unknown_unit(unit: &str) -> String {
    format!("`{unit}` is not a unit of time; write s, ms, us or ns")
}

fn number(value: &Value, path: &[&str]) -> Option<f64> {
    path.iter().try_fold(value, |value, key| value.get(key))?.as_f64()
}

/// The axes of the first result, by name; every result must have the same.
fn axis_names(results: &[Value]) -> Result<Vec<String>, T4Error> {
    let first = results.first().and_then(|result| result.get("configuration")).and_then(Value::as_object);
    let names: Vec<String> = first.map(|first| first.keys().cloned().collect()).unwrap_or_default();
    if results.is_empty() || (1..=MAX_AXES).contains(&names.len()) {
        return Ok(names);
    }
    let reason = format!("`configuration` has {} parameters; 1 to {MAX_AXES} are possible", names.len());
    Err(T4Error::Entry { number: 1, reason })
}

fn point(result: &Value, names: &[String]) -> Result<Point, String> {
    let configuration = result.get("configuration").and_then(Value::as_object);
    let configuration = configuration.ok_or("no `configuration`")?;
    if let Some(other) = configuration.keys().find(|key| !names.contains(key)) {
        return Err(format!("the parameter `{other}` is not in the first result; all must have the same"));
    }
    let mut values = [0u32; MAX_AXES];
    for (value, name) in values.iter_mut().zip(names) {
        let given = configuration.get(name);
        let given = given.ok_or_else(|| format!("no parameter `{name}`, which the first result has"))?;
        *value = setting(given).ok_or_else(|| {
            format!(
                "`{name}` is {given}; settings are whole numbers from 0 to {}: number its values",
                u32::MAX
            )
        })?;
    }
    Ok(Point::new(&values[..names.len()]))
}

/// Whole numbers, also written as text or with a point, and truth values.
fn setting(value: &Value) -> Option<u32> {
    match value {
        Value::Bool(on) => Some(u32::from(*on)),
        Value::String(text) => text.trim().parse().ok(),
        other => {
            let number = other.as_f64()?;
            (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
        }
    }
}

/// What came of a configuration and its repeats in milliseconds; nothing if it lies outside the constraints.
fn outcome(result: &Value, default_ms: f64) -> Result<Option<(Outcome, Vec<f64>)>, String> {
    let failed = |kind| Ok(Some((Outcome::Failed(kind), Vec::new())));
    match result.get("invalidity").and_then(Value::as_str).unwrap_or("correct") {
        "correct" | "valid" | "" => {}
        "compile" => return failed(FailureKind::Compile),
        "runtime" => return failed(FailureKind::Launch),
        "timeout" => return failed(FailureKind::TimedOut),
        "correctness" => return failed(FailureKind::Wrong),
        "constraints" => return Ok(None),
        other => {
            let known = "correct, compile, runtime, timeout, correctness, constraints";
            return Err(format!("`invalidity` is `{other}`; known are {known}"));
        }
    }
    let objective = result.get("objectives").and_then(|objectives| objectives.get(0)).and_then(Value::as_str);
    let objective = objective.unwrap_or("time");
    let measurements = result.get("measurements").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let measured = |name: &str| -> Result<Option<(f64, f64)>, String> {
        let named = |entry: &&Value| entry.get("name").and_then(Value::as_str) == Some(name);
        let Some(entry) = measurements.iter().find(named) else { return Ok(None) };
        let unit = entry.get("unit").and_then(Value::as_str).unwrap_or_default().trim();
        let scale = if unit.is_empty() { Some(default_ms) } else { unit_ms(unit) };
        let scale = scale.ok_or_else(|| format!("`{name}`: {}", unknown_unit(unit)))?;
        let value = entry.get("value").and_then(Value::as_f64);
        let value = value.ok_or_else(|| format!("`{name}` is {}, not a number", entry["value"]))?;
        Ok(Some((value * scale, scale)))
    };
    let time = measured(objective)?;
    let scale = time.map_or(default_ms, |(_, scale)| scale);
    let runtimes = result.get("times").and_then(|times| times.get("runtimes")).and_then(Value::as_array);
    let repeats = runtimes.into_iter().flatten().map(|time| {
        let ms = time.as_f64().map(|time| time * scale).filter(|ms| *ms >= 0.0);
        ms.ok_or_else(|| format!("one of `runtimes` is {time}, not a time"))
    });
    let repeats = repeats.collect::<Result<Vec<f64>, String>>()?;
    let mean = (!repeats.is_empty()).then(|| repeats.iter().sum::<f64>() / repeats.len() as f64);
    let mean_ms = time.map(|(ms, _)| ms).or(mean);
    let mean_ms =
        mean_ms.ok_or_else(|| format!("it ran, but neither `{objective}` nor `runtimes` says how long"))?;
    if !(mean_ms > 0.0 && mean_ms.is_finite()) {
        return Err(format!(
            "it ran in {mean_ms} ms; a time is above zero (only times to be minimised are imported)"
        ));
    }
    let given = |name: &str| measured(name).map(|found| found.map(|(ms, _)| ms));
    let min_ms = given("time_min")?.or(trimtab_tune::minimum(&repeats)).unwrap_or(mean_ms);
    let median_ms = given("time_median")?.or(trimtab_tune::median(&repeats)).unwrap_or(mean_ms);
    Ok(Some((Outcome::Ran(Timing { mean_ms, min_ms, median_ms }), repeats)))
}

/// The recording of these rows, named by the caller or by what the file says of itself.
fn assemble(
    metadata: &Value,
    names: &T4Names,
    axis_names: Vec<String>,
    rows: Vec<Row>,
) -> Result<Recording, T4Error> {
    let text = |key: &str| metadata.get(key).and_then(Value::as_str).map(str::to_string);
    let kernel = names.kernel.clone().or(text("kernel")).unwrap_or_else(|| "imported".to_string());
    let device = names.device.clone().or(text("device")).unwrap_or_else(|| "unknown".to_string());
    let name = names.name.clone().or(text("space"));
    let name = name.unwrap_or_else(|| file_name(&format!("{kernel}__{device}")));
    let problem = metadata.get("problem").cloned().unwrap_or_default();
    let sizes = problem.get("sizes").and_then(Value::as_array).cloned().unwrap_or_default();
    let work = |key: &str| problem.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (axes, rows) = axes(metadata, axis_names, rows);
    let (fixed, constraints) =
        read_constraints(metadata, &axes).map_err(|error| T4Error::Text(error.to_string()))?;
    let known = text("completeness");
    let recording = Recording {
        name,
        kernel,
        variant: text("variant").unwrap_or_else(|| "imported".to_string()),
        device_name: text("device_name").unwrap_or_else(|| device.clone()),
        device,
        api: text("api").unwrap_or_else(|| "unknown".to_string()),
        op: problem.get("op").and_then(Value::as_str).unwrap_or_default().to_string(),
        sizes: sizes.iter().filter_map(Value::as_u64).take(MAX_SIZES).collect(),
        flops: work("flops"),
        bytes: work("bytes"),
        axes,
        fixed,
        constraints,
        completeness: Completeness::parse(known.as_deref().unwrap_or_default()),
        origin: text("origin").unwrap_or_else(|| "T4 results".to_string()),
        rows,
        ..Recording::default()
    };
    // A file that says nothing of it is complete if nothing can be missing.
    let whole = known.is_none() && recording.combinations() == Some(recording.rows.len() as u64);
    if !(names.complete || whole) {
        return Ok(recording);
    }
    let legal: Vec<Point> = recording.rows.iter().map(|row| row.point).collect();
    Ok(recording.limit_to(&legal))
}

/// The axes as the file describes them, or with the values that occur, ascending. Rows follow their order.
fn axes(metadata: &Value, names: Vec<String>, rows: Vec<Row>) -> (Vec<Axis>, Vec<Row>) {
    let described = |entry: &Value| -> Option<Axis> {
        let values = entry.get("values")?.as_array()?.iter().map(setting).collect::<Option<Vec<u32>>>()?;
        Some(Axis { name: entry.get("name")?.as_str()?.to_string(), values })
    };
    let known = metadata.get("axes").and_then(Value::as_array);
    let known: Option<Vec<Axis>> = known.and_then(|known| known.iter().map(described).collect());
    let covers = |axes: &Vec<Axis>| {
        let place = |axis: &Axis| names.iter().position(|name| *name == axis.name);
        let holds = |axis: &Axis| {
            place(axis).is_some_and(|at| rows.iter().all(|row| axis.values.contains(&row.point.values()[at])))
        };
        axes.len() == names.len() && axes.iter().all(holds)
    };
    if let Some(axes) = known.filter(covers) {
        let places: Vec<usize> =
            axes.iter().filter_map(|axis| names.iter().position(|name| *name == axis.name)).collect();
        let turned = |row: Row| {
            let values: Vec<u32> = places.iter().map(|&at| row.point.values()[at]).collect();
            Row { point: Point::new(&values), ..row }
        };
        return (axes, rows.into_iter().map(turned).collect());
    }
    let values = |at: usize| {
        let occurring: BTreeSet<u32> = rows.iter().map(|row| row.point.values()[at]).collect();
        occurring.into_iter().collect()
    };
    let axes = names.iter().enumerate().map(|(at, name)| Axis { name: name.clone(), values: values(at) });
    (axes.collect(), rows)
}
