//! How the command behaves: on terminals and in pipes, when it is stopped, without a word, and without a device where it needs none.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use std::io::{BufRead, Write};
use std::path::Path;
use support::{Ended, Machine};
use trimtab::advanced::wisdom::{FactKey, Outcome, Stats, Wisdom};

const SMALL: &str = "matmul:f32:8x8x8";

/// Facts whose texts are longer than a terminal is wide.
fn remember(machine: &Machine) {
    let wisdom = Wisdom::open(machine.path());
    for (kernel, ns) in [("cpu.matmul.blocked", 123_456.0), ("cpu.matmul.some_other_kernel", 234_567.0)] {
        let key = FactKey {
            device: "cpu/somewhere".into(),
            kernel: kernel.into(),
            version: "0123456789abcdef".into(),
            problem: "matmul:f32:1024x1024x1024:n,t".into(),
            point: "kc=256,mc=64,nc=2048,prefetch=1,threads=2".into(),
            condition: "quiet".into(),
        };
        wisdom.record(key, Outcome::Timed(Stats::of(&[ns, ns + 1.0]).unwrap()));
    }
    wisdom.flush();
}

fn widest(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

fn words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> =
        text.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[test]
fn the_bare_command_shows_five_commands_that_are_understood() {
    let machine = Machine::new();
    let shown = machine.ok(&[]);
    assert!(widest(&shown) <= 80, "{shown}");
    let own: Vec<&str> = shown.lines().filter_map(|line| line.strip_prefix("  trimtab ")).collect();
    assert_eq!(own.len(), 5, "{shown}");
    for line in own {
        let command = line.split_whitespace().next().unwrap();
        assert!(machine.ok(&[command, "-h"]).contains("Usage: trimtab"), "{line}");
    }
}

#[test]
fn short_help_is_short_and_long_help_says_how_problems_are_written() {
    let machine = Machine::new();
    for command in [&[][..], &["tune"], &["bench"], &["explain"], &["record"]] {
        let [short, long] = ["-h", "--help"].map(|word| machine.ok(&[command, &[word]].concat()));
        let lines = |text: &str| text.lines().count();
        assert!(lines(&short) <= 60 && lines(&short) * 3 < lines(&long) * 2, "{} {short}", lines(&long));
        assert!(long.contains("512x256x128") && !short.contains("512x256x128"), "{command:?}: {short}");
    }
    assert!(!machine.ok(&["-h"]).contains("TRIMTAB_TUNE"));
}

#[test]
fn in_a_pipe_nothing_is_broken_or_cut_and_elsewhere_nothing_is_lost() {
    let machine = Machine::new();
    remember(&machine);
    let piped = machine.ok(&["wisdom", "list"]);
    assert!(widest(&piped) > 120 && piped.contains("kc=256,mc=64,nc=2048,prefetch=1,threads=2"), "{piped}");
    for columns in ["60", "80", "100", "120"] {
        let shown = machine.ok(&["wisdom", "list", "--columns", columns]);
        let place = format!("remembered in {}", machine.path().display()).len();
        assert!(widest(&shown) <= columns.parse::<usize>().unwrap().max(place), "{columns}\n{shown}");
        assert_eq!(words(&shown), words(&piped), "{columns}\n{shown}");
    }
}

#[test]
fn bold_and_colours_are_where_they_were_asked_for() {
    let machine = Machine::new();
    remember(&machine);
    assert!(!machine.ok(&["wisdom", "list"]).contains('\x1b'));
    assert!(!machine.ok(&["wisdom", "list", "--color", "never"]).contains('\x1b'));
    let shown = machine.run(&["wisdom", "list", "--color", "always"]).ok();
    let heading = shown.lines().find(|line| line.contains("problem")).unwrap();
    assert!(heading.starts_with("\x1b[1mproblem") && heading.ends_with("\x1b[0m"), "{heading:?}");
}

/// The command on a terminal of 80 columns, as util-linux's `script` makes one.
#[cfg(target_os = "linux")]
fn on_a_terminal(machine: &Machine, variables: &[(&str, &str)]) -> String {
    let line = format!("stty cols 80 rows 50; exec '{}' wisdom list", env!("CARGO_BIN_EXE_trimtab"));
    let mut command = trimtab_testing::command("script");
    command.args(["-qec", &line, "/dev/null"]);
    command
        .env("TRIMTAB_WISDOM_DIR", machine.path())
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env_remove("NO_COLOR");
    command.envs(variables.iter().copied()).stdin(std::process::Stdio::null());
    Ended::of(&mut command).ok().replace('\r', "")
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_gets_its_width_and_bold_headings_and_no_color_is_honoured() {
    let machine = Machine::new();
    remember(&machine);
    let shown = on_a_terminal(&machine, &[]);
    assert!(shown.contains("\x1b[1mproblem"), "{shown:?}");
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let shown = on_a_terminal(&machine, &[plain]);
        assert!(!shown.contains('\x1b') && shown.contains("problem"), "{plain:?}: {shown:?}");
        let tables = shown.lines().filter(|line| !line.contains("remembered in"));
        assert!(
            tables.clone().count() > 5 && tables.clone().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
    }
}

#[test]
fn commands_that_need_no_device_ask_for_none() {
    let machine = Machine::new();
    remember(&machine);
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data");
    let exported = machine.file("exported");
    let asking = |args: &[&str]| Ended::of(machine.command(args).env("TRIMTAB_DEVICE", "no such device"));
    for args in [
        &["wisdom", "path"][..],
        &["wisdom", "list"],
        &["wisdom", "list", "--device", "cpu/somewhere"],
        &["wisdom", "export"],
        &["wisdom", "export", &exported],
        &["wisdom", "import", &exported],
        &["wisdom", "import", &exported, "--commit"],
        &["wisdom", "quarantine", "list"],
        &["wisdom", "quarantine", "lift"],
        &["wisdom", "compact"],
        &["stats"],
        &["stats", "--op", "matmul", "--json"],
        &["wisdom", "forget", "--kernel", "cpu.matmul.blocked"],
        &["wisdom", "forget", "--all"],
        &["stats"],
        &["recording", "list", "--data", data],
        &["simulate", "--data", data, "--strategy", "random", "--seeds", "1"],
        &["study", "list"],
        &["completions", "bash"],
        &["man"],
        &[],
    ] {
        let ended = asking(args);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{args:?}");
    }
    assert_eq!(asking(&["explain", SMALL]).code, Some(2), "whoever needs a device is told");
}

#[test]
fn shells_complete_every_command_and_option() {
    let machine = Machine::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = machine.ok(&["completions", shell]);
        for word in ["tune-command", "quarantine", "wisdom-dir", "good-enough"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
    }
    let file = machine.file("completion");
    std::fs::write(&file, machine.ok(&["completions", "bash"])).unwrap();
    // What bash asks when somebody types `trimtab wis` and the tab key.
    let asks = format!(
        ". '{file}'; COMP_WORDS=(trimtab wis); COMP_CWORD=1; _trimtab trimtab wis trimtab; echo \"${{COMPREPLY[*]}}\""
    );
    let completed = std::process::Command::new("bash").args(["--norc", "-c", &asks]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "wisdom");
}

#[test]
fn every_command_has_a_manual_page() {
    let machine = Machine::new();
    let page = machine.ok(&["man"]);
    assert!(page.contains(".TH trimtab 1") && page.contains("TRIMTAB_WISDOM_DIR"), "{page}");
    let dir = machine.file("man1");
    let written = machine.lines(&["man", &dir, "--json"]).remove(0);
    let pages: Vec<&str> =
        written["pages"].as_array().unwrap().iter().map(|page| page.as_str().unwrap()).collect();
    for name in ["trimtab.1", "trimtab-tune.1", "trimtab-wisdom-quarantine-lift.1"] {
        assert!(pages.contains(&name), "{name} in {pages:?}");
    }
    for page in pages {
        let text = std::fs::read_to_string(Path::new(&dir).join(page)).unwrap();
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{page}: {text}");
    }
}

#[cfg(unix)]
#[test]
fn whoever_stops_tuning_is_told_what_is_kept() {
    let machine = Machine::new();
    let mut command = machine.command(&["tune", SMALL, "matmul:f32:1500x1500x1500", "--budget", "60s"]);
    let child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let small = |fact: &trimtab::advanced::wisdom::Fact| fact.key.problem == SMALL;
    while !Wisdom::open(machine.path()).all_facts().iter().any(small) {
        std::thread::yield_now();
    }
    let interrupted =
        std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    let kept = format!(
        "of 2 problems are tuned, remembered in {}; the same command goes on there",
        machine.path().display()
    );
    assert!(ended.err.starts_with("stopped: ") && ended.err.contains(&kept), "{}", ended.err);
}

#[test]
fn what_may_take_minutes_says_so_beforehand() {
    let machine = Machine::new();
    let (data, problem) = (machine.file("data"), "transpose:f32:64x64");
    for (budget, is_told) in [("90s", true), ("20s", false)] {
        let args = ["record", problem, "--data", &data, "--evals", "1", "--repeats", "1", "--budget", budget];
        // Not through `Ended`, which leaves such lines out.
        let output = machine.command(&args).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let first = told.lines().next().unwrap_or_default();
        let said =
            first.starts_with("trimtab: recording ") && first.contains("for at most 90.0 s; Ctrl-C ends it");
        assert_eq!(said, is_told, "{budget}: {told}");
    }
    let searches = concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data");
    for (args, said) in [
        (&["tune", SMALL, "--budget", "90s"][..], "trimtab: tuning 1 problem, for at most 90.0 s; "),
        (&["bench", SMALL, "--rounds", "1", "--budget", "90s"], "trimtab: measuring "),
        (
            &["tune-command", "true --x {x}", "--param", "x=1,2", "--name", "told"],
            "trimtab: searching settings for told, at most 2 points; what is measured is kept at once",
        ),
        (
            &["tune-command", "true --x {x}", "--param", "x=1,2", "--budget", "90s"],
            "trimtab: searching settings for true-",
        ),
    ] {
        let output = machine.command(args).stdin(std::process::Stdio::null()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.starts_with(said) && told.contains("at most "), "{args:?}: {told}");
    }
    // How long replaying takes is known from its first searches: this would be hours. The line is read, and the rest not waited for.
    let long = ["simulate", "--data", searches, "--strategy", "model", "--seeds", "100000", "--evals", "20"];
    assert!(first_line(machine.command(&long)).starts_with("trimtab: replaying "));
}

/// What it says first on standard error; then it is ended.
fn first_line(mut command: std::process::Command) -> String {
    let mut child =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    std::io::BufReader::new(child.stderr.take().unwrap()).read_line(&mut first).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    first
}

/// Whether a process handles Ctrl-C itself: what it says then is decided before that.
#[cfg(target_os = "linux")]
fn is_watching(child: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
    let handled = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let handled = handled.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // Signal 2 is the second bit.
    handled & 0b10 != 0
}

#[cfg(target_os = "linux")]
#[test]
fn whoever_stops_a_command_that_keeps_nothing_is_told_so() {
    let machine = Machine::new();
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data");
    for (args, said) in [
        (&["selftest", "--budget", "60s"][..], "stopped: what is printed counts, nothing else is kept"),
        (&["simulate", "--data", data, "--seeds", "3"], "stopped: nothing of these searches is kept"),
        (&["models"], "stopped: models are fitted anew each time, nothing of them is kept"),
        (&["report"], "stopped: no report was written"),
        (&["bench", SMALL, "--rounds", "2"], "stopped: nothing is kept; `trimtab tune` measures"),
    ] {
        // Nobody reads, and the pipe is full: whatever it does takes until it is stopped.
        let (_reader, mut full) = std::io::pipe().unwrap();
        full.write_all(&[b' '; 1 << 16]).unwrap();
        let mut command = machine.command(args);
        let child = command.stdout(full).stderr(std::process::Stdio::piped()).spawn().unwrap();
        while !is_watching(child.id()) {
            std::thread::yield_now();
        }
        let interrupted =
            std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        assert!(interrupted.success());
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(130), "{args:?}: {}", ended.err);
        assert!(ended.err.contains(said), "{args:?}: {}", ended.err);
    }
}

#[test]
fn tune_says_what_is_left_and_the_command_it_names_is_understood() {
    let machine = Machine::new();
    let large = "matmul:f32:700x700x700";
    let text = machine.ok(&["tune", SMALL, large, "--budget", "20ms"]);
    assert!(text.contains("short") && text.contains(large), "{text}");
    let command = text.lines().find_map(|line| line.strip_prefix("finish with: trimtab ")).unwrap();
    let mut words: Vec<&str> = command.split(' ').collect();
    // Read, not waited for.
    words.extend(["--help"]);
    assert!(words.contains(&large) && words.contains(&"--budget"), "{command}");
    assert!(machine.ok(&words).contains("Usage: trimtab tune"), "{command}");
}
