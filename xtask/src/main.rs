//! The project's own commands: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask bench NAME [--json]` and others; `cargo xtask help` lists them.

mod book;
mod browser;
mod cuda;
mod dependencies;
mod dist;
mod fuzz;
mod loom;
mod needs;
mod python;
mod release;
mod sanitize;
mod screenshot;
mod test;
mod tidy;
mod tune_anything;

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask COMMAND

  test            everything a change must pass: format, lints, tidy rules, tests, doc tests
                  [--quick] [--no-install] [--require-all]; `cargo xtask test --help` explains
  tidy            the rules no compiler checks: dependency direction, file length, banned calls; links and snippets of README and docs
  dependencies    licences, sources and requirements of everything that is built, against deny.toml
  book            the book of docs/ as pages in target/book, and whether their links lead somewhere
  browser-check [FILE]
                  the page of `trimtab report`, or that file, in a browser of this machine; fails where there is none
  bench NAME…     figures of one run: overhead, matmul, narrow, operations, bandwidth, fusion, expressions, placement, offload, cold, reload, search, gpu, gpu-start,
                  underload, regret, online, recorded, or all  [--json] [--no-install]
                  regret and online take --csv FILE (m,n,k,<variant>… in nanoseconds), --shapes N, --save FILE;
                  underload takes --shapes N; operations takes --shapes N and --operation NAME;
                  recorded takes --data DIR, and finds TRIMTAB_DATA and ../shared/data by itself
  bench tune-anything
                  the examples of examples/tune against Kernel Tuner and Optuna (from PyPI, in a virtual environment of its own), and what a
                  point costs against hyperfine  [--seeds N] [--evals N] [--only NAME] [--json]; --help explains
  bench mlp       a small network against ndarray and candle, which are built for it  [--json]
  chaos           faults on purpose, then processes killed at random moments: what callers got, and what was left of wisdom
                  [--faults N] [--kills N] [--seed S] [--json]
  cuda            kernels in CUDA C, verified without a GPU by NVIDIA's compilers from PyPI and trimtab-ptx; `cargo xtask cuda --help` explains
                  [--only 12|13]
  dist            what is published for machines like this one, with checksums  [--twice] [--only archive|wheel]
  fuzz            every parser fed with inputs that libFuzzer makes up; `cargo xtask fuzz --help` explains
                  [--seconds N] [--target NAME] [--list] [--json]
  loom [NAME]     the lock-free pieces in every order of events that few threads can have  [--preemptions N]
  python          the wheel: built, installed into fresh virtual environments, and tested there; `cargo xtask python --help` explains
                  [--release] [--bench] [--only PYTHON]
  release-check   what must hold before anything is published: the oldest compiler, packed crates, semantic versions;
                  `cargo xtask release-check --help` explains  [--only msrv|packages|semver] [--since REV]
  sanitize        tests of unsafe code under AddressSanitizer or valgrind
                  [--tool asan|valgrind]; `cargo xtask sanitize --help` says what each needs
  screenshot      the picture of `trimtab explain` in the README, made anew on this machine; `cargo xtask screenshot --help` explains
                  [--program FILE] [--problem PROBLEM] [--columns N]
";

/// Benchmarks that use a GPU if there is one.
const ON_GPUS: [&str; 7] = ["gpu", "gpu-start", "underload", "fusion", "expressions", "offload", "all"];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies inside the project")?;
    match words.as_slice() {
        ["test", options @ ..] => test::run(root, options),
        ["tidy"] => tidy::check(root),
        ["dependencies"] => dependencies::check(root),
        ["book"] => book::build(root),
        ["browser-check"] => browser::check(root, None),
        ["browser-check", file] => browser::check(root, Some(file)),
        ["bench", "tune-anything", options @ ..] => tune_anything::run(root, options),
        ["bench", "mlp", options @ ..] => {
            let place = ["--manifest-path", "partners/Cargo.toml", "--target-dir", "target/partners"];
            cargo(
                root,
                &[&["run", "--quiet", "--release", "--locked"], &place[..], &["--"], options].concat(),
            )
        }
        ["bench", names @ ..] => {
            let may_install = !names.contains(&"--no-install");
            if names.iter().any(|name| ON_GPUS.contains(name)) {
                for need in needs::missing(vec![needs::VULKAN], may_install) {
                    eprintln!("{} is not installed: GPUs are left out", need.what);
                }
            }
            let mut arguments = vec!["run", "--quiet", "--release", "--package", "trimtab-bench", "--"];
            arguments.extend(names.iter().filter(|name| **name != "--no-install"));
            cargo(root, &arguments)
        }
        ["chaos", options @ ..] => {
            let mut arguments =
                vec!["run", "--quiet", "--release", "--package", "trimtab-bench", "--", "chaos"];
            arguments.extend(options);
            cargo(root, &arguments)
        }
        ["cuda", options @ ..] => cuda::run(root, options),
        ["dist", options @ ..] => dist::run(root, options),
        ["fuzz", options @ ..] => fuzz::run(root, options),
        ["loom", options @ ..] => loom::run(root, options),
        ["python", options @ ..] => python::run(root, options),
        ["release-check", options @ ..] => release::run(root, options),
        ["sanitize", options @ ..] => sanitize::run(root, options),
        ["screenshot", options @ ..] => screenshot::run(root, options),
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("there is no command `{}`\n\n{HELP}", other.join(" ")),
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    cargo_with(root, arguments, &[])
}

fn cargo_with(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    // Not among the results, which programs read.
    let told: String = environment.iter().map(|(name, value)| format!("{name}={value:?} ")).collect();
    eprintln!("$ {told}cargo {}", arguments.join(" "));
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .envs(environment.iter().copied())
        .current_dir(root)
        .status()
        .with_context(|| format!("cargo {} could not be started", arguments.join(" ")))?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}

fn ran(command: &mut Command, what: &str) -> Result<()> {
    eprintln!("$ {command:?}");
    let status = command.status().with_context(|| format!("{what}: could not be started"))?;
    if !status.success() {
        bail!("{what}: failed");
    }
    Ok(())
}
