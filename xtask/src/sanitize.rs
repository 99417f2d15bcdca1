//! `cargo xtask sanitize`: tests under AddressSanitizer or valgrind, for the code a compiler cannot check.

use crate::cargo_with;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask sanitize [--tool asan|valgrind]

Runs tests of unsafe code under a tool that sees what it does to memory. Not part of `cargo xtask test`: it takes many minutes.

  --tool asan       (default) AddressSanitizer over trimtab-cpu's unit tests, conformance, guard_pages and recipes.
                    Needs the sanitizer's runtime in the toolchain (librustc-*_rt.asan.a, part of rust-std for
                    x86_64-unknown-linux-gnu and few others); the flag is unstable and asked for with RUSTC_BOOTSTRAP=1.
                    Builds into target/sanitize.
  --tool valgrind   memcheck over the matmul kernels (those of a CBLAS library among them, where there is one) and the pool.
                    Needs valgrind on the PATH. It has no AVX-512: kernels take their AVX2 forms. Threads run in turns.

Leaks are not looked for: what is kept for good (libraries, signal handlers) would be among them. Miri would see more, but
runs neither vector instructions of AVX-512 nor foreign libraries, and is not part of a stable toolchain.
";

/// Where the sanitizer's runtime is for, of the targets with one.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Children and handlers of signals are the tests' own affair; an error ends the process by a signal, as a crash would.
const ASAN_OPTIONS: &str = "detect_leaks=0:abort_on_error=1:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:\
                            handle_abort=0:handle_sigill=0:detect_stack_use_after_return=1:strict_init_order=1";

/// What runs under the sanitizer.
const WITH_ASAN: [&[&str]; 1] = [&[
    "--package",
    "trimtab-cpu",
    "--lib",
    "--test",
    "kernels",
    "--test",
    "conformance",
    "--test",
    "conformance_fft",
    "--test",
    "conformance_index",
    "--test",
    "conformance_lines",
    "--test",
    "guard_pages",
    "--test",
    "recipes",
]];

/// What runs under valgrind, some fifty times slower: tests by a part of their names. Those of large products take too long.
const WITH_VALGRIND: [&[&str]; 1] = [&[
    "--package",
    "trimtab-cpu",
    "--lib",
    "--test",
    "kernels",
    "--",
    "--test-threads=1",
    "pool::tests::a_panic",
    "blas::",
    "matmul::a_",
    "every_kernel_agrees_with_the_reference_at",
]];

const VALGRIND: &str =
    "valgrind --quiet --error-exitcode=99 --leak-check=no --fair-sched=yes --trace-children=no";

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        ["--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [] | ["--tool", "asan"] => asan(root),
        ["--tool", "valgrind"] => valgrind(root),
        other => bail!("there is no option `{}`\n\n{HELP}", other.join(" ")),
    }
}

fn asan(root: &Path) -> Result<()> {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output()?;
    let libraries = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let listed = std::fs::read_dir(&libraries).with_context(|| format!("this toolchain has no {TARGET}"))?;
    let is_runtime = |name: &str| name.starts_with("librustc") && name.ends_with("_rt.asan.a");
    if !listed.flatten().any(|file| is_runtime(&file.file_name().to_string_lossy())) {
        bail!(
            "this toolchain has no runtime of AddressSanitizer: there is no librustc-*_rt.asan.a in {libraries}"
        );
    }
    let environment = [
        ("RUSTC_BOOTSTRAP", "1"),
        ("RUSTFLAGS", "-Zsanitizer=address"),
        ("ASAN_OPTIONS", ASAN_OPTIONS),
        ("CARGO_TARGET_DIR", "target/sanitize"),
    ];
    // With a target, so that build scripts and macros are not sanitized.
    all(root, &["test", "--quiet", "--no-fail-fast", "--target", TARGET], &WITH_ASAN, &environment)
}

fn valgrind(root: &Path) -> Result<()> {
    Command::new("valgrind").arg("--version").output().context("valgrind is not on the PATH")?;
    let environment = [("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", VALGRIND)];
    all(root, &["test", "--quiet", "--no-fail-fast"], &WITH_VALGRIND, &environment)
}

/// Runs all, and fails after the last if one of them did.
fn all(root: &Path, first: &[&str], each: &[&[&str]], environment: &[(&str, &str)]) -> Result<()> {
    let run = |words: &&[&str]| cargo_with(root, &[first, *words].concat(), environment);
    each.iter().map(run).collect::<Vec<_>>().into_iter().collect()
}
