//! Every program of this folder runs as a user runs it, and says what it should; the README's example is the program `readme`.
#![allow(clippy::unwrap_used, reason = "a test fails where this fails")]

use std::process::Output;

const README: &str = include_str!("../../README.md");

/// What a program prints, with wisdom of its own and none of the variables of whoever runs the tests.
fn said(program: &str) -> String {
    let wisdom = tempfile::tempdir().unwrap();
    let mut command = trimtab_testing::command(program);
    let Output { status, stdout, stderr } =
        command.env("TRIMTAB_WISDOM_DIR", wisdom.path()).output().unwrap();
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(status.success(), "{program}: {out}{err}");
    out
}

fn contains(out: &str, parts: &[&str]) {
    for part in parts {
        assert!(out.contains(part), "`{part}` is not in\n{out}");
    }
}

/// The text between the first line that begins with `open` and the next fence, and what is behind it.
fn fenced<'a>(text: &'a str, open: &str) -> (&'a str, &'a str) {
    let (_, rest) = text.split_once(open).unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap()
}

#[test]
fn the_readmes_example_is_this_program_and_prints_what_the_readme_says() {
    let (example, rest) = fenced(README, "```rust");
    let (output, _) = fenced(rest, "```text");
    let program = include_str!("../readme.rs");
    let program: Vec<&str> =
        program.lines().skip_while(|line| line.starts_with("//!") || line.is_empty()).collect();
    assert_eq!(example.lines().collect::<Vec<_>>(), program);
    assert_eq!(said(env!("CARGO_BIN_EXE_readme")), output);
}

#[test]
fn every_program_is_read_in_a_minute() {
    let files = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap().map(|entry| entry.unwrap().path());
    let programs = files.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
    // The README's example is as long as the README has room for.
    let programs: Vec<_> = programs.filter(|path| path.file_name().unwrap() != "readme.rs").collect();
    // One of them is the device of another.
    assert_eq!(programs.len(), 8 + 1, "{programs:?}");
    for path in programs {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!((30..=80).contains(&lines), "{} has {lines} lines", path.display());
    }
}

#[test]
fn first_steps_computes_and_says_why() {
    let out = said(env!("CARGO_BIN_EXE_first_steps"));
    contains(
        &out,
        &["device cpu: ", "sum 688032", "gram [64, 64]", "matmul:f32:256x64x128 runs ", "cpu.matmul."],
    );
}

#[test]
fn the_perceptron_gives_the_same_eagerly_and_as_an_expression() {
    let out = said(env!("CARGO_BIN_EXE_mlp"));
    contains(&out, &["batch 1\n", "batch 32\n", "rows.softmax:f32:32x10", "expected altogether"]);
    for line in out.lines().filter_map(|line| line.strip_prefix("largest difference between the two: ")) {
        assert!(line.parse::<f32>().unwrap() < 1e-4, "{line}");
    }
}

#[test]
fn a_kernel_of_ones_own_is_among_the_rivals() {
    let out = said(env!("CARGO_BIN_EXE_own_kernel"));
    contains(&out, &["[48, 48] ", "  mine.strips "]);
}

#[test]
fn a_device_of_ones_own_is_named_and_obeys_a_rule() {
    let out = said(env!("CARGO_BIN_EXE_own_device"));
    contains(&out, &["second: one thread of ", "by rule it runs on second\n", "same result: true\n"]);
}

#[test]
fn a_choice_sorts_at_every_size() {
    let out = said(env!("CARGO_BIN_EXE_choose"));
    contains(&out, &["16: sorted true, by ", "1000: sorted true, by ", "100000: sorted true, by "]);
}

#[test]
fn settings_of_a_closure_are_found_while_it_runs() {
    let out = said(env!("CARGO_BIN_EXE_tune_closure"));
    contains(
        &out,
        &["256: right true, 12 settings tried\n", "512: right true, 12 settings tried\n", "  tall = "],
    );
}

#[test]
fn an_expression_uses_both_devices_and_gives_the_same() {
    let out = said(env!("CARGO_BIN_EXE_two_devices"));
    contains(&out, &["devices: cpu, ", "(threshold)", "expected altogether", "same result: true\n"]);
}

#[test]
fn wisdom_of_one_runtime_serves_another() {
    let out = said(env!("CARGO_BIN_EXE_share_wisdom"));
    contains(&out, &["0 rejected\n", "taken over: true\n", "same plan: true\n", "computed 96\n"]);
    assert!(!out.contains("same plan: false"), "{out}");
}
