//! One run of the command: the runtime as the options ask for it, its warnings, and where output goes.

use crate::args::Global;
use crate::output::Output;
use anyhow::Result;
use std::cell::Cell;
use std::io::Write;
use trimtab::{Builder, Runtime};

/// A runtime and where to write.
pub struct Session {
    pub runtime: Runtime,
    pub out: Output,
    /// Warnings of the wisdom store that were told already.
    told: Cell<usize>,
}

impl Session {
    /// Sets the runtime up and tells what could not be set up.
    pub fn start(global: &Global) -> Result<Session> {
        Session::of(Runtime::builder(), global)
    }

    /// The same, with the speeds of devices measured now.
    pub fn measuring(global: &Global) -> Result<Session> {
        Session::of(Runtime::builder().measure_anew(), global)
    }

    fn of(mut builder: Builder, global: &Global) -> Result<Session> {
        if let Some(device) = &global.device {
            builder = builder.device(device.trim());
        }
        if let Some(threads) = global.threads {
            builder = builder.threads(threads);
        }
        if let Some(mode) = global.tune {
            builder = builder.patience(mode.patience);
            builder = mode.strategy.into_iter().fold(builder, Builder::strategy);
        }
        builder = match &global.wisdom_dir {
            Some(dir) if is_off(&dir.to_string_lossy()) => builder.wisdom_in_memory(),
            Some(dir) => builder.wisdom_dir(dir),
            None => builder,
        };
        let runtime = builder.build()?;
        crate::interrupt::watch(runtime.planner().wisdom());
        for warning in runtime.warnings() {
            warn(warning);
        }
        let told = Cell::new(runtime.wisdom().warnings().len());
        Ok(Session { runtime, out: Output::new(global.json), told })
    }

    /// Writes what was learned to disk and tells what went wrong with that.
    pub fn keep(&self) {
        self.runtime.planner().drain();
        let warnings = self.runtime.wisdom().warnings();
        for warning in warnings.iter().skip(self.told.get()) {
            warn(&warning.to_string());
        }
        self.told.set(warnings.len());
    }

    /// Where wisdom is kept, in words.
    pub fn wisdom_place(&self) -> String {
        match self.runtime.wisdom().dir() {
            Some(dir) => format!("remembered in {}", dir.display()),
            None => "not remembered: wisdom is off".to_string(),
        }
    }
}

/// Says something on standard error that does not stop the command.
pub fn warn(message: &str) {
    let _ = writeln!(std::io::stderr(), "warning: {message}");
}

/// The spellings of off, the same as in the environment.
fn is_off(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "off" | "0" | "false" | "no")
}
