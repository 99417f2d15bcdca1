//! Reads recordings from a directory: `index.json`, and per space compressed tables of points and of repeats.
//!
//! The one module here that touches files. They may be anybody's: every read has a limit.

use crate::recording::{Axis, Completeness, Outcome, Recording, Row, Timing};
use crate::{Expression, ExpressionError};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use trimtab_core::{FailureKind, MAX_AXES, MAX_SIZES, Point};
use trimtab_wisdom::files;

/// The largest index that is read.
pub const MAX_INDEX_BYTES: u64 = 64 << 20;
/// The most bytes of a table, packed or not.
pub const MAX_TABLE_BYTES: u64 = 256 << 20;
/// The most rows of a recording: each takes about 120 bytes of memory.
pub const MAX_ROWS: usize = 4_000_000;

/// Why a recording could not be read.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "fields are named for what they hold")]
pub enum ReadError {
    /// A file could not be opened or decompressed.
    #[error("{path} cannot be read: {source}")]
    File { path: PathBuf, source: std::io::Error },
    /// A file is not in the format of recordings.
    #[error("{path}, line {line}: {reason}")]
    Format { path: PathBuf, line: usize, reason: String },
    /// A constraint could not be read.
    #[error(transparent)]
    Constraint(#[from] ExpressionError),
}

/// The names of the recordings in a directory, in the order of its index.
pub fn list_recordings(directory: &Path) -> Result<Vec<String>, ReadError> {
    let (path, index) = read_index(directory)?;
    index.iter().map(|entry| text(entry, "space", &path)).collect()
}

/// Reads one recording, or all if `wanted` is empty.
pub fn read_recordings(directory: &Path, wanted: &[&str]) -> Result<Vec<Recording>, ReadError> {
    let (path, index) = read_index(directory)?;
    let mut found = Vec::new();
    for entry in &index {
        let name = text(entry, "space", &path)?;
        if wanted.is_empty() || wanted.contains(&name.as_str()) {
            found.push(read_recording(directory, &path, entry)?);
        }
    }
    for name in wanted {
        if !found.iter().any(|recording: &Recording| recording.name == *name) {
            return Err(wrong(&path, 0, format!("there is no space `{name}`")));
        }
    }
    Ok(found)
}

fn wrong(path: &Path, line: usize, reason: impl Into<String>) -> ReadError {
    ReadError::Format { path: path.to_path_buf(), line, reason: reason.into() }
}

pub(crate) fn read_index(directory: &Path) -> Result<(PathBuf, Vec<Value>), ReadError> {
    let path = directory.join("index.json");
    let bytes = files::read(&path, MAX_INDEX_BYTES)
        .map_err(|source| ReadError::File { path: path.clone(), source })?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Array(entries)) => Ok((path, entries)),
        Ok(_) => Err(wrong(&path, 0, "a list of spaces expected")),
        Err(error) => Err(wrong(&path, error.line(), error.to_string())),
    }
}

fn text(entry: &Value, key: &str, path: &Path) -> Result<String, ReadError> {
    let found = entry.get(key).and_then(Value::as_str).map(str::to_string);
    found.ok_or_else(|| wrong(path, 0, format!("a space without `{key}`")))
}

fn table(directory: &Path, file: &str) -> Result<(PathBuf, String), ReadError> {
    let is_inside = Path::new(file).components().all(|part| matches!(part, Component::Normal(_)));
    if !is_inside || file.is_empty() {
        let reason = format!("the table `{file}` is not in this directory; name one beside the index");
        return Err(wrong(&directory.join("index.json"), 0, reason));
    }
    let beside = directory.join("spaces").join(file);
    let path = if beside.exists() { beside } else { directory.join(file) };
    let failed = |source| ReadError::File { path: path.clone(), source };
    let packed = files::open(&path).map_err(failed)?;
    let bytes = files::read_at_most(GzDecoder::new(packed), MAX_TABLE_BYTES).map_err(failed)?;
    let content =
        String::from_utf8(bytes).map_err(|error| failed(std::io::Error::other(error.utf8_error())))?;
    Ok((path, content))
}

fn read_recording(directory: &Path, index: &Path, entry: &Value) -> Result<Recording, ReadError> {
    let name = text(entry, "space", index)?;
    let bad = |reason: String| wrong(index, 0, format!("{name}: {reason}"));
    let params =
        entry.get("params").and_then(Value::as_object).ok_or_else(|| bad("no `params`".to_string()))?;
    let (path, content) = table(directory, &text(entry, "csv", index)?)?;
    let header: Vec<&str> = content.lines().next().unwrap_or_default().split(',').collect();
    let status = header.iter().position(|column| *column == "status");
    let status = status.ok_or_else(|| wrong(&path, 1, "no column `status`"))?;
    if status != params.len() || status > MAX_AXES {
        let reason = format!("{status} columns before `status`, {} axes, at most {MAX_AXES}", params.len());
        return Err(wrong(&path, 1, reason));
    }
    let mut axes = Vec::with_capacity(status);
    for column in &header[..status] {
        let values = params.get(*column).and_then(Value::as_array);
        let values = values.ok_or_else(|| wrong(&path, 1, format!("no axis `{column}` in the index")))?;
        let values: Option<Vec<u32>> =
            values.iter().map(|value| value.as_u64().and_then(|value| u32::try_from(value).ok())).collect();
        let values = values.ok_or_else(|| bad(format!("values of `{column}` are not whole numbers")))?;
        axes.push(Axis { name: column.to_string(), values });
    }
    let (fixed, constraints) = read_constraints(entry, &axes)?;
    let rows = read_rows(&path, &content, &header, status)?;
    let (repeats, repeats_from) = match entry.get("reps_csv").and_then(Value::as_str) {
        Some(file) => {
            let (path, content) = table(directory, file)?;
            read_repeats(&path, &content, rows.len())?
        }
        None => (Vec::new(), Vec::new()),
    };
    let problem = entry.get("problem").cloned().unwrap_or_default();
    let completeness = entry.get("completeness").and_then(Value::as_str).unwrap_or_default();
    Ok(Recording {
        kernel: text(entry, "kernel", index)?,
        variant: text(entry, "variant", index)?,
        device: text(entry, "device", index)?,
        device_name: text(entry, "device_name", index)?,
        api: text(entry, "api", index)?,
        op: problem.get("op").and_then(Value::as_str).unwrap_or_default().to_string(),
        sizes: sizes(&problem),
        flops: problem.get("flops").and_then(Value::as_u64).unwrap_or(0),
        bytes: problem.get("bytes").and_then(Value::as_u64).unwrap_or(0),
        name,
        axes,
        fixed,
        constraints,
        completeness: Completeness::parse(completeness),
        origin: entry.get("origin").and_then(Value::as_str).unwrap_or_default().to_string(),
        rows,
        repeats,
        repeats_from,
    })
}

