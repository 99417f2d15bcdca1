//! The real binary on a GPU, and without one. Needs an adapter and fails without; `cargo xtask test` installs Mesa's.
#![cfg(feature = "wgpu")]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use std::process::{Command, Output};
use tempfile::TempDir;

const PROBLEM: &str = "elementwise.add:f32:5000";

fn command(wisdom: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    for name in ["TUNE", "BUDGET", "DEVICE", "THREADS", "BLAS", "LOG"] {
        command.env_remove(format!("TRIMTAB_{name}"));
    }
    command.env("TRIMTAB_WISDOM_DIR", wisdom.path()).args(args);
    command
}

/// A machine on which no Vulkan driver is found.
fn without_driver(wisdom: &TempDir, args: &[&str]) -> Output {
    let nothing = wisdom.path().join("nothing");
    let mut command = command(wisdom, args);
    command.env("VK_DRIVER_FILES", &nothing).env("VK_ICD_FILENAMES", &nothing).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn ok(wisdom: &TempDir, args: &[&str]) -> String {
    let output = command(wisdom, args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {}{errors}", text(&output));
    text(&output)
}

fn lines(wisdom: &TempDir, args: &[&str]) -> Vec<serde_json::Value> {
    ok(wisdom, args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn devices_show_limits_features_and_measured_speeds_of_a_gpu() {
    let wisdom = tempfile::tempdir().unwrap();
    let devices = lines(&wisdom, &["devices", "--json"]);
    let gpu = devices.iter().find(|device| device["id"] == "gpu0").unwrap();
    assert_eq!((&gpu["usable"], &gpu["kind"]), (&true.into(), &"gpu".into()));
    for name in ["name", "backend", "driver", "fingerprint"] {
        assert!(gpu[name].as_str().is_some_and(|text| !text.is_empty()), "{name}: {gpu}");
    }
    assert!(gpu["limits"]["max_invocations"].as_u64().unwrap() >= 128);
    assert!(gpu["features"].is_array());
    for value in [
        &gpu["peak_gflops"],
        &gpu["bandwidth_gb_s"],
        &gpu["upload"]["latency_ns"],
        &gpu["upload"]["gb_s"],
        &gpu["download"]["latency_ns"],
        &gpu["download"]["gb_s"],
        &gpu["submit_ns"],
    ] {
        assert!(value.as_f64().is_some_and(|value| value > 0.0), "{value} in {gpu}");
    }
    let shown = ok(&wisdom, &["devices"]);
    for part in ["cpu: ", "gpu0: ", "workgroups", "upload", "gpu.matmul."] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn tune_explain_bench_and_run_work_on_a_gpu_as_on_the_processor() {
    let wisdom = tempfile::tempdir().unwrap();
    let on = ["--device", "gpu0", "--json"];
    let tuned = lines(&wisdom, &[&["tune", PROBLEM, "--budget", "5s"], &on[..]].concat()).remove(0);
    assert_eq!(tuned["device"], "gpu0");
    assert!(tuned["measured"].as_u64().unwrap() > 0 && tuned["kernel"].as_str().unwrap().starts_with("gpu."));
    let explained = lines(&wisdom, &[&["explain", PROBLEM], &on[..]].concat()).remove(0);
    assert_eq!((&explained["kernel"], &explained["point"]), (&tuned["kernel"], &tuned["point"]));
    assert_eq!(explained["reason"], "remembered");
    assert!(explained["transfer_ns"].as_u64().unwrap() > 0);
    let reasoning = explained["reasoning"].to_string();
    assert!(reasoning.contains("limited by memory"), "{reasoning}");
    let again = lines(&wisdom, &[&["tune", PROBLEM, "--budget", "5s"], &on[..]].concat()).remove(0);
    assert_eq!(again["measured"], 0);
    let ran = lines(&wisdom, &[&["run", PROBLEM], &on[..]].concat()).remove(0);
    assert_eq!((&ran["agrees"], &ran["device"]), (&true.into(), &"gpu0".into()));
    let benched = ok(&wisdom, &["bench", PROBLEM, "--device", "gpu0", "--budget", "5s", "--rounds", "3"]);
    assert!(benched.contains("gpu.elementwise.vector"), "{benched}");
}

#[test]
fn without_a_driver_everything_else_works_and_devices_says_how_to_get_one() {
    let wisdom = tempfile::tempdir().unwrap();
    let devices = without_driver(&wisdom, &["devices"]);
    assert!(devices.status.success());
    let shown = text(&devices);
    assert!(shown.contains("cpu: ") && shown.contains("no GPU: "), "{shown}");
    assert!(shown.contains("mesa-vulkan-drivers"), "{shown}");
    let listed = text(&without_driver(&wisdom, &["devices", "--json"]));
    let last: serde_json::Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    assert_eq!((&last["usable"], &last["kind"]), (&false.into(), &"gpu".into()));
    assert!(last["reason"].as_str().unwrap().contains("no driver offers an adapter"));
    assert!(without_driver(&wisdom, &["run", "matmul:f32:8x8x8"]).status.success());
    let pinned = without_driver(&wisdom, &["run", PROBLEM, "--device", "gpu0"]);
    let error = String::from_utf8_lossy(&pinned.stderr).into_owned();
    assert!(!pinned.status.success() && error.contains("no GPU: "), "{error}");
}
