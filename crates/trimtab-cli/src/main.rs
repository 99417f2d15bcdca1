//! The `trimtab` command: devices, tune, calibrate, explain, bench, report, wisdom, run, record, simulate; tune-command, ask-tell, best and study for what is not ours. Decides nothing itself.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod interrupt;
mod markup;
mod output;
mod plot;
mod progress;
mod representative;
mod session;

use clap::Parser;
use output::printable;
use std::io::Write;
use std::process::ExitCode;
use trimtab::core::is_steering;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse_from(args::words()) {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    match commands::run(cli) {
        Ok(code) => code,
        // Whoever reads us has seen enough: `trimtab wisdom list | head`.
        Err(error) if failure::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {}", printable(&format!("{error:#}")));
            failure::exit_code(&error)
        }
    }
}

/// Says what is wrong with the arguments, or shows the help that was asked for. What is quoted of arguments may hold anything: then it is all
/// one line, so that nobody fakes another.
fn refused(error: &clap::Error) -> ExitCode {
    let steers = |argument: std::ffi::OsString| argument.to_string_lossy().contains(is_steering);
    if !error.use_stderr() || !std::env::args_os().any(steers) {
        error.exit();
    }
    let _ = writeln!(std::io::stderr(), "{}", printable(error.render().to_string().trim_end()));
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::FAILED))
}
