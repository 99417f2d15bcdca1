//! Recordings written and read again, in the project's format and as T4 results, and what is wrong with bad ones.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use serde_json::{Value, json};
use trimtab_core::{FailureKind, Point, RandomNumbers};
use trimtab_replay::{
    Axis, Completeness, Expression, Outcome, Recording, Row, T4Names, Timing, WriteError, list_recordings,
    read_recordings, read_t4, write_recordings, write_t4,
};

/// A recording drawn by a seed: one to five axes, some points, failures of every kind, with and without repeats and
/// compile times, times from nanoseconds to minutes.
fn drawn(seed: u64) -> Recording {
    let mut numbers = RandomNumbers::new(seed);
    let names = ["zeta", "block_size_x", "A", "vw", "unroll"];
    let mut axes = Vec::new();
    for name in &names[..1 + numbers.below(names.len())] {
        let mut values: Vec<u32> = (0..1 + numbers.below(4)).map(|_| numbers.below(600) as u32).collect();
        values.sort_unstable();
        values.dedup();
        axes.push(Axis { name: name.to_string(), values });
    }
    let mut points: Vec<Point> = vec![Point::EMPTY];
    for axis in &axes {
        let with = |point: &Point, value: u32| Point::new(&[point.values(), &[value]].concat());
        points = points.iter().flat_map(|p| axis.values.iter().map(move |v| with(p, *v))).collect();
    }
    points.retain(|_| numbers.below(4) > 0);
    let compiled = numbers.below(2) == 0;
    let mut rows = Vec::new();
    let mut repeats = Vec::new();
    let counted = numbers.below(3);
    for point in &points {
        let mut ms = numbers.unit() * 10f64.powi(numbers.below(12) as i32 - 6) + 1e-9;
        // Now and then a time without many digits.
        ms = if numbers.below(5) == 0 { (ms * 100.0).round() + 1.0 } else { ms };
        let timing = Timing { mean_ms: ms, min_ms: ms * 0.75, median_ms: ms * (0.9 + 0.1 * numbers.unit()) };
        let outcome = match numbers.below(4) {
            0 => Outcome::Failed(FailureKind::ALL[numbers.below(FailureKind::ALL.len())]),
            _ => Outcome::Ran(timing),
        };
        let compile_ms = (compiled && numbers.below(3) > 0).then(|| numbers.unit() * 900.0);
        rows.push(Row { point: *point, outcome, compile_ms });
        repeats.push((0..counted * numbers.below(5)).map(|_| ms * (0.75 + numbers.unit())).collect());
    }
    let text = "zeta * 2 >= 0 or n == 3";
    let fixed = vec![("n".to_string(), 512.0)];
    let axis_names: Vec<String> = axes.iter().map(|axis| axis.name.clone()).collect();
    let mut recording = Recording::default();
    recording.name = format!("drawn__{seed}");
    recording.kernel = "drawn".into();
    recording.variant = "v, \"quoted\"".into();
    recording.device = "nowhere".into();
    recording.device_name = "Nowhere (µ)".into();
    recording.api = "none".into();
    recording.op = "made:f32:2x3".into();
    recording.sizes = (0..numbers.below(5)).map(|_| numbers.bits() >> 12).collect();
    recording.flops = numbers.below(3) as u64 * 1000;
    recording.bytes = numbers.below(3) as u64;
    recording.constraints = vec![Expression::parse(text, &axis_names, &fixed).unwrap()];
    recording.axes = axes;
    recording.fixed = fixed;
    recording.completeness = Completeness::Sample;
    recording.origin = "drawn".into();
    recording.rows = rows;
    let recording = recording.with_repeats(&repeats);
    if numbers.below(2) == 0 { recording.limit_to(&points) } else { recording }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-15 * a.abs()
}

fn named(mut recording: Recording, name: &str) -> Recording {
    recording.name = name.to_string();
    recording
}

#[test]
fn what_is_written_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let recordings: Vec<Recording> = (0..60).map(drawn).collect();
    assert!(
        recordings.iter().any(|r| r.repeat_count(0) == 0) && recordings.iter().any(|r| r.repeat_count(0) > 1)
    );
    write_recordings(directory.path(), &recordings).unwrap();
    assert_eq!(read_recordings(directory.path(), &[]).unwrap(), recordings);
}

