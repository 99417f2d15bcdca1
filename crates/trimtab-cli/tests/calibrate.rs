//! `trimtab calibrate` as a process: measured, imported, kept, refused, and what decisions make of it. Needs an adapter and fails
//! without; `cargo xtask test` installs Mesa's.
#![cfg(feature = "wgpu")]

mod support;

use serde_json::Value;
use std::path::PathBuf;
use support::{Ended, Machine, json};

fn explained(wisdom: &Machine, problem: &str) -> Value {
    wisdom.lines(&["explain", problem, "--tune", "estimate", "--json"]).remove(0)
}

#[test]
fn a_profile_is_shown_first_and_decides_once_committed() {
    let wisdom = Machine::with_gpus();
    let file = wisdom.path().join("profile.json");
    // A GPU that adds as fast as it can, and a processor that takes for ever.
    let entry = |device: &str, size: u64, us: f64| {
        format!(
            r#"{{"category": "elementwise", "input_shapes": [[{size}], [{size}]], "mean_time_us": {us}, "device": "{device}"}}"#
        )
    };
    let entries = [
        entry("gpu0", 10_000, 2_000.0),
        entry("gpu0", 1_000_000, 3_000.0),
        entry("cpu", 10_000, 1_000_000.0),
        entry("cpu", 1_000_000, 50_000_000.0),
    ];
    std::fs::write(&file, format!("[{}]", entries.join(",\n"))).unwrap();
    let problem = "elementwise.add:f32:100000";
    let file = file.to_str().unwrap();
    let before = explained(&wisdom, problem);
    assert_eq!(before["estimate"]["basis"], "analytic", "{before}");
    let shown = wisdom.lines(&["calibrate", "--from", file, "--quick", "--json"]);
    assert_eq!(shown.last().unwrap()["committed"], false);
    // The machine's speeds are measured anew in each process, so times differ a little.
    let still = explained(&wisdom, problem);
    assert_eq!(still["estimate"]["basis"], "analytic", "a dry run changes nothing: {still}");
    assert_eq!(still["device"], before["device"]);
    let done = wisdom.lines(&["calibrate", "--from", file, "--quick", "--commit", "--json"]);
    assert_eq!(done.last().unwrap()["committed"], true);
    let gpu = done.iter().find(|row| row["device"] == "gpu0").unwrap();
    assert_eq!((&gpu["origin"], &gpu["crossover"]["kind"]), (&"imported".into(), &"always".into()), "{gpu}");
    assert!(
        gpu["before"]["unit_ns"].as_f64().unwrap() > 0.0 && gpu["ratio"].as_f64().unwrap() > 0.0,
        "{gpu}"
    );
    let after = explained(&wisdom, problem);
    assert_eq!(
        (&after["device"], &after["estimate"]["basis"]),
        (&"gpu0".into(), &"fitted".into()),
        "{after}"
    );
    let whole = after["estimate"]["ns"].as_u64().unwrap() + after["transfer_ns"].as_u64().unwrap_or(0);
    assert!((2_000_000..=3_000_000).contains(&whole), "{after}");
    // What nobody imported is measured, what was imported stays.
    let rest = wisdom.lines(&["calibrate", "--quick", "--json"]);
    assert_eq!(rest.last().unwrap()["measured"], true);
    let origin = |class: &str| {
        rest.iter().find(|row| row["class"] == class && row["device"] == "gpu0").unwrap()["origin"].clone()
    };
    assert_eq!((origin("elementwise"), origin("matmul")), ("imported".into(), "measured".into()));
    assert_eq!(wisdom.lines(&["calibrate", "--quick", "--json"]).last().unwrap()["measured"], false);
}

#[test]
fn times_no_device_can_reach_are_left_out() {
    let wisdom = Machine::with_gpus();
    let file = wisdom.path().join("profile.json");
    let entry = r#"{"category": "matmul", "input_shapes": [[512, 512], [512, 512]], "mean_time_ns": 1, "device": "cpu"}"#;
    std::fs::write(&file, format!("[{entry}]")).unwrap();
    let refused = wisdom.run(&["calibrate", "--from", file.to_str().unwrap(), "--quick"]);
    assert_eq!(refused.code, Some(2), "{}", refused.out);
    assert!(refused.err.contains("entry 1 is implausible"), "{}", refused.err);
}

