//! `trimtab record` and `trimtab recording` as a user runs them, on this machine's processor and a GPU.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use support::Machine;
use trimtab_replay::{Completeness, Recording, read_recordings};

const OURS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trimtab-replay/data");
const PROBLEM: &str = "transpose:f32:64x48";

fn data(place: &Machine) -> String {
    place.file("recordings")
}

fn recorded(place: &Machine) -> Vec<Recording> {
    read_recordings(Path::new(&data(place)), &[]).unwrap()
}

#[test]
fn every_kernel_with_settings_is_recorded_and_can_be_replayed() {
    let place = Machine::new();
    let told = place.lines(&["record", PROBLEM, "--repeats", "3", "--data", &data(&place), "--json"]);
    let recordings = recorded(&place);
    assert!(recordings.len() > 1 && told.len() == recordings.len());
    for (recording, told) in recordings.iter().zip(&told) {
        assert_eq!((&told["space"], &told["problem"]), (&recording.name.as_str().into(), &PROBLEM.into()));
        assert_eq!(
            (&told["finished"], &told["failed"], &told["repeats"]),
            (&true.into(), &0.into(), &3.into())
        );
        assert_eq!(recording.completeness, Completeness::Everything);
        assert_eq!(
            (told["points"].as_u64(), recording.count_legal()),
            (Some(recording.rows.len() as u64), recording.rows.len() as u64)
        );
        for row in 0..recording.rows.len() {
            let mean = recording.rows[row].outcome.mean_ms().unwrap();
            let repeats: Vec<f64> = (0..3).filter_map(|repeat| recording.repeat_ms(row, repeat)).collect();
            let sum: f64 = repeats.iter().sum();
            assert!((sum / 3.0 / mean - 1.0).abs() < 1e-3 && repeats.iter().all(|ms| *ms > 0.0));
        }
        assert_eq!((recording.sizes.as_slice(), recording.api.as_str()), (&[64, 48][..], "cpu"));
    }
    let simulated =
        place.lines(&["simulate", "--data", &data(&place), "--seeds", "2", "--strategy", "auto", "--json"]);
    assert_eq!(simulated.len(), recordings.len() * 4 + 1);
    let listed = place.ok(&["recording", "list", "--data", &data(&place)]);
    assert!(recordings.iter().all(|recording| listed.contains(&recording.kernel)), "{listed}");
}

#[test]
fn a_sample_is_drawn_by_the_seed_and_a_kernel_can_be_named() {
    let place = Machine::new();
    let kernel = "cpu.transpose.tiled";
    let of = |seed: &str| {
        let args = ["record", PROBLEM, "--kernel", kernel, "--evals", "3", "--repeats", "1", "--seed", seed];
        let shown = place.ok(&[&args[..], &["--data", &data(&place)]].concat());
        assert!(shown.contains("3 of ") && shown.contains("1 recording in "), "{shown}");
        let recording = recorded(&place).remove(0);
        assert_eq!((recording.kernel.as_str(), recording.completeness), (kernel, Completeness::Sample));
        recording.rows.iter().map(|row| row.point).collect::<Vec<_>>()
    };
    let first = of("1");
    assert_eq!((first.len(), of("1") == first, recorded(&place).len()), (3, true, 1));
    assert!((2..9).any(|seed| of(&seed.to_string()) != first));
}

#[test]
fn bad_requests_exit_with_2_and_say_what_to_give() {
    let place = Machine::new();
    let data = data(&place);
    for (args, part) in [
        (vec!["record", PROBLEM], "--data"),
        (vec!["record", "--data", &data], "PROBLEM"),
        (vec!["record", "gemm", "--data", &data], "is not a problem"),
        (vec!["record", "custom.sort:9", "--data", &data], "program"),
        (vec!["record", PROBLEM, "--data", &data, "--kernel", "fast"], "cpu.transpose.tiled"),
        (vec!["record", PROBLEM, "--data", &data, "--device", "gpu9"], "there are: auto, cpu"),
        (vec!["recording", "list", "--data", &data], "a directory with index.json"),
        (vec!["recording", "export", "x", "--data", OURS], "there are: "),
        (vec!["recording", "import", "/nowhere.json", "--data", &data], "/nowhere.json cannot be read"),
    ] {
        let output = place.run(&args);
        let errors = output.err;
        assert_eq!(output.code, Some(2), "{args:?}: {errors}");
        assert!(errors.contains(part), "{args:?}: {errors}");
    }
    assert!(!Path::new(&data).exists());
    for command in ["record", "recording"] {
        assert!(place.ok(&[command, "--help"]).contains("Examples:"));
    }
}

#[test]
fn a_budget_that_ends_keeps_what_was_measured_and_says_so() {
    let place = Machine::new();
    let args = [
        "record",
        "matmul:f32:256x256x256",
        "--repeats",
        "10000",
        "--budget",
        "300ms",
        "--data",
        &data(&place),
    ];
    let output = place.run(&args);
    let errors = output.err;
    assert!(errors.contains("the budget ended it") && errors.contains("--budget"), "{errors}");
    // On a machine so busy that not even one kernel was warmed up in its share, nothing is there, and it failed.
    let left = if Path::new(&data(&place)).exists() { recorded(&place).len() } else { 0 };
    assert_eq!((output.code == Some(0)), left > 0 && !errors.contains("was not recorded"), "{errors}");
}

