//! What tests and benchmarks share: an environment of their own, the recordings that are not part of the repository, and devices
//! that do not exist: made of recordings, or of a few numbers ([`machine`]).

pub mod browser;
#[cfg(feature = "devices")]
pub mod machine;
#[cfg(feature = "devices")]
mod recorded_device;

#[cfg(feature = "devices")]
pub use recorded_device::{RecordedDevice, small_recording};

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the directory of published recordings where it is not beside the checkout.
pub const DATA: &str = "TRIMTAB_DATA";
/// With any value, a test that needs those recordings fails without them instead of saying that it did not run.
pub const REQUIRE_DATA: &str = "TRIMTAB_REQUIRE_DATA";
/// What a line starts with that says what did not run; `cargo xtask test` collects them.
pub const NOT_RUN: &str = "not run:";

/// A variable of the environment, if it is set to something.
#[expect(clippy::disallowed_methods, reason = "whoever runs tests says here where data and libraries are")]
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A program that knows none of the `TRIMTAB_*` variables of whoever runs the tests.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TRIMTAB_")) {
        command.env_remove(name);
    }
    command
}

/// One test of this test program in a process of its own; what it prints is seen.
pub fn child(test: &str) -> std::io::Result<Command> {
    let mut command = command(std::env::current_exe()?);
    command.args(["--exact", test, "--nocapture"]);
    Ok(command)
}

/// Libraries with a CBLAS beside those on the search path: what a runtime, too, reads from `TRIMTAB_BLAS`.
pub fn blas_libraries() -> Vec<PathBuf> {
    variable("TRIMTAB_BLAS").map(|paths| std::env::split_paths(&paths).collect()).unwrap_or_default()
}

/// The directory of published recordings of devices we do not have, or why there is none.
pub fn find_data() -> Result<PathBuf, String> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    data_in(variable(DATA).map(PathBuf::from), beside)
}

fn data_in(named: Option<PathBuf>, beside: PathBuf) -> Result<PathBuf, String> {
    let name = named.as_ref().map(|path| format!("{DATA}={}", path.display()));
    let directory = named.unwrap_or(beside);
    if directory.join("index.json").exists() {
        return Ok(directory);
    }
    Err(match name {
        Some(name) => format!("{name} is not a directory with index.json"),
        None => format!("no recordings in ../shared/data beside the checkout, and {DATA} names no directory"),
    })
}

/// The same for a test called `what`: without them it has to return, and is counted among what did not run.
///
/// # Panics
/// Where there are none although they were named or required: that must not read as passed.
pub fn data(what: &str) -> Option<PathBuf> {
    let missing = match find_data() {
        Ok(directory) => return Some(directory),
        Err(missing) => missing,
    };
    let demanded = variable(DATA).is_some() || variable(REQUIRE_DATA).is_some();
    assert!(!demanded, "{what}: {missing}");
    // Written, not printed: what a test that passes prints is not shown. At once, so that lines of threads stay whole.
    let _ = std::io::stderr().write_all(format!("{NOT_RUN} {what}: {missing}\n").as_bytes());
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_where_they_are_named_else_beside_and_a_wrong_name_is_not_passed_over() {
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trimtab-replay/data");
        let nowhere = Path::new(env!("CARGO_MANIFEST_DIR")).join("nowhere");
        assert_eq!(data_in(Some(ours.clone()), nowhere.clone()), Ok(ours.clone()));
        assert_eq!(data_in(None, ours.clone()), Ok(ours.clone()));
        assert!(data_in(Some(nowhere.clone()), ours).unwrap_err().contains("TRIMTAB_DATA="));
        assert!(data_in(None, nowhere).unwrap_err().contains("beside the checkout"));
    }

    #[test]
    fn a_child_has_no_variable_of_ours() {
        if variable("TRIMTAB_OF_THE_PARENT").is_some() {
            let inner = command("nothing");
            let removed: Vec<_> = inner.get_envs().filter(|(_, value)| value.is_none()).collect();
            assert!(removed.iter().any(|(name, _)| *name == "TRIMTAB_OF_THE_PARENT"), "{removed:?}");
            return;
        }
        let mut child = child("tests::a_child_has_no_variable_of_ours").unwrap();
        let output = child.env("TRIMTAB_OF_THE_PARENT", "1").output().unwrap();
        assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }
}
