//! `cargo xtask python`: builds the wheel, installs it into fresh virtual environments and runs the Python tests there, or its figures.

use crate::ran;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const HELP: &str = "\
usage: cargo xtask python [--release] [--bench] [--partners] [--only PYTHON]…

Builds the wheel with maturin, installs it into a fresh virtual environment of every CPython it finds (python3, one other of 3.10 to 3.15
beside it, and python3.13t to python3.15t where there is one, which have no interpreter lock), and runs the tests in python/tests there: on
the wheel, not on the tree. What is installed from PyPI, into target/python, is named first. CI runs it after `cargo xtask test`, whose
compiled crates it uses.

  --release       builds the wheel as it is published; without, as tests are built
  --bench         prints what calls take beside NumPy's and Rust's, of a release build, and which goals hold; fails if one does not; no tests
  --partners      also runs python/partners, beside torch, JAX, Numba, Kernel Tuner and Jupyter: 3 GB to load, 7 GB on disk. Where
                  KERNEL_TUNER_EXAMPLES names the folder `examples` of a checkout of Kernel Tuner, its own programs are run, too
  --only PYTHON   this interpreter and no other; one without the interpreter's lock gets a wheel of its own
";

/// What builds the wheel.
const TOOLS: &[&str] = &["maturin>=1.9,<2"];
/// What tests import beside the wheel, in every environment.
const FOR_TESTS: &[&str] = &["numpy", "pytest", "array-api-strict"];
/// What checks types, which is done once. Node comes with it, from PyPI.
const FOR_TYPES: &[&str] = &["mypy", "pyright[nodejs]"];
/// Whom results and searches are compared with.
const PARTNERS: &[&str] =
    &["torch", "jax", "numba", "kernel_tuner", "pyopencl", "matplotlib", "nbclient", "ipykernel"];
/// Versions that are looked for beside `python3`, the newest first.
const OTHERS: [&str; 6] =
    ["python3.15", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];

/// Interpreters without a lock, the newest first: one of them is tested too, with a wheel of its own.
const WITHOUT_LOCK: [&str; 3] = ["python3.15t", "python3.14t", "python3.13t"];

/// The largest wheel that is published.
const MOST_BYTES: u64 = 15_000_000;

#[derive(Default)]
struct Options {
    release: bool,
    bench: bool,
    partners: bool,
    only: Vec<String>,
}

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--release" => options.release = true,
            "--bench" => (options.release, options.bench) = (true, true),
            "--partners" => options.partners = true,
            "--only" => options.only.push(words.next().context("--only needs an interpreter")?.to_string()),
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => bail!("there is no option `{other}`\n\n{HELP}"),
        }
    }
    let place = root.join("target/python");
    std::fs::create_dir_all(&place)?;
    let mut interpreters = if options.only.is_empty() { found() } else { options.only.clone() };
    if options.bench {
        interpreters.truncate(1);
    }
    if interpreters.is_empty() {
        bail!("there is no CPython of 3.10 or newer; install python3 with its module venv");
    }
    let needed: Vec<Vec<&str>> = (0..interpreters.len()).map(|at| packages(&options, at == 0)).collect();
    announce(&place, &interpreters, &needed);
    let mut built: Option<PathBuf> = None;
    for (interpreter, needed) in interpreters.iter().zip(&needed) {
        // One wheel is for all, but for interpreters without a lock: they have another interface.
        let wheel = match built.take() {
            Some(wheel) if !without_lock(interpreter) => wheel,
            _ => wheel(root, &place, interpreter, options.release, &[])?,
        };
        let name = interpreter.trim_start_matches('/').replace(['/', '.'], "-");
        let path = wheel.to_string_lossy().into_owned();
        let all = [&[path.as_str()], &needed[..]].concat();
        let python = environment(&place.join(name), interpreter, &all)?;
        built = (!without_lock(interpreter)).then_some(wheel);
        if options.bench {
            bench(root, &place, &python)?;
            continue;
        }
        // From elsewhere, so that the tree is not found where the wheel should be.
        let mut command = Command::new(&python);
        command.current_dir(&place).args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=8"]);
        command.arg("-rs").arg(root.join("python/tests"));
        if options.partners && Some(interpreter) == interpreters.first() {
            command.arg(root.join("python/partners"));
        }
        ran(&mut command, &format!("{interpreter}: the tests of the wheel"))?;
    }
    if interpreters.len() == 1 && options.only.is_empty() && !options.bench {
        println!("not run: a second version of CPython, which is not on this machine");
    }
    Ok(())
}

