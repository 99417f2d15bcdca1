//! What commands print at 80 columns, as it was reviewed: `UPDATE_EXPECT=1 cargo test -p trimtab-cli --test golden` writes it anew. Everything
//! here comes from made-up facts and recordings of the repository, so that it is the same on every machine.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use expect_test::{ExpectFile, expect_file};
use support::{Ended, Machine};
use trimtab::advanced::core::FailureKind;
use trimtab::advanced::wisdom::{FactKey, Outcome, Stats, Wisdom};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data");
const RECORDING: &str = "cpu.transpose.tiled__transpose-f32-512x512__amd_epyc";

fn key(kernel: &str, problem: &str, point: &str, condition: &str) -> FactKey {
    FactKey {
        device: "cpu/somewhere".into(),
        kernel: kernel.into(),
        version: "0123456789abcdef".into(),
        problem: problem.into(),
        point: point.into(),
        condition: condition.into(),
    }
}

/// A machine that remembers a few facts of another.
fn remembering() -> Machine {
    let machine = Machine::new();
    let wisdom = Wisdom::open(&machine.path().join("wisdom"));
    let product = "matmul:f32:1024x1024x1024:n,t";
    let timed = |samples: &[f64]| Outcome::Timed(Stats::of(samples).unwrap());
    let facts = [
        (
            key("cpu.matmul.blocked", product, "kc=256,mc=64,nc=2048,threads=2", "quiet"),
            timed(&[12.4e6, 12.5e6]),
        ),
        (key("cpu.matmul.blocked", product, "kc=256,mc=64,nc=2048,threads=2", "live"), timed(&[13.1e6; 8])),
        (key("cpu.matmul.blocked", product, "kc=256,mc=64,nc=2048,threads=2", "chosen"), timed(&[13.1e6; 4])),
        (key("cpu.matmul.gemm", product, "threads=2", "explored"), timed(&[12.0e6; 3])),
        (key("cpu.transpose.tiled", "transpose:f32:512x512", "tile=32,threads=1", "quiet"), timed(&[91e3])),
    ];
    for (key, outcome) in facts {
        wisdom.record(key, outcome);
    }
    let message =
        "element 17 is 3.5 and should be 3.25, more than rounding explains at this size".to_string();
    let wrong = Outcome::Failed { kind: FailureKind::Wrong, message };
    wisdom.record(key("cpu.matmul.mine", product, "-", "quiet"), wrong);
    wisdom.flush();
    machine
}

/// Runs it in the machine's directory, so that what it prints of paths is the same everywhere.
fn shown(machine: &Machine, args: &[&str]) -> String {
    let mut command = machine.command(&[args, &["--wisdom-dir", "wisdom", "--columns", "80"]].concat());
    let ended = Ended::of(command.current_dir(machine.path()));
    assert_eq!(ended.err, "", "{args:?}");
    ended.ok()
}

fn check(machine: &Machine, args: &[&str], expected: ExpectFile) {
    let mut text = shown(machine, args);
    // The last table of `simulate` has times of this machine.
    if let Some(at) = text.find("\nMedian over") {
        text.truncate(at);
    }
    // A word that is longer than a line stays whole.
    let wide = text.lines().find(|line| line.chars().count() > 80 && line.split_whitespace().count() > 2);
    assert_eq!(wide, None, "{args:?}");
    expected.assert_eq(&text);
}

#[test]
fn the_bare_command() {
    check(&Machine::new(), &[], expect_file!["golden/bare.txt"]);
}

#[test]
fn what_is_remembered() {
    let machine = remembering();
    check(&machine, &["wisdom", "path"], expect_file!["golden/wisdom-path.txt"]);
    check(&machine, &["wisdom", "list"], expect_file!["golden/wisdom-list.txt"]);
    check(&machine, &["wisdom", "quarantine", "list"], expect_file!["golden/quarantine-list.txt"]);
    check(&machine, &["stats"], expect_file!["golden/stats.txt"]);
    check(&Machine::new(), &["stats"], expect_file!["golden/stats-empty.txt"]);
}

#[test]
fn what_is_carried_and_forgotten() {
    let (here, there) = (remembering(), Machine::new());
    let file = there.file("exported");
    check(&here, &["wisdom", "export", "exported"], expect_file!["golden/wisdom-export.txt"]);
    std::fs::copy(here.file("exported"), file).unwrap();
    check(&there, &["wisdom", "import", "exported"], expect_file!["golden/wisdom-import.txt"]);
    check(&here, &["wisdom", "quarantine", "lift"], expect_file!["golden/quarantine-lift.txt"]);
    check(&here, &["wisdom", "forget", "--all"], expect_file!["golden/wisdom-forget.txt"]);
}

#[test]
fn recordings_and_searches_of_them() {
    let machine = Machine::new();
    check(&machine, &["recording", "list", "--data", DATA], expect_file!["golden/recording-list.txt"]);
    let simulate =
        ["simulate", "--data", DATA, "--strategy", "random,hill", "--evals", "5,10", "--seeds", "4"];
    check(&machine, &simulate, expect_file!["golden/simulate.txt"]);
    let t4 = ["recording", "export", RECORDING, "t4.json", "--data", DATA];
    check(&machine, &t4, expect_file!["golden/recording-export.txt"]);
    let back =
        ["recording", "import", "t4.json", "--data", "data", "--name", "another", "--device", "somewhere"];
    check(&machine, &back, expect_file!["golden/recording-import.txt"]);
}

#[test]
fn studies() {
    let machine = Machine::new();
    let search = [
        "--param",
        "block=16,32,64",
        "--param",
        "unroll=1,2",
        "--metric",
        "regex:([0-9]+)",
        "--name",
        "kept",
    ];
    shown(&machine, &[&["tune-command", "echo {block}{unroll}"], &search[..]].concat());
    check(&machine, &["best", "kept"], expect_file!["golden/best.txt"]);
    check(&machine, &["best", "kept", "--format", "env"], expect_file!["golden/best-env.txt"]);
    check(&machine, &["study", "list"], expect_file!["golden/study-list.txt"]);
    check(&machine, &["study", "report", "kept"], expect_file!["golden/study-report.txt"]);
    check(&machine, &["study", "export", "kept", "t4.json"], expect_file!["golden/study-export.txt"]);
}
