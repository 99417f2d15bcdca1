//! `trimtab report`: everything that decides where problems run, as text, as JSON, or as a page for a browser. No kernel is measured.

mod bars;
mod chart;
mod page;
mod text;
mod view;

use crate::args::{Global, Report};
use crate::failure::bad_input;
use crate::session::Session;
use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub fn run(global: &Global, args: &Report) -> Result<ExitCode> {
    let file = args.html.as_deref();
    let to_output = file == Some(Path::new("-"));
    if to_output && global.json {
        return Err(bad_input("--html - and --json both want standard output; give the page a file"));
    }
    if let Some(file) = file.filter(|file| !to_output && (file.is_dir() || file.file_name().is_none())) {
        return Err(bad_input(format!(
            "{} is a directory; give a file, such as report.html",
            file.display()
        )));
    }
    let session = Session::start(global)?;
    let view = view::View::of(&session, global.device.is_some());
    match file {
        Some(_) if to_output => {
            let mut out = std::io::stdout().lock();
            out.write_all(page::html(&view).as_bytes())?;
            out.flush()?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(file) => {
            write_whole(file, page::html(&view).as_bytes())
                .with_context(|| format!("{} could not be written", file.display()))?;
        }
        None => (),
    }
    match file {
        _ if session.out.is_json() => session.out.object(&view)?,
        Some(file) => session.out.line(format!("The page is in {}.", file.display()))?,
        None => text::show(&session, &view)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes beside the place and renames, so that whoever looks sees the old page or the new one, never half of one.
fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let write = || {
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        drop(file);
        std::fs::rename(&beside, path)
    };
    write().inspect_err(|_| {
        // What is left of the attempt is of no use, and may never have been made.
        let _ = std::fs::remove_file(&beside);
    })
}
