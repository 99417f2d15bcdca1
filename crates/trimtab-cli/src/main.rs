//! The `trimtab` command: devices, tune, calibrate, explain, bench, report, wisdom, run, record, simulate. Decides nothing itself; the runtime does.
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
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    match commands::run(cli) {
        Ok(code) => code,
        // Whoever reads us has seen enough: `trimtab wisdom list | head`.
        Err(error) if failure::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            failure::exit_code(&error)
        }
    }
}
