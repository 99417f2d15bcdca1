//! The `trimtab` command: devices, tune, calibrate, explain, bench, report, wisdom, run, record, simulate; tune-command, ask-tell, best and study for what is not ours. Decides nothing itself.
//!
//! A library, so that other front ends are the same command ([`run`]) and show the same tables of a runtime that is at work ([`answer`]).
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
#[cfg(test)]
mod snippets;
mod table;
mod terminal;

use anyhow::Result;
use clap::Parser;
use output::printable;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use trimtab::Runtime;
use trimtab::advanced::core::{Nanos, is_steering};
use trimtab_kernelfile::Limits;

/// Runs the command with these words, of which the first is its name. `program` are the words that start it again: kernels in files run in
/// child processes of it.
pub fn run(words: Vec<OsString>, program: &[String]) -> ExitCode {
    let cli = match args::Cli::try_parse_from(args::words(words.clone())) {
        Ok(cli) => cli,
        Err(error) => return refused(&words, &error),
    };
    match commands::run(cli, program) {
        Ok(code) => code,
        // Whoever reads us has seen enough: `trimtab wisdom list | head`.
        Err(error) if failure::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "{} {}",
                session::label("error:"),
                printable(&format!("{error:#}"))
            );
            failure::exit_code(&error)
        }
    }
}

/// What can be asked about a runtime that is at work.
#[derive(Clone, Debug)]
pub enum Question {
    /// Why a problem runs as it does: `trimtab explain`.
    Explain {
        /// The problem as text.
        problem: String,
        /// Every setting of every kernel instead of each kernel's best.
        all: bool,
    },
    /// What there is to run on: `trimtab devices`.
    Devices,
    /// Everything that decides where problems run: `trimtab report`.
    Report,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Tables, for a terminal.
    Text,
    /// One object a line.
    Json,
    /// A page for a browser; only reports are one, the others are text.
    Page,
}

/// Answers a question about a runtime that is at work, as the command would.
pub fn answer(runtime: &Runtime, question: &Question, form: Form) -> Result<String> {
    commands::answer(runtime, question, form)
}

/// The hidden command that runs kernels in files for a parent process.
pub const KERNEL_WORKER: &str = commands::KERNEL_WORKER;

/// What runs of kernels in files may use: that long, and most of the machine's memory.
pub fn kernel_limits(time: Nanos) -> Limits {
    commands::kernel_limits(time)
}

/// Says what is wrong with the arguments, or shows the help that was asked for. What is quoted of arguments may hold anything: then it is all
/// one line, so that nobody fakes another.
fn refused(words: &[OsString], error: &clap::Error) -> ExitCode {
    let steers = |argument: &OsString| argument.to_string_lossy().contains(is_steering);
    if !error.use_stderr() || !words.iter().any(steers) {
        error.exit();
    }
    let _ = writeln!(std::io::stderr(), "{}", printable(error.render().to_string().trim_end()));
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::FAILED))
}
