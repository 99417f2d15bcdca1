//! What commands print at 80 columns, as it was reviewed: `UPDATE_EXPECT=1 cargo test -p trimtab-cli --test golden` writes it anew. Everything
//! here comes from made-up facts, files and recordings of the repository, so that it is the same on every machine. What a device is needed for is in
//! `src/commands/golden.rs`.
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
    let asked = [&["tune-command", "echo {block}{unroll}"], &search[..]].concat();
    let place = machine.path().display().to_string();
    let first = shown(&machine, &asked).replace(&place, "DIR");
    expect_file!["golden/tune-command.txt"].assert_eq(&first);
    check(&machine, &["best", "kept"], expect_file!["golden/best.txt"]);
    check(&machine, &["best", "kept", "--format", "env"], expect_file!["golden/best-env.txt"]);
    check(&machine, &["study", "list"], expect_file!["golden/study-list.txt"]);
    check(&machine, &["study", "report", "kept"], expect_file!["golden/study-report.txt"]);
    check(&machine, &["study", "export", "kept", "t4.json"], expect_file!["golden/study-export.txt"]);
}

/// Only one of its settings is right, so that it is the best on every machine.
const KERNEL: &str = r"
    void kernel(const float *given, float *out, int n) {
        for (int i = 0; i < n; i++) out[i] = 2 * given[i] + (way == 3 && i == 7);
        if (way == 1) *(volatile int *)8 = 1;
    }
    #if way == 8
    #error this one cannot be built
    #endif
";
const SPACE: &str = r#"
    [parameters]
    way = [0, 1, 3, 8]
    [sizes]
    n = 1000
    [kernel]
    entry = "kernel"
    [[arguments]]
    name = "given"
    type = "f32"
    shape = "n"
    [[arguments]]
    name = "out"
    type = "f32"
    shape = "n"
    output = true
    [[arguments]]
    name = "n"
    type = "i32"
    value = "n"
    [reference]
    kernel = "twice.c"
"#;
const TWICE: &str = "void twice(const float *given, float *out, int n) { for (int i = 0; i < n; i++) out[i] = 2 * given[i]; }";

#[test]
fn a_kernel_in_a_file() {
    let machine = Machine::new();
    for (name, text) in [("kernel.c", KERNEL), ("space.toml", SPACE), ("twice.c", TWICE)] {
        std::fs::write(machine.file(name), text).unwrap();
    }
    let text = shown(&machine, &["tune", "kernel.c", "--space", "space.toml", "--name", "ways"]);
    // How long it takes is this machine's to say.
    let timed = |line: &str| match line.strip_prefix("value  ").and_then(|rest| rest.split_once(" (")) {
        Some((_, runs)) => format!("value  12.3 µs ({}", runs.replace(|c: char| c.is_ascii_digit(), "#")),
        None => line.replace(&machine.path().display().to_string(), "DIR"),
    };
    let text: String = text.lines().map(|line| timed(line) + "\n").collect();
    expect_file!["golden/tune-file.txt"].assert_eq(&text);
}

#[test]
fn files_that_are_merged() {
    // Files of a process that is at work, which this one is, are left alone.
    check(&remembering(), &["wisdom", "compact"], expect_file!["golden/wisdom-compact.txt"]);
}

#[test]
fn what_shells_and_manuals_are_told() {
    let machine = Machine::new();
    // Pages are for troff, which breaks their lines.
    expect_file!["golden/man.txt"].assert_eq(&shown(&machine, &["man"]));
    check(&machine, &["man", "pages"], expect_file!["golden/man-pages.txt"]);
    // Scripts are long and not ours: what they say of one command's options.
    let script = shown(&machine, &["completions", "fish"]);
    let of_bench = script.lines().filter(|line| line.contains("__fish_trimtab_using_subcommand bench\""));
    let of_bench: String = of_bench.map(|line| format!("{line}\n")).collect();
    assert!(of_bench.contains("-l rounds"), "{of_bench}");
    expect_file!["golden/completions.txt"].assert_eq(&of_bench);
}