#[test]
fn a_dry_run_measures_and_leaves_everything_as_it_was() {
    let wisdom = Machine::with_gpus();
    wisdom.ok(&["tune", "matmul:f32:32x32x32", "--device", "cpu"]);
    let facts = wisdom.ok(&["wisdom", "export"]);
    let dry = wisdom.lines(&["calibrate", "--quick", "--dry-run", "--json"]);
    let last = dry.last().unwrap();
    assert_eq!((&last["measured"], &last["committed"]), (&true.into(), &false.into()));
    let without_head = |text: &str| text.lines().skip(1).map(str::to_string).collect::<Vec<_>>();
    assert_eq!(without_head(&wisdom.ok(&["wisdom", "export"])), without_head(&facts));
    assert_eq!(
        wisdom.lines(&["calibrate", "--quick", "--dry-run", "--json"]).last().unwrap()["measured"],
        true
    );
}

#[test]
fn a_profile_that_cannot_be_read_is_refused_with_the_place() {
    let wisdom = Machine::with_gpus();
    let file = wisdom.path().join("profile.json");
    std::fs::write(
        &file,
        r#"[{"category": "unary", "input_shapes": [[5]], "mean_time_us": 1, "device": "gpu7"}]"#,
    )
    .unwrap();
    for (path, part) in [(file.to_str().unwrap(), "entry 1"), ("/nowhere/profile.json", "profile.json")] {
        let refused = wisdom.run(&["calibrate", "--from", path, "--quick"]);
        assert_eq!(refused.code, Some(2), "{}", refused.err);
        assert!(refused.err.contains(part), "{}", refused.err);
    }
}

#[test]
fn measuring_is_kept_and_not_repeated() {
    let wisdom = Machine::with_gpus();
    let first = wisdom.lines(&["calibrate", "--quick", "--json"]);
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
    let again = wisdom.lines(&["calibrate", "--quick", "--json"]);
    assert_eq!(again.last().unwrap()["measured"], false);
    let seen = |rows: &[Value]| rows.iter().map(|row| row["seen"].clone()).collect::<Vec<_>>();
    assert_eq!(seen(&again), seen(&first));
    // What is damaged is told, not used, and made good by calibrating again.
    let blobs = std::fs::read_dir(wisdom.path().join("blobs")).unwrap().map(|entry| entry.unwrap().path());
    // By what they hold: the name of a file ends with the processor's, and long ones are cut.
    let kept = |path: &PathBuf| {
        String::from_utf8_lossy(&std::fs::read(path).unwrap()).contains("trimtab calibration 2")
    };
    let calibrations = blobs.filter(kept).collect::<Vec<_>>();
    assert!(calibrations.len() >= 2, "{calibrations:?}");
    calibrations.iter().for_each(|path| std::fs::write(path, "nothing of the sort").unwrap());
    let told = |args: &[&str]| {
        let outcome = wisdom.run(args);
        assert_eq!(outcome.code, Some(0), "{args:?}");
        outcome.err.contains("the calibration of cpu is damaged")
    };
    assert!(told(&["explain", "elementwise.add:f32:5000", "--tune", "estimate"]));
    assert!(told(&["calibrate", "--quick"]));
    assert!(!told(&["explain", "elementwise.add:f32:5000", "--tune", "estimate"]));
}

#[test]
fn rules_about_devices_are_in_the_explanation() {
    let wisdom = Machine::with_gpus();
    let args = ["explain", "elementwise.add:f32:5000", "--tune", "estimate", "--json"];
    let up = json(&Ended::of(wisdom.command(&args).env("TRIMTAB_THRESHOLD_ELEMENTWISE", "5000")).ok());
    assert_eq!((&up[0]["device"], &up[0]["overruled"]), (&"gpu0".into(), &"threshold".into()), "{}", up[0]);
    let off = json(&Ended::of(wisdom.command(&args).env("TRIMTAB_OFFLOAD", "off")).ok());
    assert_eq!((&off[0]["device"], &off[0]["overruled"]), (&"cpu".into(), &"disabled".into()), "{}", off[0]);
    let wrong = Ended::of(wisdom.command(&args).env("TRIMTAB_THRESHOLD_ALL", "many"));
    assert_eq!(wrong.code, Some(2));
    let alone = json(&Ended::of(wisdom.command(&["calibrate", "--json"]).env("TRIMTAB_OFFLOAD", "off")).ok());
    assert_eq!(alone.len(), 1);
    assert_eq!(alone[0]["devices"], 1);
}
