//! `trimtab tune FILE`: the best settings of a kernel in a file, run in child processes of this command.

use super::search::{self, Asked, Sizes};
use super::{donors, goals};
use crate::args::Global;
use crate::args::study::TuneKernel;
use crate::failure::bad_input;
use crate::session::warn;
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use trimtab::Nanos;
use trimtab::advanced::study::{
    Effort, KERNEL_TABLES, MAX_SPACE_BYTES, Parameter, ParameterSpace, Setting, open_space,
};
use trimtab::advanced::wisdom::files;
use trimtab_kernelfile::{KernelRunner, KernelSpec, Language, Limits, cuda_missing, read_spec};

/// Compiling, and a reference that is written plainly, may take this long also where a run may not.
const LEAST_BUILD: Nanos = Nanos::from_millis(120_000);

/// The hidden command that child processes run.
pub const CHILD: &str = "kernel-worker";

pub fn run(global: &Global, args: &TuneKernel, program: &[String]) -> Result<ExitCode> {
    let (space, mut spec) = read(args)?;
    if let Some(device) = global.device.as_ref().filter(|device| *device != "auto") {
        spec.device = Some(device.clone());
    }
    if args.compiler.is_some() {
        spec.compiler.clone_from(&args.compiler);
    }
    if !spec.is_checked() {
        warn(
            "nothing says what the result should be, so a fast wrong kernel can win; write [reference] with kernel = \"…\", or expected = \"….npy\" at an output",
        );
    }
    let fixed: Vec<(String, Setting)> = spec
        .sizes
        .iter()
        .filter(|(_, values)| values.len() == 1)
        .map(|(name, values)| (name.clone(), values[0].clone()))
        .filter(|(name, _)| !given_here(args, name))
        .collect();
    let searched: Vec<(String, Vec<Setting>)> = spec
        .sizes
        .iter()
        .filter(|(name, _)| !fixed.iter().any(|(known, _)| known == name))
        .cloned()
        .collect();
    let sizes = search::combined(&searched)?;
    let usual = Effort::usual(true);
    let shown = args.file.display().to_string();
    let asked = Asked {
        donors: donors(&args.search, &space)?,
        space: Arc::clone(&space),
        sizes,
        size_texts: &args.sizes,
        goals: goals(&args.search, Vec::new())?,
        search: &args.search,
        kept: &args.kept,
        name: args.name.as_deref(),
        program: args.file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default(),
        what: json!({
            "kernel": shown, "entry": spec.entry, "fixed_sizes": by_name(&fixed),
            "fingerprint": spec.fingerprint(), "timeout_s": args.timeout.0 as f64 / 1e9,
        }),
        unit: "s",
        times_processes: false,
        evals: args.evals,
        budget: args.budget,
        workers: 1,
        effort: Effort {
            repeats: args.repeats.unwrap_or(usual.repeats),
            warmup: args.warmup.unwrap_or(usual.warmup),
            retries: args.retries,
        },
        build_ahead: !args.no_compile_ahead,
    };
    let usual = limits(args.timeout);
    let limits = Limits { memory: args.memory.or(usual.memory), ..usual };
    search::run(global, &asked, &|sizes, place, stop| {
        let sizes: Sizes = fixed.iter().chain(sizes).cloned().collect();
        let child = program.iter().cloned().chain([CHILD.to_string()]).collect();
        let built = place.join(search::BUILT);
        Box::new(KernelRunner::new(spec.clone(), sizes, limits, child, built, Arc::clone(stop)))
    })
}

fn by_name(sizes: &[(String, Setting)]) -> Map<String, Value> {
    sizes.iter().map(|(name, value)| (name.clone(), value.to_json())).collect()
}

/// Whether a size comes from the command line.
fn given_here(args: &TuneKernel, name: &str) -> bool {
    args.sizes.iter().any(|text| text.split('=').next().map(str::trim) == Some(name))
}

fn read(args: &TuneKernel) -> Result<(Arc<ParameterSpace>, KernelSpec)> {
    let (file, shown) = (&args.space, args.space.display());
    if Language::of(&args.file) == Some(Language::Cuda)
        && let Some(missing) = cuda_missing(&args.file)
    {
        return Err(bad_input(missing));
    }
    let bytes = files::read(file, MAX_SPACE_BYTES)
        .map_err(|error| bad_input(format!("{shown} cannot be read: {error}")))?;
    let space = open_space(&bytes, &KERNEL_TABLES);
    let space = Arc::new(space.map_err(|error| bad_input(format!("{shown}: {error}")))?);
    let mut given = Vec::new();
    for text in &args.sizes {
        let size =
            Parameter::parse(text).map_err(|reason| bad_input(format!("--size '{text}': {reason}")))?;
        if size.values.iter().any(|value| !matches!(value, Setting::Integer(1..))) {
            return Err(bad_input(format!("--size '{text}': sizes are whole numbers above zero")));
        }
        if space.parameters().iter().any(|known| known.name == size.name) {
            return Err(bad_input(format!(
                "--size '{text}': `{}` is a parameter; choose another name",
                size.name
            )));
        }
        given.push((size.name, size.values));
    }
    let spec = read_spec(&bytes, file, &args.file, &space, &given)
        .map_err(|error| bad_input(format!("{shown}: {error}")))?;
    Ok((space, spec))
}

/// What a run may use, where nobody says otherwise.
pub fn limits(time: Nanos) -> Limits {
    Limits { time, build: time.max(LEAST_BUILD), memory: most_memory() }
}

/// Three quarters of this machine's memory, where the system tells: a kernel that takes more would take everything down with it.
fn most_memory() -> Option<u64> {
    let told = std::fs::read_to_string(Path::new("/proc/meminfo")).ok()?;
    let total = told.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024 / 4 * 3)
}

/// The child.
pub fn child() -> Result<ExitCode> {
    trimtab_kernelfile::serve_parent()?;
    Ok(ExitCode::SUCCESS)
}
