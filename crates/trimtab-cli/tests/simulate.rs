//! `trimtab simulate` as a user runs it, on the recordings kept in the repository.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::Value;
use std::path::Path;
use support::{Ended, Machine, json};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data");
const SPACE: &str = "gpu.transpose.registers__transpose-f32-512x512__llvmpipe";

fn run_on(data: &str, args: &[&str]) -> Ended {
    Machine::new().run(&[&["simulate", "--data", data], args].concat())
}

fn ok(data: &str, args: &[&str]) -> String {
    let outcome = run_on(data, args);
    assert!(outcome.err.is_empty(), "{args:?}: {}", outcome.err);
    outcome.ok()
}

fn lines_of(data: &str, args: &[&str]) -> Vec<Value> {
    json(&ok(data, &[args, &["--json"]].concat()))
}

fn lines(args: &[&str]) -> Vec<Value> {
    lines_of(DATA, args)
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap()
}

/// The names of recordings with every legal setting, and all names.
fn names() -> (Vec<String>, Vec<String>) {
    let recordings = trimtab_replay::read_recordings(Path::new(DATA), &[]).unwrap();
    let complete = recordings.iter().filter(|r| r.completeness == trimtab_replay::Completeness::Everything);
    (complete.map(|r| r.name.clone()).collect(), recordings.iter().map(|r| r.name.clone()).collect())
}

/// A directory with the same recordings and room for more.
fn copied() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let recordings = trimtab_replay::read_recordings(Path::new(DATA), &[]).unwrap();
    trimtab_replay::write_recordings(directory.path(), &recordings).unwrap();
    directory
}

#[test]
fn there_is_a_line_a_recording_strategy_and_budget_and_a_last_one_with_the_medians() {
    let found = lines(&["--strategy", "random,hill", "--evals", "5,10,1000", "--seeds", "4"]);
    let (spaces, _) = names();
    assert_eq!(found.len(), spaces.len() * 2 * 3 + 1);
    let (last, found) = found.split_last().unwrap();
    for line in found {
        assert!(spaces.iter().any(|space| line["space"] == **space) && line["seeds"] == 4, "{line}");
        for key in ["median_fraction", "mean_fraction", "share_within_5pct"] {
            assert!((0.0..=1.0).contains(&number(line, key)), "{line}");
        }
        // More evaluations than settings are fine: everything is tried then.
        assert!(line["evals"] != 1000 || number(line, "median_fraction") == 1.0, "{line}");
        assert!(line["median_evals_to_5pct"].as_u64().unwrap() >= 1);
    }
    let medians = last["medians"].as_array().unwrap();
    assert_eq!((medians.len(), last["spaces"].as_array().unwrap().len()), (6, spaces.len()));
    for total in medians {
        let its = found.iter().filter(|l| l["strategy"] == total["strategy"] && l["evals"] == total["evals"]);
        let its: Vec<f64> = its.map(|line| number(line, "mean_fraction")).collect();
        let mean = its.iter().sum::<f64>() / its.len() as f64;
        assert!((number(total, "mean_fraction") - mean).abs() < 1e-12, "{total}");
    }
    assert!(number(&last["ask_ms_p99"], "hill") >= 0.0 && number(&last["ask_ms_mean"], "random") >= 0.0);
    assert!(last.get("baseline").is_none());
}

#[test]
fn every_strategy_is_tried_unless_some_are_named_and_samples_only_on_request() {
    let (complete, all) = names();
    assert!(complete.len() < all.len());
    let found = lines(&["--evals", "8", "--seeds", "1"]);
    assert_eq!(found.len(), complete.len() * trimtab::advanced::tune::search::STRATEGIES.len() + 1);
    let found = lines(&["--evals", "8", "--seeds", "1", "--strategy", "random", "--all"]);
    assert_eq!(found.len(), all.len() + 1);
    let found =
        lines(&["--evals", "8", "--seeds", "1", "--strategy", "random", "--space", &complete.join(",")]);
    assert_eq!(found.len(), complete.len() + 1);
}

#[test]
fn the_same_seeds_give_the_same_lines_on_one_core_and_on_many() {
    let of = |threads: &str, seed: &str| {
        let args = ["--strategy", "auto,random", "--space", SPACE, "--evals", "6,20", "--seeds", "7"];
        let mut found = lines(&[&args[..], &["--noise", "--threads", threads, "--seed", seed]].concat());
        found.pop();
        found
    };
    assert_eq!(of("1", "0"), of("3", "0"));
    assert_ne!(of("1", "0"), of("1", "100"));
}