/// What the first environment needs, or another.
fn packages(options: &Options, is_first: bool) -> Vec<&'static str> {
    let with = |wanted: bool, packages: &[&'static str]| {
        packages.iter().copied().filter(move |_| wanted).collect::<Vec<_>>()
    };
    let tests = with(!options.bench || is_first, FOR_TESTS);
    let types = with(is_first && !options.bench, FOR_TYPES);
    let partners = with(is_first && options.partners, PARTNERS);
    [tests, types, partners].concat()
}

/// Says what is going to be installed, before anything is.
fn announce(place: &Path, interpreters: &[String], needed: &[Vec<&str>]) {
    eprintln!(
        "going to make virtual environments in {} (nothing else is changed), with packages from PyPI:",
        place.display()
    );
    eprintln!("  to build the wheel: {}", TOOLS.join(", "));
    for (interpreter, needed) in interpreters.iter().zip(needed) {
        eprintln!("  for {interpreter}: the wheel, {}", needed.join(", "));
    }
}

/// The figures of calls, the same product timed in Rust beside them.
fn bench(root: &Path, place: &Path, python: &Path) -> Result<()> {
    let mut command = Command::new(python);
    command.current_dir(place).arg(root.join("python/bench/calls.py"));
    ran(&mut command, "figures of calls")
}

/// Interpreters that are here: `python3`, one of another version, by its name or pyenv's, and one without a lock.
fn found() -> Vec<String> {
    let version = |name: &str| {
        let words = "import sys, venv, ensurepip; print(sys.implementation.name, sys.version_info[:2] >= (3, 10), sys.version_info[:2])";
        said(name, words)?.strip_prefix("cpython True ").map(str::to_string)
    };
    let mut found: Vec<(String, String)> = Vec::new();
    for name in ["python3"].into_iter().chain(OTHERS).map(str::to_string).chain(of_pyenv()) {
        if found.len() < 2
            && let Some(version) = version(&name)
            && found.iter().all(|(_, known)| *known != version)
        {
            found.push((name, version));
        }
    }
    let lockless = WITHOUT_LOCK.into_iter().find(|name| version(name).is_some() && without_lock(name));
    found.into_iter().map(|(name, _)| name).chain(lockless.map(str::to_string)).collect()
}

/// Whether an interpreter was built without its lock.
fn without_lock(interpreter: &str) -> bool {
    let words = "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED') or 0)";
    said(interpreter, words).is_some_and(|said| said.trim() == "1")
}

/// What a short program prints.
fn said(interpreter: &str, program: &str) -> Option<String> {
    let output = Command::new(interpreter).args(["-c", program]).output().ok();
    let output = output.filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What pyenv installed and does not put on the path, the newest first.
fn of_pyenv() -> Vec<String> {
    let root = Command::new("pyenv").arg("root").output().ok().filter(|output| output.status.success());
    let root = root.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let listed = root.and_then(|root| std::fs::read_dir(root.join("versions")).ok());
    let number = |path: &Path| -> Vec<u32> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.split('.').filter_map(|part| part.parse().ok()).collect()
    };
    let mut versions: Vec<PathBuf> =
        listed.into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    versions.sort_by_key(|path| std::cmp::Reverse(number(path)));
    versions.iter().map(|path| path.join("bin/python3").display().to_string()).collect()
}