#[test]
fn what_is_exported_as_t4_is_imported_again_but_for_crashes() {
    for seed in 0..200 {
        let mut recording = drawn(seed);
        if recording.rows.is_empty() {
            continue;
        }
        let text = write_t4(&recording).to_string();
        let imported = read_t4(text.as_bytes(), &T4Names::default()).unwrap();
        for (row, read) in recording.rows.iter_mut().zip(&imported.recording.rows) {
            // T4 has one word for launches that fail and processes that die.
            if row.outcome == Outcome::Failed(FailureKind::Crashed) {
                row.outcome = Outcome::Failed(FailureKind::Launch);
            }
            // Numbers in JSON are read to the last digit but one.
            if let (Outcome::Ran(a), Outcome::Ran(b)) = (row.outcome, read.outcome) {
                assert!(
                    near(a.mean_ms, b.mean_ms) && near(a.min_ms, b.min_ms) && near(a.median_ms, b.median_ms)
                );
                row.outcome = read.outcome;
            }
            if let (Some(a), Some(b)) = (row.compile_ms, read.compile_ms) {
                assert!(near(a, b));
                row.compile_ms = read.compile_ms;
            }
        }
        assert_eq!((imported.recording, imported.illegal), (recording, 0), "seed {seed}");
    }
}

#[test]
fn writing_replaces_the_recording_of_that_name_and_keeps_the_others() {
    let directory = tempfile::tempdir().unwrap();
    write_recordings(directory.path(), &[drawn(1), drawn(2), drawn(3)]).unwrap();
    let changed = named(drawn(7), "drawn__2");
    write_recordings(directory.path(), std::slice::from_ref(&changed)).unwrap();
    assert_eq!(list_recordings(directory.path()).unwrap(), ["drawn__1", "drawn__2", "drawn__3"]);
    assert_eq!(read_recordings(directory.path(), &[]).unwrap(), [drawn(1), changed, drawn(3)]);
    let left: Vec<String> = std::fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.len() == 2 && left.contains(&"index.json".to_string()), "{left:?}");
}

#[cfg(unix)]
#[test]
fn writers_at_the_same_time_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let path = directory.path();
            scope.spawn(move || write_recordings(path, &[drawn(seed)]).unwrap());
        }
    });
    assert_eq!(read_recordings(directory.path(), &[]).unwrap().len(), 8);
}

#[test]
fn fields_of_other_programs_in_the_index_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    write_recordings(directory.path(), &[drawn(1)]).unwrap();
    let path = directory.path().join("index.json");
    let mut index: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    index[0]["notes"] = json!("theirs");
    std::fs::write(&path, index.to_string()).unwrap();
    write_recordings(directory.path(), &[drawn(2)]).unwrap();
    let index: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!((&index[0]["notes"], &index[1]["space"]), (&json!("theirs"), &json!("drawn__2")));
}

