//! The project's own commands: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask bench NAME [--json]`.

mod browser;
mod tidy;

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask COMMAND

  test            everything a change must pass: format, lints, tidy rules, tests, doc tests
  tidy            the rules no compiler checks: dependency direction, file length, banned calls
  browser-check [FILE]
                  the page of `trimtab report`, or that file, in a browser of this machine; fails where there is none
  bench NAME…     figures of one run: overhead, matmul, bandwidth, fusion, expressions, placement, offload, cold, reload, search, gpu, gpu-start,
                  regret, online, recorded, or all  [--json]
                  regret and online take --csv FILE (m,n,k,<variant>… in nanoseconds), --shapes N, --save FILE;
                  recorded takes --data DIR
";

/// Benchmarks that use a GPU if there is one.
const ON_GPUS: [&str; 6] = ["gpu", "gpu-start", "fusion", "expressions", "offload", "all"];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask lies inside the project")?;
    match words.as_slice() {
        ["test"] => test(root),
        ["tidy"] => tidy::check(root),
        ["browser-check"] => browser::check(root, None),
        ["browser-check", file] => browser::check(root, Some(file)),
        ["bench", names @ ..] => {
            if names.iter().any(|name| ON_GPUS.contains(name)) {
                adapter(root);
            }
            let mut arguments = vec!["run", "--quiet", "--release", "--package", "trimtab-bench", "--"];
            arguments.extend(names);
            cargo(root, &arguments)
        }
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        other => bail!("there is no command `{}`\n\n{HELP}", other.join(" ")),
    }
}

fn test(root: &Path) -> Result<()> {
    cargo(root, &["fmt", "--all", "--check"])?;
    tidy::check(root)?;
    blas(root);
    adapter(root);
    cargo(
        root,
        &["clippy", "--workspace", "--all-targets", "--all-features", "--quiet", "--", "-D", "warnings"],
    )?;
    cargo(root, &["test", "--workspace", "--all-features"])?;
    published_recordings(root)?;
    println!("all checks passed");
    Ok(())
}

/// Tests on published recordings run where those are: they are not part of the repository.
#[expect(clippy::disallowed_methods, reason = "whoever runs the tests says where the data is")]
fn published_recordings(root: &Path) -> Result<()> {
    let named = std::env::var_os("TRIMTAB_RECORDINGS").map(std::path::PathBuf::from);
    let directory = named.unwrap_or_else(|| std::path::PathBuf::from("/work/shared/data"));
    if !directory.join("index.json").exists() {
        println!(
            "note: no published recordings: their tests are NOT run; TRIMTAB_RECORDINGS names their directory"
        );
        return Ok(());
    }
    cargo(root, &["test", "--workspace", "--all-features", "--test", "recordings", "--", "--ignored"])
}

/// GPU tests need an adapter, and fail without one; benchmarks leave GPUs out: installs Mesa's software Vulkan where no driver is registered.
fn adapter(root: &Path) {
    let registered = || {
        let folders = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
        let drivers = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().count();
        let output = Command::new("ldconfig").arg("-p").output();
        let loader =
            output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libvulkan.so.1"));
        drivers > 0 && loader
    };
    if !cfg!(target_os = "linux") || registered() {
        return;
    }
    eprintln!("no Vulkan driver is installed: installing Mesa's software one");
    install(root, "mesa-vulkan-drivers libvulkan1");
    if !registered() {
        eprintln!(
            "note: Mesa's Vulkan could not be installed: GPU tests will FAIL for want of an adapter, benchmarks leave GPUs out"
        );
    }
}

/// Installs Debian packages; whoever asked looks for the result.
fn install(root: &Path, packages: &str) {
    let script = format!("apt-get update -qq && apt-get install -y -qq --no-install-recommends {packages}");
    let _ = Command::new("sh").args(["-c", &script]).stdout(std::io::stderr()).current_dir(root).status();
}

/// The kernels around a CBLAS are only tested where there is one: installs Debian's OpenBLAS where that is possible, and
/// says so where it is not.
fn blas(root: &Path) {
    let known = || {
        let output = Command::new("ldconfig").arg("-p").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("libopenblas.so"))
    };
    if known() {
        return;
    }
    install(root, "libopenblas0-pthread");
    if !known() {
        println!(
            "note: no OpenBLAS found and none could be installed: the CBLAS kernels are NOT tested in this run"
        );
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<()> {
    // Not among the results, which programs read.
    eprintln!("$ cargo {}", arguments.join(" "));
    let status = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(root)
        .status()
        .with_context(|| format!("cargo {} could not be started", arguments.join(" ")))?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}
