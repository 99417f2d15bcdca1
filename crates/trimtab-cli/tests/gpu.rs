//! The real binary on a GPU, and without one. Needs an adapter and fails without; `cargo xtask test` installs Mesa's.
#![cfg(feature = "wgpu")]

mod support;

use support::{Ended, Machine};

const PROBLEM: &str = "elementwise.add:f32:5000";

/// The same machine with no Vulkan driver to be found.
fn without_driver(machine: &Machine, args: &[&str]) -> Ended {
    let nothing = machine.file("nothing");
    Ended::of(machine.command(args).env("VK_DRIVER_FILES", &nothing).env("VK_ICD_FILENAMES", &nothing))
}

#[test]
fn listing_gpus_asks_no_desktop() {
    let machine = Machine::with_gpus();
    // Where there is none, libwayland says so to everybody whose driver asks.
    let ended = Ended::of(
        machine
            .command(&["explain", PROBLEM, "--tune", "off"])
            .env_remove("XDG_RUNTIME_DIR")
            .env_remove("WAYLAND_DISPLAY"),
    );
    assert!(!ended.err.contains("XDG_RUNTIME_DIR"), "{}", ended.err);
    let devices = machine.lines(&["devices", "--json"]);
    assert!(devices.iter().any(|device| device["kind"] == "gpu"), "a GPU was looked for: {devices:?}");
}

#[test]
fn devices_show_limits_features_and_measured_speeds_of_a_gpu() {
    let wisdom = Machine::with_gpus();
    let devices = wisdom.lines(&["devices", "--json"]);
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
    let shown = wisdom.ok(&["devices", "-v"]);
    for part in ["cpu: ", "gpu0: ", "workgroups", "upload", "gpu.matmul."] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn tune_explain_bench_and_run_work_on_a_gpu_as_on_the_processor() {
    let wisdom = Machine::with_gpus();
    let on = ["--device", "gpu0", "--json"];
    let tuned = wisdom.lines(&[&["tune", PROBLEM, "--budget", "5s"], &on[..]].concat()).remove(0);
    assert_eq!(tuned["device"], "gpu0");
    assert!(tuned["measured"].as_u64().unwrap() > 0 && tuned["kernel"].as_str().unwrap().starts_with("gpu."));
    let explained = wisdom.lines(&[&["explain", PROBLEM], &on[..]].concat()).remove(0);
    assert_eq!((&explained["kernel"], &explained["point"]), (&tuned["kernel"], &tuned["point"]));
    assert_eq!(explained["reason"], "remembered");
    assert!(explained["transfer_ns"].as_u64().unwrap() > 0);
    let reasoning = explained["reasoning"].to_string();
    assert!(reasoning.contains("limited by memory"), "{reasoning}");
    let again = wisdom.lines(&[&["tune", PROBLEM, "--budget", "5s"], &on[..]].concat()).remove(0);
    assert_eq!(again["measured"], 0);
    let ran = wisdom.lines(&[&["run", PROBLEM], &on[..]].concat()).remove(0);
    assert_eq!((&ran["agrees"], &ran["device"]), (&true.into(), &"gpu0".into()));
    let benched = wisdom.ok(&["bench", PROBLEM, "--device", "gpu0", "--budget", "5s", "--rounds", "3"]);
    assert!(benched.contains("gpu.elementwise.vector"), "{benched}");
}

#[test]
fn without_a_driver_everything_else_works_and_devices_says_how_to_get_one() {
    let wisdom = Machine::with_gpus();
    let devices = without_driver(&wisdom, &["devices"]);
    let shown = devices.ok();
    assert!(shown.contains("cpu: ") && shown.contains("no GPU: "), "{shown}");
    assert!(shown.contains("mesa-vulkan-drivers"), "{shown}");
    let listed = without_driver(&wisdom, &["devices", "--json"]).ok();
    let last: serde_json::Value = serde_json::from_str(listed.lines().last().unwrap()).unwrap();
    assert_eq!((&last["usable"], &last["kind"]), (&false.into(), &"gpu".into()));
    assert!(last["reason"].as_str().unwrap().contains("no driver offers an adapter"));
    without_driver(&wisdom, &["run", "matmul:f32:8x8x8"]).ok();
    let pinned = without_driver(&wisdom, &["run", PROBLEM, "--device", "gpu0"]);
    assert!(pinned.code != Some(0) && pinned.err.contains("no GPU: "), "{}", pinned.err);
}
