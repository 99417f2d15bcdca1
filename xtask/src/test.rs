//! `cargo xtask test`: everything a change must pass, how long each step took, and what did not run.

use crate::needs::{self, CPP, FFTW, OPENBLAS, OPENCL, VULKAN};
use crate::{book, cargo, dependencies, fuzz, tidy};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use trimtab_testing::NOT_RUN;

const HELP: &str = "\
usage: cargo xtask test [--quick] [--no-install] [--require-all]

Format, tidy rules, dependencies, the book, lints, all tests and doc tests, and 8 s of every fuzz target; each step's time is printed at
the end.

Some tests need what is not part of the project. Where it is missing, Debian's packages are named with their size, and
installed with apt-get: Mesa's Vulkan driver for GPU kernels, OpenBLAS for the kernels around a CBLAS, FFTW for the one around it,
PoCL for users' kernels in OpenCL C, g++ for libFuzzer.

  --quick         for while you work: format, tidy rules, lints of everything, and the unit tests of crates without kernels. Not what a
                  change must pass
  --no-install    installs nothing: what cannot run is left out and listed at the end in lines that start with `not run:`
  --require-all   fails where a driver or library is missing in the end, installed or not

Published recordings of other devices are found in ../shared/data beside the checkout, or where TRIMTAB_DATA says. Without them
their tests are among what did not run; with TRIMTAB_REQUIRE_DATA=1 they fail.
";

/// Tests without an adapter: what is built with GPUs is left out but for the translations of their kernels.
const WITHOUT_GPUS: [&[&str]; 2] = [
    &[
        "test",
        "--workspace",
        "--exclude",
        "trimtab-wgpu",
        "--exclude",
        "trimtab-bench",
        "--no-default-features",
        "--features",
        "trimtab/ndarray",
    ],
    &["test", "--package", "trimtab-wgpu", "--lib", "--test", "translations"],
];

/// Crates whose unit tests are built without compiling a kernel. Kernels take minutes, and whatever is linked with them waits for them.
const WITHOUT_KERNELS: [&str; 11] = [
    "trimtab-core",
    "trimtab-sources",
    "trimtab-ptx",
    "trimtab-model",
    "trimtab-tune",
    "trimtab-wisdom",
    "trimtab-operands",
    "trimtab-plan",
    "trimtab-replay",
    "trimtab-study",
    "trimtab-testing",
];

/// Everything that is compiled, looked at by clippy, which compiles no kernel either.
const LINTS: [&str; 8] =
    ["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-D", "warnings"];

