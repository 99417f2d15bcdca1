//! `cargo xtask release-check`: what must hold before anything is published, and takes too long for every test run.

use crate::dependencies::oldest;
use crate::{cargo, ran};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;
use trimtab_testing::NOT_RUN;

const HELP: &str = "\
usage: cargo xtask release-check [--only msrv|packages|semver]… [--since REV]

What must hold before anything is published. Each part compiles everything once more, into folders of its own below target.

  msrv          every crate type-checks with the oldest compiler that Cargo.toml promises. rustup has to have it; the message says how
  packages      every crate that is published is packed, and what was packed is built, in order, as from the registry; nothing is uploaded
  semver        public interfaces against an earlier commit, by cargo-semver-checks (cargo install cargo-semver-checks --locked)

  --only PART   this part and no other
  --since REV   what semver compares with [default: the newest tag that begins with v]. Nothing was published yet, and nothing is tagged: the
                first release tags v0.2.0, and the next is compared with it
";

/// A check, given the project and what to compare with.
type Part = fn(&Path, Option<&str>) -> Result<()>;

const PARTS: [(&str, Part); 3] = [("msrv", msrv), ("packages", packages), ("semver", semver)];

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (mut only, mut since, mut words) = (Vec::new(), None, words.iter());
    while let Some(word) = words.next() {
        match *word {
            "--only" => match words.next() {
                Some(part) if PARTS.iter().any(|(name, _)| name == part) => only.push(*part),
                _ => bail!("--only takes msrv, packages or semver\n\n{HELP}"),
            },
            "--since" => since = Some(*words.next().context("--since needs a commit or tag")?),
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => bail!("there is no option `{other}`\n\n{HELP}"),
        }
    }
    let asked = |name: &str| only.is_empty() || only.contains(&name);
    PARTS.iter().filter(|(name, _)| asked(name)).try_for_each(|(_, part)| part(root, since))
}

/// Type-checks everything with the compiler of `rust-version`.
fn msrv(root: &Path, _since: Option<&str>) -> Result<()> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let version = oldest(&manifest).context("Cargo.toml has no line `rust-version`")?;
    let found = Command::new("rustup").args(["run", version, "rustc", "--version"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        bail!(
            "Rust {version} is not installed: rustup toolchain install {version} --profile minimal --no-self-update"
        );
    }
    let mut check = Command::new("rustup");
    check.current_dir(root).args(["run", version, "cargo", "check", "--workspace", "--all-features"]);
    check.args(["--locked", "--target-dir", "target/msrv"]);
    // What runs us says which compiler and cargo to use; here another is asked for.
    check.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    ran(&mut check, &format!("type-checking with Rust {version}"))
}

/// Packs what is published and builds it from the packages alone.
fn packages(root: &Path, _since: Option<&str>) -> Result<()> {
    // One folder for all, so that a crate is compiled once for those that need it. What is packed is only built, never run.
    let words = ["publish", "--workspace", "--dry-run", "--locked", "--target-dir", "target/packed"];
    cargo(root, &words)
}

/// Compares public interfaces with those of a commit.
fn semver(root: &Path, since: Option<&str>) -> Result<()> {
    let Some(since) = since.map(str::to_string).or_else(|| newest_tag(root)) else {
        println!("{NOT_RUN} semver: nothing is tagged yet; --since names what to compare with");
        return Ok(());
    };
    let found = Command::new(env!("CARGO")).args(["semver-checks", "--version"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        bail!("cargo-semver-checks is not installed: cargo install cargo-semver-checks --locked");
    }
    cargo(root, &["semver-checks", "--workspace", "--all-features", "--baseline-rev", &since])
}

fn newest_tag(root: &Path) -> Option<String> {
    let words = ["describe", "--tags", "--abbrev=0", "--match", "v*"];
    let output = Command::new("git").args(words).current_dir(root).output().ok()?;
    let said = output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string());
    said.filter(|tag| !tag.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_compiler_is_what_the_manifest_promises() {
        let version = oldest(include_str!("../../Cargo.toml")).unwrap();
        let parts: Vec<u32> = version.split('.').map(|part| part.parse().unwrap()).collect();
        assert_eq!(parts[0], 1, "{version}");
        assert!(include_str!("../../README.md").contains(&format!("Rust {version} or newer")), "{version}");
        assert!(
            include_str!("../../docs/first-hour.md").contains(&format!("Rust {version} or newer")),
            "{version}"
        );
        assert_eq!(oldest("[package]\n"), None);
    }

    #[test]
    fn parts_that_do_not_exist_are_refused() {
        let root = Path::new(".");
        assert!(run(root, &["--only", "all"]).is_err() && run(root, &["--since"]).is_err());
        assert!(run(root, &["--help"]).is_ok());
    }
}
