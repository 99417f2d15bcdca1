//! `cargo xtask bench tune-anything`: what users' own code gains by `trimtab tune` and `tune-command` against Kernel Tuner and Optuna, on the
//! examples, and what the tool costs beside the command it runs. Everything runs as users run it: processes of the command in `target/debug`.

use crate::needs::{self, HYPERFINE, OPENCL};
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const HELP: &str = "\
usage: cargo xtask bench tune-anything [--seeds N] [--first-seed N] [--evals N] [--only NAME] [--trimtab FILE] [--json] [--no-install]

On each example every tuner gets the same space and number of evaluations, once a seed, in turns; what each found is then measured side by
side by one harness. Rows: stencil and tiles (against Kernel Tuner and Optuna), flags (against Optuna), overhead (against hyperfine).

  --seeds N       searches of each tuner [default: 10]
  --evals N       points of each search [default: 40]
  --only NAME     one of the rows
  --first-seed N  the first of them [default: 0]
  --trimtab FILE  the command [default: built now, `cargo build --package trimtab-cli`]
";

/// The other tuners, from PyPI.
const PACKAGES: [&str; 3] = ["kernel_tuner==1.5.*", "optuna>=4", "pyopencl"];
const RIVALS: &str = include_str!("tune_anything/rivals.py");
/// What is found is measured this often, in turns.
const ROUNDS: usize = 7;
/// Points of the search whose cost is looked at, and how often.
const OVERHEAD_POINTS: usize = 100;
const OVERHEAD_ROUNDS: usize = 5;
/// What a point may cost beside its command, and a million points to start, in seconds.
const MOST_OVERHEAD: f64 = 0.005;
const MOST_START: f64 = 2.0;

/// An example, its rivals, and the words of our search.
const EXAMPLES: [(&str, &[&str]); 3] = [
    ("stencil", &["kernel_tuner", "optuna"]),
    ("tiles", &["kernel_tuner", "optuna"]),
    ("flags", &["optuna"]),
];

struct Request {
    seeds: u64,
    first_seed: u64,
    evals: u64,
    only: Option<String>,
    trimtab: Option<PathBuf>,
    json: bool,
    may_install: bool,
}

impl Request {
    fn read(words: &[&str]) -> Result<Request> {
        let mut request = Request {
            seeds: 10,
            first_seed: 0,
            evals: 40,
            only: None,
            trimtab: None,
            json: false,
            may_install: true,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value\n\n{HELP}"));
            match *word {
                "--seeds" => request.seeds = value()?.parse().context("--seeds is a number")?,
                "--first-seed" => {
                    request.first_seed = value()?.parse().context("--first-seed is a number")?
                }
                "--evals" => request.evals = value()?.parse().context("--evals is a number")?,
                "--only" => request.only = Some((*value()?).to_string()),
                "--trimtab" => request.trimtab = Some(PathBuf::from(value()?)),
                "--json" => request.json = true,
                "--no-install" => request.may_install = false,
                other => bail!("there is no option `{other}`\n\n{HELP}"),
            }
        }
        let rows = EXAMPLES.map(|(name, _)| name);
        match &request.only {
            Some(only) if only != "overhead" && !rows.contains(&only.as_str()) => {
                bail!("there is no row `{only}`; there are: {}, overhead", rows.join(", "))
            }
            _ => Ok(request),
        }
    }