/// The wheel that is published, built in this environment and put into that folder.
pub fn release_wheel(root: &Path, folder: &Path, environment: &[(&str, String)]) -> Result<PathBuf> {
    let interpreter = found().into_iter().next().context("there is no CPython of 3.10 or newer")?;
    let place = root.join("target/python");
    std::fs::create_dir_all(&place)?;
    let wheel = wheel(root, &place, &interpreter, true, environment)?;
    let kept = folder.join(wheel.file_name().context("a wheel has a name")?);
    std::fs::copy(wheel, &kept)?;
    Ok(kept)
}

/// The wheel for an interpreter, made by a maturin of its own.
fn wheel(
    root: &Path,
    place: &Path,
    interpreter: &str,
    release: bool,
    environment_of_build: &[(&str, String)],
) -> Result<PathBuf> {
    let tools = environment(&place.join("tools"), interpreter, TOOLS).context("maturin builds the wheel")?;
    let wheels = place.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let mut command = Command::new(tools);
    command.envs(environment_of_build.iter().map(|(name, value)| (name, value)));
    command.current_dir(root).args(["-m", "maturin", "build", "--compatibility", "linux", "--interpreter"]);
    command.arg(interpreter).arg("--out").arg(&wheels).arg("--profile");
    match release {
        true => command.arg("release"),
        // With the features everything has in the tests, nothing they compiled is compiled again.
        false => command.args(["dev", "--features", "as-tested"]),
    };
    eprintln!("$ {command:?}");
    let mut child = command.stderr(Stdio::piped()).spawn().context("maturin could not be started")?;
    let told = child.stderr.take().context("standard error is a pipe")?;
    let mut kernels = false;
    for line in BufReader::new(told).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        kernels |= line.trim_start().starts_with("Compiling trimtab-cpu ");
        eprintln!("{line}");
    }
    if !child.wait()?.success() {
        bail!("building the wheel failed");
    }
    if kernels && !release {
        eprintln!(
            "note: kernels were compiled for the wheel. If `cargo xtask test` ran before, the feature as-tested of trimtab-py no \
             longer has what the tests have"
        );
    }
    let made = std::fs::read_dir(&wheels)?.flatten().map(|entry| entry.path());
    let wheel = made.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheel.context("maturin made no wheel")?;
    let size = std::fs::metadata(&wheel)?.len();
    println!("{}: {:.1} MB", wheel.file_name().unwrap_or_default().to_string_lossy(), size as f64 / 1e6);
    if release && size > MOST_BYTES {
        bail!("the wheel takes {size} bytes, and may take {MOST_BYTES}");
    }
    Ok(wheel)
}

/// A fresh virtual environment with these packages; its interpreter. Tools are kept: what is tested is not among them.
fn environment(dir: &Path, interpreter: &str, packages: &[&str]) -> Result<PathBuf> {
    let python = dir.join("bin/python");
    if packages == TOOLS && said(&python.to_string_lossy(), "import maturin").is_some() {
        return Ok(python);
    }
    ran(Command::new(interpreter).args(["-m", "venv", "--clear"]).arg(dir), "making a virtual environment")?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    ran(&mut install, "installing from PyPI")?;
    Ok(python)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_partners_are_asked_for_once_and_only_where_they_are_wanted() {
        let (plain, all) = (Options::default(), Options { partners: true, ..Options::default() });
        assert!(packages(&plain, true).contains(&"mypy") && !packages(&plain, false).contains(&"mypy"));
        assert!(!packages(&plain, true).contains(&"torch") && packages(&all, true).contains(&"torch"));
        assert!(!packages(&all, false).contains(&"torch"));
        let bench = Options { bench: true, release: true, ..Options::default() };
        assert_eq!(packages(&bench, true), FOR_TESTS);
    }
}
