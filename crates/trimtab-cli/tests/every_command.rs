//! Every command there is, found by asking `-h`: `--json` gives JSON whose fields are in docs/json.md, and text fits terminals of 80, 100 and
//! 120 columns.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Stdio;
use support::fields::{listed, unlike, walk};
use support::{Ended, Machine};

const PAGE: &str = include_str!("../../../docs/json.md");
/// Commands whose fields are in docs/numbers.md; tests/numbers.rs compares them.
const ON_ANOTHER_PAGE: [&str; 6] = ["explain", "stats", "calibrate", "models", "bench", "report"];

const SMALL: &str = "matmul:f32:8x8x8";
const MOVED: &str = "transpose:f32:64x64";

/// Commands in the order in which each finds what earlier ones left, with their arguments. DIR is the machine's directory, RECORDING the name
/// of what was recorded.
const RUNS: [(&str, &str); 32] = [
    ("devices", ""),
    ("tune", "matmul:f32:8x8x8 --budget 10s"),
    ("calibrate", "--quick"),
    ("calibrate-shapes", "--budget 2s"),
    ("explain", "matmul:f32:8x8x8"),
    ("bench", "matmul:f32:8x8x8 --rounds 2"),
    ("run", "matmul:f32:8x8x8"),
    ("selftest", "--budget 100ms"),
    ("record", "transpose:f32:64x64 --data DIR/data --evals 2 --repeats 2"),
    ("recording list", "--data DIR/data"),
    ("recording export", "RECORDING DIR/t4.json --data DIR/data"),
    ("recording import", "DIR/t4.json --data DIR/data --name another --device somewhere"),
    ("simulate", "--data DIR/data --all --seeds 2 --evals 1,2 --strategy random"),
    ("stats", ""),
    ("report", ""),
    ("models", "--op matmul"),
    ("wisdom path", ""),
    ("wisdom list", ""),
    ("wisdom export", "DIR/exported"),
    ("wisdom import", "DIR/exported"),
    ("wisdom quarantine list", ""),
    ("wisdom quarantine lift", ""),
    ("wisdom compact", ""),
    ("wisdom forget", "--problem matmul:f32:8x8x8"),
    ("tune-command", "true --env X={x} --param x=1,2 --name kept --evals 2"),
    ("ask-tell", "--param x=1,2 --name asked"),
    ("best", "kept"),
    ("study list", ""),
    ("study report", "kept"),
    ("study export", "kept DIR/study.json"),
    ("completions", "bash"),
    ("man", "DIR/man1"),
];

/// Every command that is not hidden and has none below it.
fn leaves(machine: &Machine, above: &[&str], into: &mut BTreeSet<String>) {
    let help = machine.ok(&[above, &["-h"]].concat());
    let Some((_, list)) = help.split_once("Commands:\n") else {
        into.insert(above.join(" "));
        return;
    };
    let names: Vec<String> = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_string))
        .collect();
    for name in names.iter().filter(|name| *name != "help") {
        leaves(machine, &[above, &[name.as_str()]].concat(), into);
    }
}

/// A machine on which commands find something, and the name of what is recorded.
struct Lived {
    machine: Machine,
    recording: String,
}

impl Lived {
    fn new() -> Lived {
        let machine = Machine::new();
        let sizes =
            ["8x8x8", "16x16x16", "24x24x24", "32x32x32", "40x40x40", "48x48x48", "56x56x56", "64x64x64"];
        let problems: Vec<String> = sizes.iter().map(|sizes| format!("matmul:f32:{sizes}")).collect();
        let words: Vec<&str> = problems.iter().map(String::as_str).collect();
        machine.ok(&[&["tune", "--budget", "4s"], words.as_slice()].concat());
        let data = machine.file("data");
        let recorded =
            machine.lines(&["record", MOVED, "--data", &data, "--evals", "2", "--repeats", "2", "--json"]);
        let recording = recorded[0]["space"].as_str().unwrap().to_string();
        Lived { machine, recording }
    }

    fn run(&self, command: &str, args: &str, more: &[&str]) -> Ended {
        let dir = self.machine.path().display().to_string();
        let args = args.replace("DIR", &dir).replace("RECORDING", &self.recording);
        let words: Vec<&str> =
            command.split(' ').chain(args.split_whitespace()).chain(more.iter().copied()).collect();
        let mut run = self.machine.command(&words);
        Ended::of(run.stdin(Stdio::null()))
    }
}

#[test]
fn every_command_is_tried() {
    let mut known = BTreeSet::new();
    leaves(&Machine::new(), &[], &mut known);
    let tried: BTreeSet<String> = RUNS.iter().map(|(command, _)| command.to_string()).collect();
    assert_eq!(tried, known);
}

#[test]
fn every_command_gives_json_and_text_that_fits() {
    let lived = Lived::new();
    let (all, mut wrong) = (listed(PAGE), Vec::new());
    for (command, args) in RUNS {
        let ended = lived.run(command, args, &["--json"]);
        if ended.code != Some(0) {
            wrong.push(format!("{command} {args} --json ended with {:?}: {}", ended.code, ended.err));
            continue;
        }
        let mut printed = BTreeSet::new();
        for line in ended.out.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(object @ Value::Object(_)) => walk(&object, "", &mut printed),
                _ => wrong.push(format!("{command} --json prints `{line}`")),
            }
        }
        // They print what `recording list` does.
        let name = if command.starts_with("recording ") { "recording list" } else { command };
        match all.get(name) {
            _ if ON_ANOTHER_PAGE.contains(&name) => (),
            Some(listed) => wrong.extend(unlike(command, "docs/json.md", listed, &printed)),
            None => wrong.push(format!("docs/json.md has nothing of {command}")),
        }
        // Scripts are as wide as they are.
        for columns in ["80", "100", "120"].into_iter().filter(|_| command != "completions") {
            let again = if command == "recording import" { " --replace" } else { "" };
            let ended = lived.run(command, &format!("{args}{again}"), &["--columns", columns]);
            let most: usize = columns.parse().unwrap();
            // A word that is longer than the line stays whole, with its label or mark; so does a command that is to be copied.
            let too_wide = |line: &&str| {
                line.chars().count() > most
                    && line.split_whitespace().count() > 2
                    && !line.starts_with("finish with: ")
            };
            wrong.extend(
                ended.out.lines().filter(too_wide).map(|line| format!("{command} at {columns}: {line}")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(lived.machine.run(&["explain", SMALL]).code == Some(0));
}