/// Their unit tests. Of only these packages cargo unites the features, so that what it builds is kept beside what all tests need.
fn quick_tests() -> Vec<&'static str> {
    let packages = WITHOUT_KERNELS.iter().flat_map(|name| ["--package", *name]);
    ["test", "--quiet", "--all-features", "--lib"].into_iter().chain(packages).collect()
}

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (mut may_install, mut require_all, mut quick) = (true, false, false);
    for word in words {
        match *word {
            "--no-install" => may_install = false,
            "--require-all" => require_all = true,
            "--quick" => quick = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => bail!("there is no option `{other}`\n\n{HELP}"),
        }
    }
    let mut times = Vec::new();
    let mut step = |name: &'static str, work: &mut dyn FnMut() -> Result<()>| {
        let started = now();
        work()?;
        times.push((name, started.elapsed()));
        anyhow::Ok(())
    };
    step("format", &mut || {
        cargo(root, &["fmt", "--all", "--check"])?;
        ["book/Cargo.toml", "fuzz/Cargo.toml", "partners/Cargo.toml"]
            .iter()
            .try_for_each(|manifest| cargo(root, &["fmt", "--manifest-path", manifest, "--check"]))
    })?;
    step("tidy", &mut || tidy::check(root))?;
    if quick {
        step("lints", &mut || cargo(root, &LINTS))?;
        step("unit tests", &mut || cargo(root, &quick_tests()))?;
        println!("{}", told(&times));
        println!(
            "quick checks passed. `cargo xtask test` has what they leave out: tests of crates with kernels and of all that is linked with \
             them (`cargo test --package trimtab-cli --lib` has those of one), integration tests, documents, fuzzing"
        );
        return Ok(());
    }
    step("dependencies", &mut || dependencies::check(root))?;
    step("book", &mut || book::build(root))?;
    let missing = needs::missing(vec![VULKAN, OPENBLAS, FFTW, OPENCL, CPP], may_install);
    step("lints", &mut || cargo(root, &LINTS))?;
    let all: [&[&str]; 1] = [&["test", "--workspace", "--all-features"]];
    let has_gpu = missing.iter().all(|need| need.what != VULKAN.what);
    let tests = if has_gpu { &all[..] } else { &WITHOUT_GPUS };
    // Apart from running them, so that it is seen where the time goes.
    step("building tests", &mut || {
        tests.iter().try_for_each(|words| cargo(root, &[words, &["--quiet", "--no-run"][..]].concat()))
    })?;
    let mut not_run: Vec<String> = missing.iter().map(|need| format!("{NOT_RUN} {need}")).collect();
    // What failed is told after what did not run, and one failure does not hide the others.
    let mut failed = Vec::new();
    step("tests", &mut || {
        let all = |words: &&[&str]| listen(root, &[words, &["--no-fail-fast"][..]].concat(), &mut not_run);
        failed = tests.iter().map(all).filter_map(Result::err).collect();
        Ok(())
    })?;
    if missing.iter().all(|need| need.what != CPP.what) {
        let (targets, mut built) = (fuzz::targets(root)?, None);
        step("building fuzz targets", &mut || fuzz::build(root, &targets).map(|place| built = Some(place)))?;
        step("fuzzing", &mut || {
            let Some(built) = &built else { return Ok(()) };
            let figures = fuzz::run_all(root, built, &targets, fuzz::TEST_SECONDS, false)?;
            failed.extend(fuzz::verdict(&figures).err());
            Ok(())
        })?;
    }
    println!("{}", told(&times));
    for line in &not_run {
        println!("{line}");
    }
    if !not_run.is_empty() {
        println!("{} not run; `cargo xtask test --help` says how to have them", not_run.len());
    }
    if let Some(first) = failed.into_iter().next() {
        return Err(first);
    }
    if require_all && !missing.is_empty() {
        bail!("--require-all: not everything could be run");
    }
    println!("all checks that were run passed");
    Ok(())
}

fn told(times: &[(&str, Duration)]) -> String {
    let took = |(name, time): &(&str, Duration)| format!("{name} {} s", time.as_secs());
    times.iter().map(took).collect::<Vec<_>>().join(", ")
}

#[expect(clippy::disallowed_methods, reason = "times the steps for people; no decision rests on it")]
fn now() -> Instant {
    Instant::now()
}

/// Runs tests and keeps the lines in which they say what did not run.
fn listen(root: &Path, words: &[&str], not_run: &mut Vec<String>) -> Result<()> {
    eprintln!("$ cargo {}", words.join(" "));
    let mut command = Command::new(env!("CARGO"));
    let mut child = command.args(words).current_dir(root).stderr(Stdio::piped()).spawn()?;
    let said = child.stderr.take().context("standard error is a pipe")?;
    for line in BufReader::new(said).split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        eprintln!("{line}");
        if line.starts_with(NOT_RUN) {
            not_run.push(line.into_owned());
        }
    }
    if !child.wait()?.success() {
        bail!("cargo {} failed", words.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_tests_compile_no_kernel() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for name in WITHOUT_KERNELS {
            let words = ["tree", "--offline", "--all-features", "--prefix", "none", "--package", name];
            let output = Command::new(env!("CARGO")).args(words).current_dir(root).output().unwrap();
            let tree = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && tree.starts_with(name), "{name}: {tree}");
            for heavy in ["trimtab-cpu ", "trimtab-wgpu ", "trimtab-cuda ", "wgpu "] {
                assert!(!tree.lines().any(|line| line.starts_with(heavy)), "{name} needs {heavy}");
            }
        }
    }
}
