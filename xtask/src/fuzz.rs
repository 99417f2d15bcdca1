//! `cargo xtask fuzz`: every parser fed with inputs that libFuzzer makes up, guided by the code they reach.
//!
//! Built by the stable compiler: the coverage is LLVM's own pass, libFuzzer comes with the crate `libfuzzer-sys`.

mod corpus;

use crate::needs::{self, CPP};
use anyhow::{Context, Result, bail};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

const HELP: &str = "\
usage: cargo xtask fuzz [--seconds N] [--target NAME]… [--json] [--merge] [--no-install]
       cargo xtask fuzz --target NAME --input FILE
       cargo xtask fuzz --list

Builds the fuzz targets (fuzz/src/bin, a parser each; release with debug assertions and overflow checks) and runs each from the
inputs in fuzz/corpus, two at a time. Needs a C++ compiler. What is found is written to fuzz/found, which git ignores.

  --seconds N     how long each target runs; 20 unless said
  --target NAME   only this one; may be given several times
  --input FILE    runs one target once, with that input: what a crash asks for
  --merge         afterwards makes the new fuzz/corpus of at most 60 inputs a target: those that reach most
  --json          figures as a line of JSON a target
  --list          names the targets
  --no-install    installs nothing

Edges are the places in the code that inputs reached, of all that are built into the target: most belong to kernels and to the planner.
";

/// How long a target runs where nobody says otherwise.
pub const SECONDS: u64 = 20;
/// The same in every test run, where 18 targets on two cores are to leave time for the rest.
pub const TEST_SECONDS: u64 = 8;
/// Targets that run at once.
const AT_ONCE: usize = 2;
/// The longest input that is made up.
const MAX_INPUT_BYTES: usize = 4096;
/// The most memory a target may use; beyond, its input is reported.
const MEMORY_MIB: usize = 1024;
/// The longest one input may take; beyond, it is reported.
const INPUT_SECONDS: usize = 10;
/// Lines of a target's output that are shown when it fails.
const SHOWN: usize = 40;

/// LLVM's coverage, as libFuzzer reads it, and most kernels left out (`trimtab-cpu/src/kernels/mod.rs`).
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares";

#[derive(Debug, Default, PartialEq)]
struct Options {
    seconds: Option<u64>,
    targets: Vec<String>,
    input: Option<PathBuf>,
    json: bool,
    merge: bool,
    list: bool,
    no_install: bool,
}

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let Some(options) = parse(words)? else {
        print!("{HELP}");
        return Ok(());
    };
    let known = targets(root)?;
    if options.list {
        known.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    if let Some(wrong) = options.targets.iter().find(|name| !known.contains(name)) {
        bail!("there is no target `{wrong}`; there are {}", known.join(", "));
    }
    if let [missing, ..] = &needs::missing(vec![CPP], !options.no_install)[..] {
        bail!("{missing}");
    }
    let chosen = if options.targets.is_empty() { known } else { options.targets };
    let built = build(root, &chosen)?;
    if let Some(input) = &options.input {
        let [target] = &chosen[..] else { bail!("--input needs one --target") };
        let status = target_command(root, &built, target).arg(input).status()?;
        if !status.success() {
            bail!("{target} fails with {}", input.display());
        }
        return Ok(());
    }
    let figures = run_all(root, &built, &chosen, options.seconds.unwrap_or(SECONDS), options.json)?;
    if options.merge {
        chosen.iter().try_for_each(|target| corpus::merge(root, &built, target))?;
    }
    verdict(&figures)
}

fn parse(words: &[&str]) -> Result<Option<Options>> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("`{word}` needs a value\n\n{HELP}"));
        match *word {
            "--seconds" => {
                let seconds = value()?.parse().ok().filter(|seconds| *seconds > 0);
                options.seconds = Some(seconds.context("--seconds takes a whole number above zero")?);
            }
            "--target" => options.targets.push(value()?.to_string()),
            "--input" => options.input = Some(PathBuf::from(value()?)),
            "--json" => options.json = true,
            "--merge" => options.merge = true,
            "--list" => options.list = true,
            "--no-install" => options.no_install = true,
            "--help" | "-h" => return Ok(None),
            other => bail!("there is no option `{other}`\n\n{HELP}"),
        }
    }
    Ok(Some(options))
}