#[test]
fn a_recording_that_is_cut_short_does_not_replace_one_with_more() {
    let place = Machine::new();
    let record = |more: &[&str]| {
        let args = ["record", "matmul:f32:256x256x256", "--kernel", "cpu.matmul.small,cpu.matmul.blocked"];
        place.run(&[&args[..], more, &["--data", &data(&place)]].concat())
    };
    assert!(record(&["--repeats", "1"]).code == Some(0));
    let settings = || recorded(&place).iter().map(|recording| recording.rows.len()).collect::<Vec<_>>();
    let before = settings();
    for budget in ["20ms", "40ms", "80ms"] {
        let output = record(&["--repeats", "10000", "--budget", budget]);
        let errors = output.err;
        assert!(errors.contains("the budget ended it") || errors.contains("was not recorded"), "{errors}");
        assert_eq!(settings(), before, "{errors}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_measured_and_says_so() {
    use std::io::{BufRead, BufReader, Read};
    let place = Machine::new();
    let data = data(&place);
    let args = [
        "record",
        "transpose:f32:16x16",
        "matmul:f32:256x256x256",
        "--repeats",
        "400",
        "--data",
        &data,
        "--json",
    ];
    let mut child = place
        .command(&args)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    out.read_line(&mut first).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{errors}");
    assert!(errors.contains("Ctrl-C ended it"), "{errors}");
    let first: Value = serde_json::from_str(&first).unwrap();
    let recordings = recorded(&place);
    assert_eq!(recordings[0].name, first["space"]);
    assert!(recordings.iter().all(|recording| !recording.rows.is_empty()));
}

#[test]
fn recordings_go_out_and_in_as_t4_results() {
    let place = Machine::new();
    let data = data(&place);
    let name = read_recordings(Path::new(OURS), &[]).unwrap().remove(0).name;
    let file = place.file("t4.json");
    let told = place.ok(&["recording", "export", &name, &file, "--data", OURS]);
    assert!(told.contains(&file), "{told}");
    let printed = place.ok(&["recording", "export", &name, "--data", OURS]);
    assert_eq!(printed, std::fs::read_to_string(&file).unwrap());
    place.ok(&["recording", "import", &file, "--data", &data]);
    let before = read_recordings(Path::new(OURS), &[&name]).unwrap();
    let after = recorded(&place);
    assert_eq!(
        (&after[0].name, &after[0].axes, after[0].rows.len()),
        (&name, &before[0].axes, before[0].rows.len())
    );
    assert_eq!(
        after[0].repeat_ms(1, 2).map(|ms| (ms * 1e9) as u64),
        before[0].repeat_ms(1, 2).map(|ms| (ms * 1e9) as u64)
    );
    let renamed = ["--name", "other", "--kernel", "k", "--device", "d"];
    let told = place
        .lines(&[&["recording", "import", &file, "--data", &data, "--json"], &renamed[..]].concat())
        .remove(0);
    assert_eq!(
        (&told["space"], &told["kernel"], &told["device"]),
        (&"other".into(), &"k".into(), &"d".into())
    );
    assert_eq!(recorded(&place).len(), 2);
}

#[test]
fn wrong_t4_results_are_refused_with_file_and_number() {
    let place = Machine::new();
    let data = data(&place);
    let file = place.file("bad.json");
    let ran =
        json!({"configuration": {"a": 1}, "measurements": [{"name": "time", "value": 1, "unit": "ms"}]});
    let odd =
        json!({"configuration": {"a": 2}, "measurements": [{"name": "time", "value": 1, "unit": "parsec"}]});
    std::fs::write(&file, json!({"results": [ran, odd]}).to_string()).unwrap();
    let output = place.run(&["recording", "import", &file, "--data", &data]);
    assert_eq!(output.code, Some(2));
    let expected = "bad.json: result 2: `time`: `parsec` is not a unit of time; write s, ms, us or ns";
    assert!(output.err.contains(expected), "{}", output.err);
    assert!(!Path::new(&data).exists());
}

/// Needs an adapter and fails without; `cargo xtask test` installs Mesa's.
#[cfg(feature = "wgpu")]
#[test]
fn kernels_of_a_gpu_are_recorded_with_what_building_them_takes() {
    let place = Machine::with_gpus();
    let args = ["record", "elementwise.add:f32:5000", "--device", "gpu0", "--evals", "3", "--repeats", "2"];
    let told = place.lines(&[&args[..], &["--budget", "60s", "--data", &data(&place), "--json"]].concat());
    let recordings = recorded(&place);
    assert!(!recordings.is_empty() && told.iter().all(|told| told["finished"] == true), "{told:?}");
    for recording in &recordings {
        assert!(recording.kernel.starts_with("gpu.") && recording.rows.len() <= 3);
        assert!(recording.rows.iter().any(|row| row.compile_ms.is_some_and(|ms| ms > 0.0)));
    }
}
