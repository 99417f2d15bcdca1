//! `cargo xtask python`: builds the wheel, installs it into fresh virtual environments and runs the Python tests there, or its figures.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask python [--release] [--bench] [--only PYTHON]…

Builds the wheel with maturin, installs it into a fresh virtual environment of every CPython it finds (python3, and one other of 3.10 to 3.15
beside it), and runs the tests in python/tests there: on the wheel, not on the tree. maturin, NumPy, pytest, mypy, pyright and
array-api-strict come from PyPI (about 120 MB each environment), into target/python.

  --release       builds the wheel as it is published; without, as tests are built
  --bench         prints what calls take beside NumPy's, of a release build, and runs no tests
  --only PYTHON   this interpreter and no other
";

/// What tests import beside the wheel.
const FOR_TESTS: [&str; 5] = ["numpy", "pytest", "mypy", "pyright", "array-api-strict"];
/// Versions that are looked for beside `python3`, the newest first.
const OTHERS: [&str; 6] =
    ["python3.15", "python3.14", "python3.13", "python3.12", "python3.11", "python3.10"];

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (mut release, mut bench, mut only) = (false, false, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--release" => release = true,
            "--bench" => (release, bench) = (true, true),
            "--only" => only.push(words.next().context("--only needs an interpreter")?.to_string()),
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => bail!("there is no option `{other}`\n\n{HELP}"),
        }
    }
    let place = root.join("target/python");
    std::fs::create_dir_all(&place)?;
    let mut interpreters = if only.is_empty() { found() } else { only };
    if bench {
        interpreters.truncate(1);
    }
    let Some(first) = interpreters.first() else {
        bail!("there is no CPython of 3.10 or newer; install python3 with its module venv");
    };
    eprintln!("going to make virtual environments in {} with packages from PyPI", place.display());
    let wheel = built(root, &place, first, release)?;
    let size = std::fs::metadata(&wheel)?.len();
    println!("{}: {:.1} MB", wheel.file_name().unwrap_or_default().to_string_lossy(), size as f64 / 1e6);
    for interpreter in &interpreters {
        let python = environment(
            &place,
            interpreter,
            &[&[wheel.to_string_lossy().as_ref()], &FOR_TESTS[..]].concat(),
        )?;
        // From elsewhere, so that the tree is not found where the wheel should be.
        let mut command = Command::new(&python);
        command.current_dir(&place);
        match bench {
            true => command.arg(root.join("python/bench/calls.py")),
            false => command
                .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=5"])
                .arg(root.join("python/tests")),
        };
        ran(&mut command, &format!("{interpreter}: the tests of the wheel"))?;
    }
    Ok(())
}

/// Interpreters that are here: `python3`, and one of another version, by its name or pyenv's.
fn found() -> Vec<String> {
    let version = |name: &str| {
        let words = "import sys, venv; print(sys.implementation.name, sys.version_info[:2] >= (3, 10), sys.version_info[:2])";
        let output =
            Command::new(name).args(["-c", words]).output().ok().filter(|output| output.status.success())?;
        String::from_utf8_lossy(&output.stdout).strip_prefix("cpython True ").map(str::to_string)
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
    found.into_iter().map(|(name, _)| name).collect()
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

/// The wheel, made by a maturin of its own.
fn built(root: &Path, place: &Path, interpreter: &str, release: bool) -> Result<PathBuf> {
    let python = environment(place, interpreter, &["maturin"]).context("maturin builds the wheel")?;
    let wheels = place.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let mut command = Command::new(python);
    command.current_dir(root).args(["-m", "maturin", "build", "--compatibility", "linux", "--profile"]);
    command.arg(if release { "release" } else { "dev" }).arg("--out").arg(&wheels);
    ran(&mut command, "building the wheel")?;
    let made = std::fs::read_dir(&wheels)?.flatten().map(|entry| entry.path());
    made.into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .context("maturin made no wheel")
}

/// A fresh virtual environment with these packages; its interpreter.
fn environment(place: &Path, interpreter: &str, packages: &[&str]) -> Result<PathBuf> {
    let of = if packages == ["maturin"] {
        "tools".to_string()
    } else {
        interpreter.trim_start_matches('/').replace(['/', '.'], "-")
    };
    let (dir, python) = (place.join(&of), place.join(&of).join("bin/python"));
    // Tools are kept: what is tested is not among them.
    let has_maturin = || {
        Command::new(&python)
            .args(["-m", "maturin", "--version"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if of == "tools" && has_maturin() {
        return Ok(python);
    }
    ran(Command::new(interpreter).args(["-m", "venv", "--clear"]).arg(&dir), "making a virtual environment")?;
    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    ran(&mut install, "installing from PyPI")?;
    Ok(python)
}

fn ran(command: &mut Command, what: &str) -> Result<()> {
    eprintln!("$ {command:?}");
    let status = command.status().with_context(|| format!("{what}: could not be started"))?;
    if !status.success() {
        bail!("{what}: failed");
    }
    Ok(())
}
