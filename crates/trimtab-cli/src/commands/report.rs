//! `trimtab report`: everything that decides where problems run, as text, as JSON, or as a page for a browser. No kernel is measured.

mod bars;
mod chart;
mod page;
mod speed;
mod text;
mod view;

use crate::args::{Global, Report};
use crate::failure::bad_input;
use crate::interrupt;
use crate::session::Session;
use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use trimtab_replay::write_whole;

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
    interrupt::would_say("no report was written, and a file of an earlier one is as it was".to_string());
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

/// The same of a runtime that is at work: as a page, else as the session's output has it.
pub fn over(session: &Session, page: bool) -> Result<String> {
    let view = view::View::of(session, false);
    if page {
        return Ok(page::html(&view));
    }
    session.out.either(&view, || text::show(session, &view))?;
    Ok(session.out.take())
}