#[test]
fn the_index_tells_what_the_rows_say() {
    let directory = tempfile::tempdir().unwrap();
    let recording = (0..).map(drawn).find(|r| r.rows.len() > 9 && r.repeat_count(0) > 2).unwrap();
    write_recordings(directory.path(), std::slice::from_ref(&recording)).unwrap();
    let index: Value =
        serde_json::from_slice(&std::fs::read(directory.path().join("index.json")).unwrap()).unwrap();
    let entry = &index[0];
    assert!(near(entry["optimum_ms"].as_f64().unwrap(), recording.optimum_ms().unwrap()));
    assert_eq!(entry["rows"], recording.rows.len());
    assert_eq!(entry["feasible"].as_u64(), Some(recording.count_legal()));
    let counted: u64 = entry["status"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(counted, recording.rows.len() as u64);
    assert!(entry["median_cv"].as_f64().unwrap() > 0.0 && entry["within_10pct"].as_f64().unwrap() > 0.0);
    assert!(entry["worst_ms"].as_f64() >= entry["median_ms"].as_f64());
}

#[test]
fn what_the_format_cannot_say_is_refused_and_nothing_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let whole = (0..).map(drawn).find(|r| r.rows.len() > 3).unwrap();
    let mut odd_time = whole.clone();
    odd_time.rows[0].outcome = Outcome::Ran(Timing { mean_ms: 0.0, min_ms: 0.0, median_ms: 0.0 });
    let mut off_axis = whole.clone();
    off_axis.axes[0].values = vec![601];
    let mut like_a_column = whole.clone();
    like_a_column.axes[0].name = "status".into();
    let mut untried = whole.clone();
    untried.rows[0].outcome = Outcome::Failed(FailureKind::Untried);
    let outside = named(whole.clone(), "../outside");
    for (recording, part) in [
        (odd_time, "took 0 ms"),
        (off_axis, "not on its axes"),
        (like_a_column, "no axis can be called `status`"),
        (untried, "not tried"),
        (outside, "a name is made of"),
    ] {
        let error = write_recordings(directory.path(), &[recording]).unwrap_err();
        assert!(matches!(error, WriteError::Unfit { .. }) && error.to_string().contains(part), "{error}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    std::fs::write(directory.path().join("index.json"), "{").unwrap();
    let error = write_recordings(directory.path(), &[whole]).unwrap_err();
    assert!(matches!(error, WriteError::Index(_)), "{error}");
    assert_eq!(std::fs::read(directory.path().join("index.json")).unwrap(), b"{");
}

/// As Kernel Tuner's `store_output_file` writes: `compilation` for `compilation_time`, times in ms, text where a
/// configuration failed, measurements without a unit.
const KERNEL_TUNER: &str = r#"{"results": [
  {"timestamp": "2024-05-01 10:00:00+00:00", "configuration": {"block_size_x": 64, "use_shmem": true},
   "times": {"compilation": 120.5, "benchmark": 3.1, "framework": 0.2, "search_algorithm": 0.0, "validation": 0,
             "runtimes": [0.5, 0.6, 0.7]},
   "invalidity": "correct", "correctness": 1,
   "measurements": [{"name": "GFLOP/s", "value": 99.5, "unit": ""}, {"name": "time", "value": 0.6, "unit": "ms"}],
   "objectives": ["time"]},
  {"timestamp": "2024-05-01 10:00:01+00:00", "configuration": {"block_size_x": 128, "use_shmem": false},
   "times": {"compilation": 99, "runtimes": []}, "invalidity": "compile", "correctness": 1,
   "measurements": [{"name": "time", "value": "CompilationFailedConfig", "unit": "ms"}], "objectives": ["time"]},
  {"configuration": {"block_size_x": 1024, "use_shmem": true}, "times": {}, "invalidity": "constraints",
   "correctness": 1, "measurements": [], "objectives": ["time"]},
  {"configuration": {"block_size_x": 32.0, "use_shmem": true}, "times": {"runtimes": [250.0, 350.0]},
   "invalidity": "correct", "correctness": 1, "measurements": [{"name": "time", "value": 300, "unit": "µs"}],
   "objectives": ["time"], "something_new": {"a": [1]}}
], "schema_version": "1.0.0"}"#;

#[test]
fn results_as_kernel_tuner_writes_them_are_read() {
    let names = T4Names { kernel: Some("conv".into()), device: Some("card".into()), ..T4Names::default() };
    let imported = read_t4(KERNEL_TUNER.as_bytes(), &names).unwrap();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, KERNEL_TUNER.as_bytes()).unwrap();
    assert_eq!(read_t4(&encoder.finish().unwrap(), &names).unwrap(), imported);
    let recording = imported.recording;
    assert_eq!((imported.illegal, recording.rows.len(), recording.name.as_str()), (1, 3, "conv__card"));
    assert_eq!(recording.completeness, Completeness::Sample);
    assert_eq!(recording.axes[0], Axis { name: "block_size_x".into(), values: vec![32, 64, 128] });
    let timing = Timing { mean_ms: 0.6, min_ms: 0.5, median_ms: 0.6 };
    assert_eq!(
        (recording.rows[0].outcome, recording.rows[0].compile_ms),
        (Outcome::Ran(timing), Some(120.5))
    );
    assert_eq!(recording.rows[1].outcome, Outcome::Failed(FailureKind::Compile));
    let micro = recording.rows[2].outcome.mean_ms().unwrap();
    assert!((micro - 0.3).abs() < 1e-12 && (recording.repeat_ms(2, 1).unwrap() - 0.35).abs() < 1e-4);
    let whole = read_t4(KERNEL_TUNER.as_bytes(), &T4Names { complete: true, ..names }).unwrap().recording;
    assert_eq!((whole.completeness, whole.count_legal()), (Completeness::Everything, 3));
}