/// Names that have one value, and what holds for legal points.
type Constraints = (Vec<(String, f64)>, Vec<Expression>);

pub(crate) fn read_constraints(entry: &Value, axes: &[Axis]) -> Result<Constraints, ExpressionError> {
    let named = entry.get("fixed").and_then(Value::as_object).into_iter().flatten();
    let fixed: Vec<(String, f64)> =
        named.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect();
    let names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
    let written = entry.get("constraints").and_then(Value::as_array).into_iter().flatten();
    let parsed = written.filter_map(Value::as_str).map(|text| Expression::parse(text, &names, &fixed));
    let constraints = parsed.collect::<Result<_, _>>()?;
    Ok((fixed, constraints))
}

/// Every whole number of the problem but its work, by name; a problem keeps only so many.
fn sizes(problem: &Value) -> Vec<u64> {
    let mut sizes = Vec::new();
    for (name, value) in problem.as_object().into_iter().flatten() {
        if name == "flops" || name == "bytes" {
            continue;
        }
        match value {
            Value::Array(items) => sizes.extend(items.iter().filter_map(Value::as_u64)),
            other => sizes.extend(other.as_u64()),
        }
    }
    sizes.truncate(MAX_SIZES);
    sizes
}

fn read_rows(path: &Path, content: &str, header: &[&str], status: usize) -> Result<Vec<Row>, ReadError> {
    let column = |name: &str| header.iter().position(|column| *column == name);
    let time = column("time_ms").ok_or_else(|| wrong(path, 1, "no column `time_ms`"))?;
    let (min, median, compile) = (column("min_ms"), column("median_ms"), column("compile_ms"));
    let failure = column("failure");
    let mut rows = Vec::new();
    for (line, content) in content.lines().enumerate().skip(1) {
        let cells: Vec<&str> = content.split(',').collect();
        if cells.len() != header.len() {
            return Err(wrong(path, line + 1, format!("{} cells, {} columns", cells.len(), header.len())));
        }
        if rows.len() == MAX_ROWS {
            return Err(wrong(path, line + 1, format!("more than {MAX_ROWS} rows; keep a sample of them")));
        }
        let mut values = [0u32; MAX_AXES];
        for (value, cell) in values.iter_mut().zip(&cells[..status]) {
            *value = cell.parse().map_err(|_| wrong(path, line + 1, format!("`{cell}` is not a setting")))?;
        }
        let number = |at: Option<usize>| at.and_then(|at| cells[at].parse::<f64>().ok());
        let outcome = match cells[status] {
            "ok" => {
                let mean_ms = number(Some(time)).filter(|time| *time > 0.0);
                let mean_ms = mean_ms.ok_or_else(|| wrong(path, line + 1, "it ran without a time"))?;
                let min_ms = number(min).unwrap_or(mean_ms);
                Outcome::Ran(Timing { mean_ms, min_ms, median_ms: number(median).unwrap_or(mean_ms) })
            }
            "compile_failed" => Outcome::Failed(FailureKind::Compile),
            "runtime_failed" | "failed" => {
                let finer = failure.and_then(|at| FailureKind::parse(cells[at]));
                Outcome::Failed(finer.unwrap_or(FailureKind::Launch))
            }
            other => return Err(wrong(path, line + 1, format!("unknown status `{other}`"))),
        };
        rows.push(Row { point: Point::new(&values[..status]), outcome, compile_ms: number(compile) });
    }
    Ok(rows)
}

fn read_repeats(path: &Path, content: &str, rows: usize) -> Result<(Vec<u32>, Vec<u32>), ReadError> {
    let mut by_row: Vec<&str> = vec![""; rows];
    for (line, content) in content.lines().enumerate().skip(1) {
        let (row, rest) = content.split_once(',').unwrap_or((content, ""));
        let row = row.parse::<usize>().ok().and_then(|row| by_row.get_mut(row));
        *row.ok_or_else(|| wrong(path, line + 1, "no such row"))? = rest;
    }
    let (mut repeats, mut from) = (Vec::new(), vec![0u32]);
    for (row, cells) in by_row.iter().enumerate() {
        for cell in cells.split(',').filter(|cell| !cell.is_empty()) {
            let parsed = cell.parse::<f64>().ok().filter(|value| *value >= 0.0);
            let value = parsed.ok_or_else(|| wrong(path, row + 2, format!("`{cell}` is not a repeat")))?;
            repeats.push(value as u32);
        }
        from.push(repeats.len() as u32);
    }
    Ok((repeats, from))
}
