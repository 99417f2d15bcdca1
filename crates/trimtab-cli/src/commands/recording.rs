//! `trimtab recording`: lists recordings, and exchanges them with other tuners as T4 results.

use crate::args::{Global, Recording as Asked};
use crate::failure::bad_input;
use crate::output::{Output, printable_json, time};
use crate::session::warn;
use crate::table::Table;
use anyhow::{Context, Result};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use trimtab::advanced::wisdom::files;
use trimtab_replay::{
    Imported, MAX_T4_BYTES, ReadError, Recording, SameName, T4Names, WriteError, add_recording,
    list_recordings, read_recordings, read_t4, write_t4,
};

const NS_PER_MS: f64 = 1e6;

#[derive(Serialize)]
struct RecordingView {
    space: String,
    kernel: String,
    variant: String,
    device: String,
    device_name: String,
    api: String,
    axes: usize,
    rows: usize,
    failed: usize,
    completeness: &'static str,
    optimum_ms: Option<f64>,
}

pub fn run(global: &Global, asked: &Asked) -> Result<ExitCode> {
    let out = Output::new(global);
    match asked {
        Asked::List { data } => list(&out, data)?,
        Asked::Import { file, data, name, kernel, complete, replace } => {
            let names = T4Names {
                name: name.clone(),
                kernel: kernel.clone(),
                device: global.device.clone(),
                complete: *complete,
            };
            import(&out, file, data, &names, *replace)?;
        }
        Asked::Export { space, file, data } => export(&out, space, file.as_deref(), data)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads recordings by name, all without names; what is missing or damaged is wrong input, told with what there is.
pub fn read(data: &Path, wanted: &[&str]) -> Result<Vec<Recording>> {
    let told = |error: ReadError| match error {
        ReadError::File { path, source } => {
            let what = format!("{} cannot be read: {source}", path.display());
            bad_input(format!("{what}; --data is a directory with index.json, as `trimtab record` makes one"))
        }
        other => bad_input(other.to_string()),
    };
    let known = list_recordings(data).map_err(told)?;
    if let Some(unknown) = wanted.iter().find(|name| !known.iter().any(|known| known == *name)) {
        let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
        return Err(bad_input(format!(
            "there is no recording `{unknown}` in {}; there are: {known}",
            data.display()
        )));
    }
    read_recordings(data, wanted).map_err(told)
}

fn view(recording: &Recording) -> RecordingView {
    let rows = recording.rows.len();
    RecordingView {
        space: recording.name.clone(),
        kernel: recording.kernel.clone(),
        variant: recording.variant.clone(),
        device: recording.device.clone(),
        device_name: recording.device_name.clone(),
        api: recording.api.clone(),
        axes: recording.axes.len(),
        rows,
        failed: rows - recording.rows.iter().filter(|row| row.outcome.mean_ms().is_some()).count(),
        completeness: recording.completeness.name(),
        optimum_ms: recording.optimum_ms(),
    }
}

fn list(out: &Output, data: &Path) -> Result<()> {
    let views: Vec<RecordingView> = read(data, &[])?.iter().map(view).collect();
    if out.is_json() {
        return views.iter().try_for_each(|view| out.object(view));
    }
    let table = Table::of(&views)
        .column("space", |view| view.space.clone())
        .column("kernel", |view| view.kernel.clone())
        .column("device", |view| view.device_name.clone())
        .column(">axes", |view| view.axes.to_string())
        .column(">settings", |view| view.rows.to_string())
        .column(">failed", |view| view.failed.to_string())
        .column("completeness", |view| view.completeness.to_string())
        .column(">best", |view| view.optimum_ms.map(|ms| time(ms * NS_PER_MS)).unwrap_or_default())
        .table();
    if table.is_empty() { out.line("no recordings") } else { out.table(&table) }
}

fn import(out: &Output, file: &Path, data: &Path, names: &T4Names, replace: bool) -> Result<()> {
    let shown = file.display();
    let read = match file == Path::new("-") {
        true => files::read_at_most(std::io::stdin().lock(), MAX_T4_BYTES),
        false => files::read(file, MAX_T4_BYTES),
    };
    let bytes = read.map_err(|error| bad_input(format!("{shown} cannot be read: {error}")))?;
    let Imported { mut recording, illegal, is_named } =
        read_t4(&bytes, names).map_err(|error| bad_input(format!("{shown}: {error}")))?;
    // A name somebody gave stands for one recording; one that we made up must not cost another.
    let same = match (replace, is_named) {
        (true, _) => SameName::Replaces,
        (false, true) => SameName::IsRefused,
        (false, false) => SameName::IsNumbered,
    };
    recording.name = add_recording(data, &recording, same).map_err(|error| match error {
        WriteError::Unfit { .. } => bad_input(format!("{error}; name it with --name")),
        WriteError::Exists { .. } => bad_input(format!(
            "{error}; give this one another name with --name, or put it in its place with --replace"
        )),
        other => other.into(),
    })?;
    if illegal > 0 {
        warn(&format!("{illegal} results outside the constraints were left out"));
    }
    if recording.kernel == "imported" && names.kernel.is_none() {
        warn(
            "the file does not say which kernel it is about: give it with --kernel, so that recordings of it are found",
        );
    }
    let view = view(&recording);
    let sample = match view.completeness {
        "bruteforce" => "",
        _ => ", taken for a sample (--complete if every legal one is there)",
    };
    let (rows, failed) = (view.rows, view.failed);
    let words = format!("{}: {rows} settings, {failed} failed{sample}, in {}", view.space, data.display());
    out.either(&view, || out.line(words))
}

fn export(out: &Output, space: &str, file: Option<&Path>, data: &Path) -> Result<()> {
    let recording = read(data, &[space])?.remove(0);
    let text = write_t4(&recording).to_string();
    let Some(file) = file.filter(|file| *file != Path::new("-")) else {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{}", printable_json(&text))?;
        return Ok(());
    };
    std::fs::write(file, text + "\n").with_context(|| format!("writing {}", file.display()))?;
    let words = format!("{} results of {space} in {}", recording.rows.len(), file.display());
    out.either(&view(&recording), || out.line(words))
}
