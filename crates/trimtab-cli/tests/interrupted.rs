//! `trimtab tune` is interrupted while a library runs: nobody is barred for that.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use std::path::Path;
use std::process::{Command, Stdio};
use support::Machine;
use trimtab::advanced::wisdom::Wisdom;

/// Whether the last word of a process that tunes is that a kernel is about to run.
fn is_inside(dir: &Path) -> bool {
    let segments =
        std::fs::read_dir(dir).unwrap().filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let last = |text: String| {
        let mut notes = text
            .lines()
            .filter(|line| line.contains("\"kind\":\"intent\"") || line.contains("\"kind\":\"done\""));
        notes.next_back().is_some_and(|line| line.contains("\"kind\":\"intent\""))
    };
    segments.into_iter().any(last)
}

/// Deaths that are seen after a command that measures a large product was sent a signal in the middle of a library.
fn deaths_after(machine: &Machine, signal: &str) -> usize {
    let mut command = machine.command(&["tune", "matmul:f32:1500x1500x1500", "--budget", "60s"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !is_inside(machine.path()) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before a library was tried");
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    child.wait().unwrap();
    Wisdom::open(machine.path()).deaths().len()
}

#[test]
fn an_interrupted_command_leaves_no_suspect() {
    for signal in ["-INT", "-TERM"] {
        assert_eq!(deaths_after(&Machine::new(), signal), 0, "{signal}");
    }
}

#[test]
fn what_ran_when_the_command_was_killed_is_tried_again() {
    let machine = Machine::new();
    assert_eq!(deaths_after(&machine, "-KILL"), 1);
    let suspect = Wisdom::open(machine.path()).deaths().remove(0);
    let listed = machine.lines(&["wisdom", "quarantine", "list", "--json"]);
    assert_eq!(
        (listed.len(), &listed[0]["kernel"], &listed[0]["suspect"]),
        (1, &suspect.kernel.clone().into(), &true.into())
    );
    let shown = machine.ok(&["wisdom", "quarantine", "list", "--kernel", &suspect.kernel]);
    assert!(shown.contains("1 process died while it ran") && shown.contains("suspect"), "{shown}");
    machine.ok(&["tune", "matmul:f32:512x512x512", "--exhaustive", "--budget", "60s"]);
    let wisdom = Wisdom::open(machine.path());
    let facts = wisdom.facts(&suspect.device, "matmul:f32:512x512x512");
    let its = |fact: &&trimtab::advanced::wisdom::Fact| {
        fact.key.kernel == suspect.kernel && fact.key.point == suspect.point
    };
    assert!(facts.iter().find(its).is_some_and(|fact| fact.outcome.stats().is_some()), "{suspect:?}");
}

#[test]
fn what_is_barred_is_lifted_by_its_kernel() {
    let machine = Machine::new();
    assert_eq!(machine.lines(&["wisdom", "quarantine", "list", "--json"]).len(), 0);
    for kernel in ["a", "b", "a"] {
        Wisdom::open(machine.path()).intend("cpu", kernel, "1", "mc=8");
    }
    let listed = machine.lines(&["wisdom", "quarantine", "list", "--json"]);
    let suspects: Vec<(&str, bool)> = listed
        .iter()
        .map(|one| (one["kernel"].as_str().unwrap(), one["suspect"].as_bool().unwrap()))
        .collect();
    assert_eq!(suspects, [("a", false), ("b", true)]);
    assert_eq!(machine.lines(&["wisdom", "quarantine", "lift", "--kernel", "a", "--json"])[0]["lifted"], 1);
    assert_eq!(machine.lines(&["wisdom", "quarantine", "list", "--json"])[0]["kernel"], "b");
    assert!(machine.ok(&["wisdom", "quarantine", "lift"]).starts_with("lifted 1 point"));
    assert!(machine.ok(&["wisdom", "quarantine", "list"]).starts_with("0 points barred"));
}
