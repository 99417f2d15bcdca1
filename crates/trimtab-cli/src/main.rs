//! The `trimtab` command as a program of its own.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    // Where it is not known, only kernels in files cannot be tuned, and say so.
    let program = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    trimtab_cli::run(std::env::args_os().collect(), &[program])
}