    fn wants(&self, row: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == row)
    }

    fn print(&self, row: &Value) {
        if self.json {
            println!("{row}");
            return;
        }
        let Some(row) = row.as_object() else { return };
        let shown = row.iter().map(|(name, value)| match value.as_f64() {
            Some(number) if value.is_f64() => format!("{name} {number:.3}"),
            _ => format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_string)),
        });
        println!("{}", shown.collect::<Vec<_>>().join("  "));
    }
}

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    if words.contains(&"--help") {
        print!("{HELP}");
        return Ok(());
    }
    let request = Request::read(words)?;
    let missing = needs::missing(vec![OPENCL, HYPERFINE], request.may_install);
    missing.iter().for_each(|need| eprintln!("{need}"));
    let has = |what: &str| missing.iter().all(|need| need.what != what);
    let target =
        trimtab_testing::variable("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let trimtab = match &request.trimtab {
        Some(given) => std::path::absolute(given)?,
        None => {
            crate::cargo(root, &["build", "--quiet", "--package", "trimtab-cli"])?;
            target.join("debug/trimtab")
        }
    };
    let place = target.join("tune-anything");
    let bench = Bench {
        python: PathBuf::new(),
        script: place.join("rivals.py"),
        examples: root.join("examples/tune"),
        trimtab,
        place,
    };
    if EXAMPLES.iter().any(|(name, _)| request.wants(name)) {
        let bench = Bench { python: environment(&bench.place)?, ..bench.clone() };
        std::fs::write(&bench.script, RIVALS)?;
        for (example, rivals) in EXAMPLES {
            if !request.wants(example) || (example == "stencil" && !has(OPENCL.what)) {
                continue;
            }
            bench.compare(example, rivals, &request)?;
        }
    }
    if request.wants("overhead") {
        bench.overhead(&request, has(HYPERFINE.what))?;
    }
    Ok(())
}

/// A virtual environment with the other tuners; made once.
fn environment(place: &Path) -> Result<PathBuf> {
    let python = place.join("venv/bin/python");
    std::fs::create_dir_all(place)?;
    let has_all = || {
        let words = "import kernel_tuner, optuna, pyopencl, tomllib";
        Command::new(&python).args(["-c", words]).output().is_ok_and(|output| output.status.success())
    };
    if has_all() {
        return Ok(python);
    }
    eprintln!(
        "going to make a virtual environment in {} with {} from PyPI (about 400 MB)",
        place.join("venv").display(),
        PACKAGES.join(", ")
    );
    let steps: [(&str, Vec<&str>); 2] = [
        ("python3", vec!["-m", "venv", "--clear"]),
        ("", [&["-m", "pip", "install", "--quiet"][..], &PACKAGES[..]].concat()),
    ];
    for (program, words) in steps {
        let mut command =
            Command::new(if program.is_empty() { python.as_os_str() } else { program.as_ref() });
        command.args(words).args((!program.is_empty()).then(|| place.join("venv")));
        let status = command.status().context("Python 3.11 or newer, with its module venv, is needed")?;
        if !status.success() {
            bail!("the virtual environment could not be made");
        }
    }
    if !has_all() {
        bail!(
            "the virtual environment lacks kernel_tuner, optuna, pyopencl or tomllib (Python 3.11 or newer)"
        );
    }
    Ok(python)
}

#[derive(Clone)]
struct Bench {
    python: PathBuf,
    script: PathBuf,
    examples: PathBuf,
    trimtab: PathBuf,
    place: PathBuf,
}

/// What a tuner found, and how long it took.
struct Found {
    point: Value,
    /// Of the whole process, as users wait for it.
    seconds: f64,
    /// Of the search alone, as it says itself: without what an interpreter takes to start.
    search: f64,
}

impl Bench {
    /// A command whose drivers and libraries have kept nothing from earlier searches.
    fn fresh(&self, program: &Path) -> Result<Command> {
        let cache = self.place.join("cache");
        let _ = std::fs::remove_dir_all(&cache);
        std::fs::create_dir_all(&cache)?;
        let mut command = trimtab_testing::command(program);
        command.env("POCL_CACHE_DIR", &cache).env("PYOPENCL_NO_CACHE", "1").env("XDG_CACHE_HOME", &cache);
        Ok(command)
    }

