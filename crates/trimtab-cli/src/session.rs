//! One run of the command: the runtime as the options ask for it, its warnings, and where output goes.

use crate::args::{Global, Named};
use crate::failure::bad_input;
use crate::output::{Output, printable};
use crate::terminal::{self, Style};
use anyhow::Result;
use std::cell::Cell;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab::Constraints;
use trimtab::advanced::cpu::probe::facts;
use trimtab::advanced::plan::calibration::Calibration;
use trimtab::advanced::wisdom::{Filter, Wisdom};
use trimtab::{Builder, KernelRules, Runtime};

/// What is remembered and where to write: all that commands need which ask no device.
pub struct Deviceless {
    pub wisdom: Arc<Wisdom>,
    pub out: Output,
    /// Warnings that were told already.
    told: Cell<usize>,
}

impl Deviceless {
    /// Opens no device.
    pub fn open(global: &Global) -> Deviceless {
        let wisdom = Arc::new(match wisdom_dir(global) {
            Some(dir) => trimtab::open_wisdom(&dir),
            None => Wisdom::in_memory(),
        });
        crate::interrupt::watch(&wisdom);
        let told = Cell::new(0);
        tell(&wisdom, &told);
        Deviceless { wisdom, out: Output::new(global), told }
    }

    /// Writes what was changed and tells what went wrong with that.
    pub fn keep(&self) {
        self.wisdom.flush();
        tell(&self.wisdom, &self.told);
    }

    /// Where wisdom is kept, in words.
    pub fn place(&self) -> String {
        place(&self.wisdom)
    }
}

/// Where the options and the environment say that wisdom is kept; nowhere where it is off.
pub fn wisdom_dir(global: &Global) -> Option<PathBuf> {
    match &global.wisdom_dir {
        Some(dir) => (!is_off(&dir.to_string_lossy())).then(|| dir.clone()),
        None => trimtab::wisdom_dir(),
    }
}

fn place(wisdom: &Wisdom) -> String {
    match wisdom.dir() {
        Some(dir) => format!("remembered in {}", dir.display()),
        None => "not remembered: wisdom is off".to_string(),
    }
}

/// Tells the warnings that were not told yet.
fn tell(wisdom: &Wisdom, told: &Cell<usize>) {
    let warnings = wisdom.warnings();
    for warning in warnings.iter().skip(told.get()) {
        warn(&warning.to_string());
    }
    told.set(warnings.len());
}

/// Which devices of this machine facts may be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Here {
    /// None: they are of other processors.
    Nobody,
    /// The processor alone.
    Processor,
    /// Others too. Which there are, only opening them tells.
    Anybody,
}

impl Here {
    /// By fingerprints, or by several joined as verdicts have them. Reads what the system says of the processor; opens nothing.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Here {
        let own = facts(Path::new("/"), None).fingerprint.0;
        let one = |part: &str| match part {
            part if part == own => Here::Processor,
            part if part.starts_with("cpu/") => Here::Nobody,
            _ => Here::Anybody,
        };
        names.into_iter().flat_map(|name| name.split(" + ")).map(one).max().unwrap_or(Here::Nobody)
    }

    /// A runtime with those devices; none where there is nobody. What is wrong with wisdom was told by whoever asks.
    pub fn open(self, global: &Global) -> Result<Option<Runtime>> {
        let processor = Global { device: Some("cpu".into()), ..global.clone() };
        match self {
            Here::Nobody => Ok(None),
            Here::Processor => build(Runtime::builder(), &processor).map(Some),
            Here::Anybody => build(Runtime::builder(), global).map(Some),
        }
    }
}

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
        Ok(Session::with(build(Runtime::builder(), global)?, global))
    }

    /// The same with these kernels forbidden or forced, each of which there must be.
    pub fn naming(named: &Named, global: &Global) -> Result<Session> {
        let mut builder = Runtime::builder();
        if let Some(isolation) = named.isolate {
            builder = builder.isolate(isolation);
        }
        let Some(said) = named.kernels.iter().cloned().reduce(KernelRules::and) else {
            return Ok(Session::with(build(builder, global)?, global));
        };
        let runtime = build(builder.kernels(said.clone()), global)?;
        let infos = runtime.devices().iter().flat_map(|device| device.kernels());
        let names: Vec<&str> = infos.map(|info| info.name.as_str()).collect();
        match said.unmatched(&names).into_iter().next() {
            Some(unknown) => Err(bad_input(unknown)),
            None => Ok(Session::with(runtime, global)),
        }
    }

    /// The same, with the speeds of devices measured now.
    pub fn measuring(global: &Global) -> Result<Session> {
        Ok(Session::with(build(Runtime::builder().measure_anew(), global)?, global))
    }

    /// The same knowing as much, in memory: what is learned there is gone with it.
    pub fn aside(&self, global: &Global) -> Result<Session> {
        let nowhere = Global { wisdom_dir: Some("off".into()), ..global.clone() };
        let runtime = build(Runtime::builder(), &nowhere)?;
        runtime.import(&self.runtime.wisdom().export(&Filter::everything()), true)?;
        // In memory everything is kept.
        let _ = runtime.commit_calibration(Calibration::clone(&self.runtime.calibration()));
        Ok(Session { runtime, out: Output::new(global), told: Cell::new(0) })
    }

    /// A runtime that is at work, and an output that keeps what is written.
    pub fn over(runtime: &Runtime, json: bool) -> Session {
        let told = Cell::new(runtime.wisdom().warnings().len());
        Session { runtime: runtime.clone(), out: Output::kept(json), told }
    }

    fn with(runtime: Runtime, global: &Global) -> Session {
        crate::interrupt::watch(runtime.planner().wisdom());
        for warning in runtime.warnings() {
            warn(warning);
        }
        let told = Cell::new(runtime.wisdom().warnings().len());
        Session { runtime, out: Output::new(global), told }
    }

    /// Writes what was learned to disk and tells what went wrong with that.
    pub fn keep(&self) {
        self.runtime.planner().drain();
        tell(self.runtime.wisdom(), &self.told);
    }

    /// Where wisdom is kept, in words.
    pub fn wisdom_place(&self) -> String {
        place(self.runtime.wisdom())
    }
}

/// The runtime as the options ask for it.
fn build(mut builder: Builder, global: &Global) -> Result<Runtime> {
    if let Some(device) = &global.device {
        builder = builder.device(device.trim());
    }
    if let Some(threads) = global.threads {
        builder = builder.threads(threads);
    }
    if global.tolerance.is_some() {
        builder = builder.constraints(Constraints { tolerance: global.tolerance, ..Constraints::default() });
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
    Ok(builder.build()?)
}

/// Says something on standard error that does not stop the command.
pub fn warn(message: &str) {
    let _ = writeln!(std::io::stderr(), "{} {}", label("warning:"), printable(message));
}

/// A word before a message on standard error: bold on a terminal.
pub fn label(word: &str) -> String {
    if terminal::warns_in_colour() { Style::Strong.paint(word) } else { word.to_string() }
}

/// The spellings of off, the same as in the environment.
pub fn is_off(text: &str) -> bool {
    matches!(text.trim().to_ascii_lowercase().as_str(), "off" | "0" | "false" | "no")
}