#[test]
fn what_does_not_exist_is_told_with_what_does_and_exits_with_2() {
    for (data, args, part) in [
        ("/nowhere/at/all", vec![], "a directory with index.json"),
        (DATA, vec!["--space", "gemm"], SPACE),
        (DATA, vec!["--warm-from", "gemm"], SPACE),
        (DATA, vec!["--strategy", "luck"], "auto, model, hill"),
        (DATA, vec!["--evals", "0"], "20,50,100,200"),
        (DATA, vec!["--space", SPACE, "--all"], "cannot be used with"),
    ] {
        let output = run_on(data, &args);
        let errors = output.err;
        assert_eq!(output.code, Some(2), "{args:?}: {errors}");
        assert!(errors.contains(part) && output.out.is_empty(), "{args:?}: {errors}");
    }
    assert!(Machine::new().ok(&["simulate", "--help"]).contains("Examples:"));
}

#[test]
fn a_person_sees_a_table_and_where_the_chart_is() {
    let directory = tempfile::tempdir().unwrap();
    let chart = directory.path().join("quality.svg").display().to_string();
    let shown =
        ok(DATA, &["--strategy", "auto,random,sweep", "--evals", "5,20", "--seeds", "3", "--plot", &chart]);
    for part in ["after 5 ", "after 20", "auto", "sweep", "ask p99", &chart, SPACE] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let svg = std::fs::read_to_string(&chart).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 3);
    assert!(!svg.contains("best baseline"));
}

#[test]
fn what_other_tuners_reach_is_shown_beside() {
    let directory = copied();
    let mut table = "space,strategy,budget,seeds,median,mean,p10,p90,share_ge_0.95\n".to_string();
    for name in names().0 {
        table +=
            &format!("{name},theirs,5,51,0.625,0.5,0.1,0.9,0.25\n{name},worse,5,51,0.5,0.4,0.1,0.9,0.1\n");
    }
    std::fs::write(directory.path().join("baseline.csv"), table).unwrap();
    let data = directory.path().display().to_string();
    let chart = directory.path().join("quality.svg").display().to_string();
    let args = ["--strategy", "random", "--evals", "5,20", "--seeds", "2", "--plot", &chart];
    let last = lines_of(&data, &args).pop().unwrap();
    let best = &last["baseline"][0];
    assert_eq!(last["baseline"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&best["strategy"], number(best, "median_fraction"), &best["evals"]),
        (&"theirs".into(), 0.625, &5.into())
    );
    let shown = ok(&data, &args);
    assert!(shown.contains("best baseline  0.625 0.500") && shown.contains("theirs after 5"), "{shown}");
    assert!(std::fs::read_to_string(&chart).unwrap().contains("best baseline"));
    std::fs::write(directory.path().join("baseline.csv"), "nonsense\n").unwrap();
    let output = run_on(&data, &args);
    assert!(output.err.starts_with("warning: baseline.csv was passed over"));
    output.ok();
}

#[test]
fn searches_start_from_what_other_devices_teach_but_never_from_themselves() {
    let directory = copied();
    let mut elsewhere = trimtab_replay::read_recordings(directory.path(), &[SPACE]).unwrap().remove(0);
    elsewhere.name = "elsewhere".into();
    elsewhere.device = "other".into();
    trimtab_replay::write_recordings(directory.path(), &[elsewhere]).unwrap();
    let data = directory.path().display().to_string();
    let after = |warm: &[&str]| {
        let args = ["--space", SPACE, "--strategy", "auto", "--evals", "3", "--seeds", "9"];
        number(&lines_of(&data, &[&args[..], warm].concat())[0], "mean_fraction")
    };
    let cold = after(&[]);
    assert!(cold < 1.0, "a search of three settings should not always find the best: {cold}");
    assert_eq!(after(&["--warm-from", "others"]), 1.0);
    assert_eq!(after(&["--warm-from", "elsewhere"]), 1.0);
    let itself = run_on(
        &data,
        &[
            "--space",
            SPACE,
            "--strategy",
            "auto",
            "--evals",
            "3",
            "--seeds",
            "9",
            "--warm-from",
            SPACE,
            "--json",
        ],
    );
    assert!(itself.err.contains("no other recording to learn from"), "{}", itself.err);
    assert_eq!(number(&json(&itself.out)[0], "mean_fraction"), cold);
}

#[test]
fn a_device_names_the_recordings_that_are_searched() {
    let args = ["--all", "--strategy", "random", "--evals", "5", "--seeds", "2"];
    let recordings = trimtab_replay::read_recordings(Path::new(DATA), &[]).unwrap();
    for device in recordings.iter().map(|recording| recording.device.clone()) {
        let found = lines(&[&args[..], &["--device", &device]].concat());
        let its = recordings.iter().filter(|recording| recording.device == device);
        let its: Vec<&str> = its.map(|recording| recording.name.as_str()).collect();
        assert_eq!(found.last().unwrap()["spaces"], serde_json::json!(its), "{device}");
    }
    let unknown = run_on(DATA, &[&args[..], &["--device", "nobody"]].concat());
    assert!(unknown.code == Some(2) && unknown.err.contains(&recordings[0].device), "{}", unknown.err);
}