/// The names of all targets: the programs of the crate `fuzz`.
pub fn targets(root: &Path) -> Result<Vec<String>> {
    let folder = root.join("fuzz/src/bin");
    let listed = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let files = listed.flatten().map(|entry| entry.path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut names: Vec<String> =
        rust.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

/// Builds targets and says where their programs are.
pub fn build(root: &Path, targets: &[String]) -> Result<PathBuf> {
    let host = host()?;
    // A named target keeps the flags away from build scripts and macros.
    let mut words = vec!["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host];
    targets.iter().for_each(|target| words.extend(["--bin", target.as_str()]));
    eprintln!("$ cargo {}", words.join(" "));
    let mut command = Command::new(env!("CARGO"));
    let status = command
        .args(&words)
        .current_dir(root)
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .context("cargo could not be started")?;
    if !status.success() {
        bail!("the fuzz targets could not be built");
    }
    Ok(root.join("fuzz/target").join(host).join("release"))
}

fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc could not be started")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).context("rustc did not say for which machine it builds")
}

/// A target's program with the limits of every input.
fn target_command(root: &Path, built: &Path, target: &str) -> Command {
    let mut command = trimtab_testing::command(built.join(target));
    command.current_dir(root);
    command.arg(format!("-max_len={MAX_INPUT_BYTES}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    command.arg(format!("-timeout={INPUT_SECONDS}"));
    command
}

/// What one target did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    target: String,
    seconds: u64,
    executions: u64,
    edges: u64,
    all_edges: u64,
    /// Inputs in the end, and how many of them are new.
    inputs: u64,
    new: u64,
    /// What failed: the input, or the last lines where there is none.
    failed: Option<String>,
}

impl Figures {
    /// Takes what a line of libFuzzer's says.
    fn hear(&mut self, line: &str) {
        let after = |name: &str| -> Option<u64> {
            let digits = line.split_once(name)?.1.trim_start();
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            digits[..end].parse().ok()
        };
        if line.starts_with('#') {
            self.executions = after("#").unwrap_or(self.executions);
            self.edges = after(" cov: ").unwrap_or(self.edges);
            self.inputs = after(" corp: ").unwrap_or(self.inputs);
        } else if line.contains("PC tables (") {
            self.all_edges = after("PC tables (").unwrap_or(self.all_edges);
        } else if line.starts_with("stat::number_of_executed_units:") {
            self.executions = after("units:").unwrap_or(self.executions);
        } else if line.starts_with("stat::new_units_added:") {
            self.new = after("added:").unwrap_or(self.new);
        }
    }
}

/// Runs targets, two at a time, and prints what each did.
pub fn run_all(
    root: &Path,
    built: &Path,
    targets: &[String],
    seconds: u64,
    json: bool,
) -> Result<Vec<Figures>> {
    let waiting = Mutex::new(targets.iter().collect::<VecDeque<_>>());
    let next = || waiting.lock().ok()?.pop_front();
    let worker = || {
        let mut done = Vec::new();
        while let Some(target) = next() {
            eprintln!("fuzzing {target} for {seconds} s");
            let figures = run_one(root, built, target, seconds)?;
            // Not all at the end: a run may take hours, and may be interrupted.
            match json {
                true => println!("{}", line_of_json(&figures)),
                false => eprintln!("{target}: {} executions, {} edges", figures.executions, figures.edges),
            }
            done.push(figures);
        }
        anyhow::Ok(done)
    };
    let mut figures: Vec<Figures> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
            .collect::<Result<Vec<_>>>()
    })?
    .concat();
    figures.sort_by(|a, b| a.target.cmp(&b.target));
    if !json {
        print!("{}", table(&figures));
    }
    Ok(figures)
}

fn run_one(root: &Path, built: &Path, target: &str, seconds: u64) -> Result<Figures> {
    let (found, corpus) = (root.join("fuzz/found").join(target), root.join("fuzz/corpus").join(target));
    let new = found.join("new");
    // Finds of the run before are gone, so that they do not pile up; inputs that failed stay.
    if new.exists() {
        std::fs::remove_dir_all(&new)?;
    }
    std::fs::create_dir_all(&new)?;
    let mut command = target_command(root, built, target);
    command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    command
        .arg(format!("-artifact_prefix={}/", found.display()))
        .arg(&new)
        .args(corpus.exists().then_some(&corpus));
    // Files that targets write belong in memory, where there is such a place.
    let memory = Path::new("/dev/shm").join(format!("trimtab-fuzz-{}-{target}", std::process::id()));
    let files = if std::fs::create_dir(&memory).is_ok() { memory } else { found.join("files") };
    std::fs::create_dir_all(&files)?;
    // The message is what is shown; `--input` shows where it came from.
    command.env("RUST_BACKTRACE", "0");
    let mut child = command.env("TMPDIR", &files).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let said = child.stderr.take().context("standard error is a pipe")?;
    let mut figures = Figures { target: target.to_string(), seconds, ..Figures::default() };
    let (mut last, mut input) = (VecDeque::new(), None);
    for line in BufReader::new(said).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        figures.hear(&line);
        if let Some((_, path)) = line.split_once("Test unit written to ") {
            input = Some(Path::new(path).strip_prefix(root).unwrap_or(Path::new(path)).to_path_buf());
        }
        last.push_back(line);
        if last.len() > SHOWN {
            last.pop_front();
        }
    }
    let status = child.wait()?;
    std::fs::remove_dir_all(&files)?;
    if !status.success() {
        eprintln!("{target} failed ({status}):\n{}", Vec::from(last).join("\n"));
        figures.failed = Some(match input {
            Some(input) => format!("cargo xtask fuzz --target {target} --input {}", input.display()),
            None => format!("{target} ended without an input ({status}); its stack may have overflowed"),
        });
    }
    Ok(figures)
}