#[test]
fn wrong_results_are_refused_with_their_number_and_what_to_do() {
    let one = |entry: Value| json!({"results": [entry]}).to_string();
    let ran = |measurement: Value| {
        let configuration = json!({"a": 1});
        one(json!({"configuration": configuration, "invalidity": "correct", "measurements": [measurement]}))
    };
    let two = json!({"results": [
        {"configuration": {"a": 1}, "invalidity": "compile"}, {"configuration": {"a": 1}, "invalidity": "compile"}
    ]});
    for (text, part) in [
        ("nonsense".to_string(), "not JSON"),
        ("\u{1f}\u{8b}".to_string(), "not JSON"),
        ("{}".to_string(), "no list `results`"),
        (json!({"cache": {}}).to_string(), "cache file of Kernel Tuner"),
        (json!({"results": []}).to_string(), "the list is empty"),
        (
            json!({"results": [], "metadata": {"timeunit": "weeks"}}).to_string(),
            "`weeks` is not a unit of time",
        ),
        (one(json!({"times": {}})), "result 1: `configuration` has 0 parameters"),
        (
            one(json!({"configuration": {"a": "float4"}})),
            "result 1: `a` is \"float4\"; settings are whole numbers",
        ),
        (one(json!({"configuration": {"a": 1.5}})), "`a` is 1.5"),
        (one(json!({"configuration": {"a": 1}, "invalidity": "odd"})), "known are correct, compile"),
        (one(json!({"configuration": {"a": 1}})), "neither `time` nor `runtimes` says how long"),
        (
            ran(json!({"name": "time", "value": 1.0, "unit": "h"})),
            "`h` is not a unit of time; write s, ms, us or ns",
        ),
        (ran(json!({"name": "time", "value": "fast", "unit": "s"})), "`time` is \"fast\", not a number"),
        (ran(json!({"name": "time", "value": -1.0})), "it ran in -1 ms"),
        (two.to_string(), "result 2: the same configuration as result 1"),
        (
            json!({"results": [{"configuration": {"a": 1}, "invalidity": "compile"},
                               {"configuration": {"b": 1}, "invalidity": "compile"}]})
            .to_string(),
            "result 2: the parameter `b` is not in the first result",
        ),
    ] {
        let error = read_t4(text.as_bytes(), &T4Names::default()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let damaged = read_t4(&[0x1f, 0x8b, 0, 0], &T4Names::default()).unwrap_err().to_string();
    assert!(damaged.contains("cannot be decompressed"), "{damaged}");
}

#[test]
fn times_are_read_in_their_unit() {
    for (unit, ms) in [("s", 2000.0), ("ms", 2.0), ("us", 0.002), ("µs", 0.002), ("ns", 2e-6), ("", 0.002)] {
        let text = json!({"metadata": {"timeunit": "microseconds"}, "results": [{"configuration": {"a": 1},
            "times": {"runtimes": [1.0, 3.0]}, "measurements": [{"name": "time", "value": 2.0, "unit": unit}]}]});
        let recording = read_t4(text.to_string().as_bytes(), &T4Names::default()).unwrap().recording;
        let found = recording.rows[0].outcome.mean_ms().unwrap();
        assert!((found / ms - 1.0).abs() < 1e-12, "{unit}: {found}");
        assert_eq!(recording.repeat_ms(0, 1), Some(found * 1.5), "{unit}");
    }
}