    fn ours(&self, example: &str, seed: u64, evals: u64) -> Result<Found> {
        let mut command = self.fresh(&self.examples.join(example).join("run.sh"))?;
        let studies = self.place.join("studies");
        let _ = std::fs::remove_dir_all(&studies);
        let numbers = [seed.to_string(), evals.to_string()];
        command.env("TRIMTAB", &self.trimtab).args([
            "--json",
            "--fresh",
            "--seed",
            &numbers[0],
            "--evals",
            &numbers[1],
        ]);
        command.arg("--dir").arg(&studies);
        let start = now();
        let output = command.output().with_context(|| format!("running {}", self.trimtab.display()))?;
        let seconds = start.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&output.stdout);
        let last: Option<Value> = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
        let point = last.map(|last| last["best"]["point"].clone()).filter(Value::is_object);
        let told = || format!("{example}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(Found { point: point.with_context(told)?, seconds, search: seconds })
    }

    /// What a script says; `input` is its standard input.
    fn script(&self, words: &[&str], input: &str) -> Result<Value> {
        let mut command = self.fresh(&self.python)?;
        command.arg(&self.script).args(words).arg(&self.examples);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        child.stdin.take().context("standard input is a pipe")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let told = text.lines().find_map(|line| serde_json::from_str(line.strip_prefix("TOLD ")?).ok());
        told.with_context(|| format!("{}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)))
    }

    fn compare(&self, example: &str, rivals: &[&str], request: &Request) -> Result<()> {
        let names: Vec<&str> = ["trimtab"].iter().chain(rivals).copied().collect();
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
        let (mut walls, mut searches) = (times.clone(), times.clone());
        for seed in request.first_seed..request.first_seed + request.seeds {
            let mut found: Vec<Option<Found>> = names.iter().map(|_| None).collect();
            for turn in 0..names.len() {
                // Each begins as often as the others: what warms the machine up, or cools it down, is shared.
                let at = (turn + seed as usize) % names.len();
                found[at] = Some(match names[at] {
                    "trimtab" => self.ours(example, seed, request.evals)?,
                    tool => {
                        let numbers = [seed.to_string(), request.evals.to_string()];
                        let start = now();
                        let told = self.script(&["tune", tool, example, &numbers[0], &numbers[1]], "")?;
                        let seconds = start.elapsed().as_secs_f64();
                        let search = told["seconds"].as_f64().unwrap_or(f64::NAN);
                        Found { point: told["point"].clone(), seconds, search }
                    }
                });
            }
            let found: Vec<Found> = found.into_iter().flatten().collect();
            let points: Vec<&Value> = found.iter().map(|found| &found.point).collect();
            let told = self.script(&["measure", example, &ROUNDS.to_string()], &json!(points).to_string())?;
            for (at, found) in found.iter().enumerate() {
                times[at].push(told[at].as_f64().unwrap_or(f64::NAN));
                walls[at].push(found.seconds);
                searches[at].push(found.search);
            }
            let shown: Map<String, Value> = names
                .iter()
                .zip(&times)
                .map(|(name, times)| (format!("{name}_ms"), json!(times.last().map(|time| time * 1e3))))
                .collect();
            let seconds: Vec<String> =
                walls.iter().map(|walls| format!("{:.1}", walls[walls.len() - 1])).collect();
            eprintln!("{example}, seed {seed}: {}, seconds {}", Value::Object(shown), seconds.join(" "));
        }
        for (at, name) in names.iter().enumerate() {
            let ratios: Vec<f64> =
                times[0].iter().zip(&times[at]).map(|(ours, theirs)| ours / theirs).collect();
            request.print(&json!({
                "bench": "tune-anything", "example": example, "tuner": name, "evaluations": request.evals, "seeds": request.seeds,
                "best_ms": median(&times[at]) * 1e3, "wall_s": median(&walls[at]), "search_s": median(&searches[at]),
                "ours_to_this": median(&ratios), "our_wall_to_this": median(&walls[0]) / median(&walls[at]),
                "as_good": at == 0 || median(&times[0]) <= median(&times[at]),
                "no_longer": at == 0 || median(&walls[0]) <= median(&searches[at]),
            }));
        }
        Ok(())
    }

    /// Seconds of a search of so many points of a command that does nothing.
    fn nothing(&self, points: usize) -> Result<f64> {
        let words = [
            "tune-command",
            "true {a} {b}",
            "--param",
            "a=1..20",
            "--param",
            "b=1..20",
            "--warmup",
            "0",
            "--repeats",
            "1",
            "--fresh",
        ];
        self.timed(&words, points)
    }

    fn timed(&self, words: &[&str], points: usize) -> Result<f64> {
        let mut command = self.fresh(&self.trimtab)?;
        command.args(words).args(["--evals", &points.to_string(), "--dir"]).arg(self.place.join("studies"));
        let start = now();
        let output = command.output()?;
        let seconds = start.elapsed().as_secs_f64();
        match output.status.success() {
            true => Ok(seconds),
            false => bail!("trimtab {}: {}", words.join(" "), String::from_utf8_lossy(&output.stderr)),
        }
    }

    fn overhead(&self, request: &Request, has_hyperfine: bool) -> Result<()> {
        std::fs::create_dir_all(&self.place)?;
        let (mut each, mut own, mut whole) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for _ in 0..OVERHEAD_ROUNDS {
            let (few, many) = (self.nothing(1)?, self.nothing(OVERHEAD_POINTS + 1)?);
            each = each.min((many - few) / OVERHEAD_POINTS as f64);
            if has_hyperfine {
                for _ in 0..OVERHEAD_POINTS / OVERHEAD_ROUNDS {
                    let (mean, seconds) = hyperfine(&self.place)?;
                    (own, whole) = (own.min(mean), whole.min(seconds));
                }
            }
        }
        let axes = ["a", "b", "c"].map(|name| format!("{name}=1..100"));
        let million = [
            "tune-command",
            "true {a} {b} {c}",
            "--param",
            &axes[0],
            "--param",
            &axes[1],
            "--param",
            &axes[2],
            "--fresh",
        ];
        let starts = (0..OVERHEAD_ROUNDS).map(|_| self.timed(&million, 1)).collect::<Result<Vec<f64>>>()?;
        let start = starts.into_iter().fold(f64::INFINITY, f64::min);
        let own = if has_hyperfine { Some(own) } else { None };
        request.print(&json!({
            "bench": "tune-anything", "example": "overhead", "point_ms": each * 1e3, "command_ms": own.map(|own| own * 1e3),
            "above_ms": own.map(|own| (each - own) * 1e3), "hyperfine_runs_1_ms": has_hyperfine.then_some(whole * 1e3),
            "below_5_ms": own.map(|own| each - own <= MOST_OVERHEAD),
            "million_points_start_s": start, "below_2_s": start < MOST_START,
        }));
        Ok(())
    }
}

/// What hyperfine says of one run of the same command, and what calling it takes, in seconds.
fn hyperfine(place: &Path) -> Result<(f64, f64)> {
    let told = place.join("hyperfine.json");
    let start = now();
    let output = Command::new("hyperfine")
        .args(["--runs", "1", "--shell", "none", "--style", "none", "--export-json"])
        .arg(&told)
        .arg("true 1 1")
        .output()
        .context("running hyperfine")?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("hyperfine: {}", String::from_utf8_lossy(&output.stderr));
    }
    let told: Value = serde_json::from_slice(&std::fs::read(&told)?)?;
    Ok((told["results"][0]["mean"].as_f64().context("hyperfine tells a mean")?, seconds))
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count.is_multiple_of(2) => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
        count => sorted[count / 2],
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "times whole processes; the project's own clock is about what runs inside"
)]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let request = Request::read(&["--seeds", "2", "--evals", "5", "--only", "tiles", "--json"]).unwrap();
        assert!((request.seeds, request.evals, request.json) == (2, 5, true));
        assert!(request.wants("tiles") && !request.wants("overhead"));
        for words in [&["--only", "x"][..], &["--seeds"], &["--seeds", "x"], &["--more"]] {
            assert!(Request::read(words).is_err(), "{words:?}");
        }
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[1.0, 2.0])), (2.0, 1.5));
    }
}
