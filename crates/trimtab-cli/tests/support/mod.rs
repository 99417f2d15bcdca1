//! The real binary as a user runs it: a machine with wisdom of its own and none of the variables of whoever runs the tests.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test binary uses its own part of this, and fails where that fails"
)]

pub mod fields;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

pub struct Machine {
    dir: TempDir,
    /// Devices have tests of their own: the others see the processor alone, and nothing of drivers.
    device: Option<&'static str>,
}

/// How the command ended, and what it said.
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Machine {
    /// The processor alone.
    pub fn new() -> Machine {
        Machine { dir: tempfile::tempdir().unwrap(), device: Some("cpu") }
    }

    /// With every GPU that is found. Tests that need one fail without; `cargo xtask test` installs Mesa's.
    pub fn with_gpus() -> Machine {
        Machine { device: None, ..Machine::new() }
    }

    /// Where wisdom is kept, and what else a test writes.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A file or directory in there, as an argument.
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = trimtab_testing::command(env!("CARGO_BIN_EXE_trimtab"));
        command.env("TRIMTAB_WISDOM_DIR", self.path()).args(args);
        command.envs(self.device.map(|device| ("TRIMTAB_DEVICE", device)));
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        Ended::of(&mut self.command(args))
    }

    /// What a call that succeeds prints.
    pub fn ok(&self, args: &[&str]) -> String {
        let outcome = self.run(args);
        assert!(!outcome.out.contains('\x1b'), "{args:?} should write no escape codes to a pipe");
        // A driver may say what it likes.
        assert!(self.device.is_none() || outcome.err.is_empty(), "{args:?} says {}", outcome.err);
        outcome.ok()
    }

    /// The same as JSON, an object a line.
    pub fn lines(&self, args: &[&str]) -> Vec<Value> {
        json(&self.ok(args))
    }
}

impl Ended {
    pub fn of(command: &mut Command) -> Ended {
        Ended::from(command.output().unwrap())
    }

    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }
}

impl From<Output> for Ended {
    /// Without the lines that say how far a long command is: how many there are depends on the machine.
    fn from(output: Output) -> Ended {
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        let is_said = |line: &&str| !line.starts_with("trimtab: ");
        let err = err.split_inclusive('\n').filter(is_said).collect();
        Ended { code: output.status.code(), out, err }
    }
}

pub fn json(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