/// An error with the command for each target that failed.
pub fn verdict(figures: &[Figures]) -> Result<()> {
    let failed: Vec<&str> = figures.iter().filter_map(|figures| figures.failed.as_deref()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    bail!(
        "{} of {} fuzz targets failed; again with:\n  {}",
        failed.len(),
        figures.len(),
        failed.join("\n  ")
    );
}

fn table(figures: &[Figures]) -> String {
    let mut text = format!(
        "{:<16} {:>7} {:>12} {:>10} {:>6} {:>9} {:>7} {:>6}  result\n",
        "target", "seconds", "executions", "a second", "edges", "of", "inputs", "new"
    );
    for Figures { target, seconds, executions, edges, all_edges, inputs, new, failed } in figures {
        let rate = executions / (*seconds).max(1);
        let result = if failed.is_some() { "FAILED" } else { "ok" };
        text.push_str(&format!(
            "{target:<16} {seconds:>7} {executions:>12} {rate:>10} {edges:>6} {all_edges:>9} {inputs:>7} {new:>6}  {result}\n"
        ));
    }
    text
}

/// Names of targets are names of files without anything to escape; commands are not.
fn line_of_json(figures: &Figures) -> String {
    let Figures { target, seconds, executions, edges, all_edges, inputs, new, failed } = figures;
    let failed = failed.as_ref().map_or("null".to_string(), |why| format!("{why:?}"));
    format!(
        r#"{{"target":"{target}","seconds":{seconds},"executions":{executions},"edges":{edges},"all_edges":{all_edges},"inputs":{inputs},"new":{new},"failed":{failed}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libfuzzer_says_is_heard() {
        let mut figures = Figures::default();
        for line in [
            "INFO: Loaded 1 PC tables (4211 PCs): 4211 [0x1,0x2),",
            "#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 38Mb",
            "#1500\tDONE   cov: 311 ft: 700 corp: 40/2Kb lim: 4096 exec/s: 750 rss: 60Mb",
            "stat::number_of_executed_units: 1501",
            "stat::new_units_added:          39",
        ] {
            figures.hear(line);
        }
        let heard = Figures {
            executions: 1501,
            edges: 311,
            all_edges: 4211,
            inputs: 40,
            new: 39,
            ..Figures::default()
        };
        assert_eq!(figures, heard);
    }

    #[test]
    fn options_are_read_and_wrong_ones_are_named() {
        let options =
            parse(&["--seconds", "5", "--target", "npy", "--target", "t4", "--json"]).unwrap().unwrap();
        assert_eq!((options.seconds, options.json), (Some(5), true));
        assert_eq!(options.targets, ["npy", "t4"]);
        assert_eq!(parse(&["--help"]).unwrap(), None);
        for (words, part) in [
            (&["--seconds", "0"][..], "above zero"),
            (&["--seconds"], "needs a value"),
            (&["--fast"], "no option `--fast`"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_failure_names_the_command_that_shows_it_again() {
        let fine = Figures { target: "npy".to_string(), ..Figures::default() };
        assert!(verdict(std::slice::from_ref(&fine)).is_ok());
        let failed =
            Figures { failed: Some("cargo xtask fuzz --target t4 --input x".to_string()), ..fine.clone() };
        let error = verdict(&[fine, failed]).unwrap_err().to_string();
        assert!(error.contains("1 of 2") && error.contains("--target t4 --input x"), "{error}");
    }

    #[test]
    fn every_target_has_inputs_to_start_from() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for target in targets(root).unwrap() {
            let inputs = std::fs::read_dir(root.join("fuzz/corpus").join(&target)).map_or(0, Iterator::count);
            assert!((1..=corpus::MAX_CORPUS).contains(&inputs), "{target}: {inputs}");
        }
    }
}
