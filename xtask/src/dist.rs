//! `cargo xtask dist`: what is published for machines like this one, and whether a second build gives the same bytes.

mod linked;

use crate::{python, ran};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const HELP: &str = "\
usage: cargo xtask dist [--twice] [--only archive|wheel]

Builds into target/dist what is published for machines like this one: an archive of the command with its manual pages, completions, README and
licences; the wheel; the licences of everything that is linked into them; and SHA256SUMS of all. Paths are taken out and times are the commit's, so that the same commit and
compiler can give the same bytes wherever the checkout is; --twice shows whether they do. Needs git, tar, gzip and sha256sum; maturin is installed from PyPI into target/python.

  --twice         builds everything a second time, from a copy of the commit elsewhere, and compares
  --only PART     the archive or the wheel alone
";

/// The page of what others' code inside is licensed under, beside archive and wheel and in the archive.
const LICENCES: &str = "LICENSES-OF-DEPENDENCIES.txt";

/// What is built.
const PARTS: [&str; 2] = ["archive", "wheel"];

pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let (mut twice, mut parts, mut words) = (false, PARTS.to_vec(), words.iter());
    while let Some(word) = words.next() {
        match *word {
            "--twice" => twice = true,
            "--only" => match words.next() {
                Some(part) if PARTS.contains(part) => parts = vec![*part],
                _ => bail!("--only takes archive or wheel\n\n{HELP}"),
            },
            "--help" | "-h" => {
                print!("{HELP}");
                return Ok(());
            }
            other => bail!("there is no option `{other}`\n\n{HELP}"),
        }
    }
    let changed = said(Command::new("git").current_dir(root).args(["status", "--porcelain"]))?;
    if !changed.is_empty() {
        eprintln!("note: what is not committed is built, too; nobody can build the same again:\n{changed}");
    }
    let place = root.join("target/dist");
    let sums = make(root, &place, &parts)?;
    print!("{sums}");
    if twice {
        let copy = place.join("again");
        let _ = std::fs::remove_dir_all(&copy);
        let clone = ["clone", "--quiet", "--no-hardlinks"];
        ran(Command::new("git").args(clone).arg(root).arg(&copy), "copying the commit")?;
        let again = make(&copy, &copy.join("target/dist"), &parts)?;
        if again != sums {
            bail!("a second build gave other bytes:\n{again}");
        }
        std::fs::remove_dir_all(&copy)?;
        println!("a second build, elsewhere, gave the same bytes");
    }
    Ok(())
}

/// Builds these parts; what `sha256sum` says of them.
fn make(root: &Path, place: &Path, parts: &[&str]) -> Result<String> {
    std::fs::create_dir_all(place)?;
    let build = place.join("build");
    let time = said(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]))?;
    let environment = [
        ("SOURCE_DATE_EPOCH", time.clone()),
        ("CARGO_ENCODED_RUSTFLAGS", without_paths(root)?.join("\u{1f}")),
        ("CARGO_PROFILE_RELEASE_STRIP", "symbols".to_string()),
        ("CARGO_INCREMENTAL", "0".to_string()),
        ("CARGO_TARGET_DIR", build.display().to_string()),
    ];
    let licences = place.join(LICENCES);
    std::fs::write(&licences, linked::licences(root)?)?;
    let mut made = vec![licences];
    if parts.contains(&"archive") {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(root).envs(environment.clone());
        command.args(["build", "--release", "--locked", "--package", "trimtab-cli", "--features", "wgpu"]);
        ran(&mut command, "building the command")?;
        made.push(archive(root, place, &build.join("release/trimtab"), &time)?);
    }
    if parts.contains(&"wheel") {
        made.push(python::release_wheel(root, place, &environment)?);
    }
    let mut sum = Command::new("sha256sum");
    for file in &made {
        sum.arg(file.file_name().context("a file has a name")?);
    }
    let sums = said(sum.current_dir(place))? + "\n";
    std::fs::write(place.join("SHA256SUMS"), &sums)?;
    Ok(sums)
}

/// Options of the compiler that take the places of this machine out of messages.
#[expect(clippy::disallowed_methods, reason = "where cargo keeps sources is said by its environment alone")]
fn without_paths(root: &Path) -> Result<Vec<String>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let from = |path: &Path, to: &str| format!("--remap-path-prefix={}={to}", path.display());
    Ok(vec![from(&home, "cargo"), from(root, "trimtab")])
}

/// The command and what belongs to it, packed so that nothing tells when or by whom.
fn archive(root: &Path, place: &Path, program: &Path, time: &str) -> Result<PathBuf> {
    let version = said(Command::new(program).arg("--version"))?.replace(' ', "-");
    let name = format!("{version}-{}-{}", std::env::consts::ARCH, std::env::consts::OS);
    let folder = place.join(&name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(folder.join("completions"))?;
    std::fs::copy(program, folder.join("trimtab"))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        std::fs::copy(root.join(file), folder.join(file))?;
    }
    std::fs::copy(place.join(LICENCES), folder.join(LICENCES))?;
    ran(Command::new(program).arg("man").arg(folder.join("man1")), "writing manual pages")?;
    for shell in ["bash", "zsh", "fish"] {
        let script = said(Command::new(program).args(["completions", shell]))?;
        std::fs::write(folder.join("completions").join(format!("trimtab.{shell}")), script + "\n")?;
    }
    let (tar, packed) = (place.join(format!("{name}.tar")), place.join(format!("{name}.tar.gz")));
    let mut pack = Command::new("tar");
    pack.current_dir(place).args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=go=rX,u+rw",
    ]);
    pack.arg(format!("--mtime=@{time}")).arg("-cf").arg(&tar).arg(&name);
    ran(&mut pack, "packing")?;
    ran(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(&tar), "compressing")?;
    std::fs::remove_dir_all(&folder)?;
    Ok(packed)
}

fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?} could not be started"))?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_string())
}
