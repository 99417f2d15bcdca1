//! `trimtab calibrate` as a process: measured, imported, kept, refused, and what decisions make of it. Needs an adapter and fails
//! without; `cargo xtask test` installs Mesa's.
#![cfg(feature = "wgpu")]
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use serde_json::Value;
use std::process::{Command, Output};
use tempfile::TempDir;

fn command(wisdom: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trimtab"));
    for name in ["TUNE", "BUDGET", "DEVICE", "THREADS", "BLAS", "LOG", "OFFLOAD", "THRESHOLD_ALL"] {
        command.env_remove(format!("TRIMTAB_{name}"));
    }
    command.env("TRIMTAB_WISDOM_DIR", wisdom.path()).args(args);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn lines(command: &mut Command) -> Vec<Value> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output), String::from_utf8_lossy(&output.stderr));
    text(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn explained(wisdom: &TempDir, problem: &str) -> Value {
    lines(&mut command(wisdom, &["explain", problem, "--tune", "estimate", "--json"])).remove(0)
}

#[test]
fn a_profile_is_shown_first_and_decides_once_committed() {
    let wisdom = tempfile::tempdir().unwrap();
    let file = wisdom.path().join("profile.json");
    // A GPU that adds in no time, and a processor that takes for ever.
    let entry = |device: &str, size: u64, us: f64| {
        format!(
            r#"{{"category": "elementwise", "input_shapes": [[{size}], [{size}]], "mean_time_us": {us}, "device": "{device}"}}"#
        )
    };
    let entries = [
        entry("gpu0", 10_000, 2.0),
        entry("gpu0", 1_000_000, 3.0),
        entry("cpu", 10_000, 1_000.0),
        entry("cpu", 1_000_000, 50_000.0),
    ];
    std::fs::write(&file, format!("[{}]", entries.join(",\n"))).unwrap();
    let problem = "elementwise.add:f32:100000";
    let file = file.to_str().unwrap();
    let before = explained(&wisdom, problem);
    assert_eq!(before["estimate"]["basis"], "analytic", "{before}");
    let shown = lines(&mut command(&wisdom, &["calibrate", "--from", file, "--quick", "--json"]));
    assert_eq!(shown.last().unwrap()["committed"], false);
    // The machine's speeds are measured anew in each process, so times differ a little.
    let still = explained(&wisdom, problem);
    assert_eq!(still["estimate"]["basis"], "analytic", "a dry run changes nothing: {still}");
    assert_eq!(still["device"], before["device"]);
    let done = lines(&mut command(&wisdom, &["calibrate", "--from", file, "--quick", "--commit", "--json"]));
    assert_eq!(done.last().unwrap()["committed"], true);
    let gpu = done.iter().find(|row| row["device"] == "gpu0").unwrap();
    assert_eq!((&gpu["origin"], &gpu["crossover"]["kind"]), (&"imported".into(), &"always".into()), "{gpu}");
    assert!(
        gpu["before"]["unit_ns"].as_f64().unwrap() > 0.0 && gpu["ratio"].as_f64().unwrap() < 1.0,
        "{gpu}"
    );
    let after = explained(&wisdom, problem);
    assert_eq!(
        (&after["device"], &after["estimate"]["basis"]),
        (&"gpu0".into(), &"fitted".into()),
        "{after}"
    );
    let whole = after["estimate"]["ns"].as_u64().unwrap() + after["transfer_ns"].as_u64().unwrap();
    assert!((2_000..=3_000).contains(&whole), "{after}");
}

#[test]
fn a_profile_that_cannot_be_read_is_refused_with_the_place() {
    let wisdom = tempfile::tempdir().unwrap();
    let file = wisdom.path().join("profile.json");
    std::fs::write(
        &file,
        r#"[{"category": "unary", "input_shapes": [[5]], "mean_time_us": 1, "device": "gpu7"}]"#,
    )
    .unwrap();
    for (path, part) in [(file.to_str().unwrap(), "entry 1"), ("/nowhere/profile.json", "profile.json")] {
        let output = command(&wisdom, &["calibrate", "--from", path, "--quick"]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn measuring_is_kept_and_not_repeated() {
    let wisdom = tempfile::tempdir().unwrap();
    let first = lines(&mut command(&wisdom, &["calibrate", "--quick", "--json"]));
    let last = first.last().unwrap();
    assert_eq!((&last["measured"], &last["committed"]), (&true.into(), &true.into()));
    for class in ["unary", "elementwise", "reduction", "transpose", "matmul"] {
        for device in ["cpu", "gpu0"] {
            let row = first.iter().find(|row| row["class"] == class && row["device"] == device);
            let row = row.unwrap_or_else(|| unreachable!("{class} on {device} is missing"));
            assert!(row["seen"].as_array().unwrap().len() >= 3, "{row}");
            assert!(row["samples"].as_u64().unwrap() >= 9, "{row}");
            assert_eq!(row["crossover"].is_null(), device == "cpu", "{row}");
        }
    }
    let again = lines(&mut command(&wisdom, &["calibrate", "--quick", "--json"]));
    assert_eq!(again.last().unwrap()["measured"], false);
    let seen = |rows: &[Value]| rows.iter().map(|row| row["seen"].clone()).collect::<Vec<_>>();
    assert_eq!(seen(&again), seen(&first));
    // What is damaged is told, not used, and made good by calibrating again.
    let blobs = std::fs::read_dir(wisdom.path().join("blobs")).unwrap().map(|entry| entry.unwrap().path());
    let cpu = blobs.filter(|path| path.to_string_lossy().contains("calibration-cpu")).collect::<Vec<_>>();
    assert_eq!(cpu.len(), 1, "{cpu:?}");
    std::fs::write(&cpu[0], "nothing of the sort").unwrap();
    let told = |args: &[&str]| {
        let output = command(&wisdom, args).output().unwrap();
        assert!(output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).contains("the calibration of cpu is damaged")
    };
    assert!(told(&["explain", "elementwise.add:f32:5000", "--tune", "estimate"]));
    assert!(told(&["calibrate", "--quick"]));
    assert!(!told(&["explain", "elementwise.add:f32:5000", "--tune", "estimate"]));
}

#[test]
fn rules_about_devices_are_in_the_explanation() {
    let wisdom = tempfile::tempdir().unwrap();
    let args = ["explain", "elementwise.add:f32:5000", "--tune", "estimate", "--json"];
    let up = lines(command(&wisdom, &args).env("TRIMTAB_THRESHOLD_ELEMENTWISE", "5000"));
    assert_eq!((&up[0]["device"], &up[0]["overruled"]), (&"gpu0".into(), &"threshold".into()), "{}", up[0]);
    let off = lines(command(&wisdom, &args).env("TRIMTAB_OFFLOAD", "off"));
    assert_eq!((&off[0]["device"], &off[0]["overruled"]), (&"cpu".into(), &"disabled".into()), "{}", off[0]);
    let wrong = command(&wisdom, &args).env("TRIMTAB_THRESHOLD_ALL", "many").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let alone = lines(command(&wisdom, &["calibrate", "--json"]).env("TRIMTAB_OFFLOAD", "off"));
    assert_eq!(alone.len(), 1);
    assert_eq!(alone[0]["devices"], 1);
}
