//! The command on a disk that takes nothing: what it could not do it does not call done.
#![cfg(unix)]

mod support;

use std::process::Command;
use support::{Ended, Machine};

/// A command that may write no byte to any file; what it says goes through pipes.
fn on_a_full_disk(machine: &Machine, args: &[&str]) -> Ended {
    let command = machine.command(args);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"])
        .arg(command.get_program())
        .args(args);
    limited.env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            limited.env(name, value);
        }
    }
    limited.env("PATH", "/usr/bin:/bin");
    Ended::of(&mut limited)
}

#[test]
fn forgetting_and_importing_on_a_full_disk_fail_and_say_so() {
    let machine = Machine::new();
    machine.ok(&["tune", "transpose:f32:16x16", "--budget", "50ms"]);
    let exported = machine.ok(&["wisdom", "export"]);
    let there = machine.lines(&["wisdom", "list", "--json"]).len();
    assert!(there > 0);
    let outcome = on_a_full_disk(&machine, &["wisdom", "forget", "--all"]);
    assert_eq!(outcome.code, Some(1), "{} {}", outcome.out, outcome.err);
    assert!(
        outcome.err.contains("nothing was forgotten") && outcome.err.contains("make room"),
        "{}",
        outcome.err
    );
    assert_eq!(machine.lines(&["wisdom", "list", "--json"]).len(), there, "and nothing is");

    let other = Machine::new();
    let file = other.file("exported");
    std::fs::write(&file, exported).unwrap();
    let outcome = on_a_full_disk(&other, &["wisdom", "import", &file, "--commit"]);
    assert_eq!(outcome.code, Some(1), "{} {}", outcome.out, outcome.err);
    assert!(outcome.err.contains("nothing was imported"), "{}", outcome.err);
    assert_eq!(other.lines(&["wisdom", "list", "--json"]).len(), 0);
}
