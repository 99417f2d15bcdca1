//! Recordings as they are kept: ours in the repository, published ones where they are present, and damaged ones.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trimtab_replay::{Completeness, Outcome, ReadError, read_recordings, simulate};
use trimtab_tune::search::{STRATEGIES, SearchSpace, strategy};

/// Our own recordings: kernels of this project, made by `trimtab record`.
fn ours() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}

fn constraints_describe_rows(directory: &Path) {
    let recordings = read_recordings(directory, &[]).unwrap();
    assert!(!recordings.is_empty());
    for recording in &recordings {
        assert!(
            recording.rows.iter().all(|row| recording.is_legal(row.point.values())),
            "{}",
            recording.name
        );
        assert_eq!(recording.space().points().len(), recording.rows.len(), "{}", recording.name);
        if recording.completeness == Completeness::Everything {
            assert_eq!(recording.count_legal(), recording.rows.len() as u64, "{}", recording.name);
        }
    }
}

#[test]
fn constraints_of_our_recordings_describe_their_rows() {
    constraints_describe_rows(&ours());
}

#[test]
fn constraints_of_published_recordings_describe_their_rows() {
    if let Some(published) = trimtab_testing::data("constraints of published recordings") {
        constraints_describe_rows(&published);
    }
}

#[test]
fn our_recordings_are_of_two_devices_with_repeats_and_small() {
    let recordings = read_recordings(&ours(), &[]).unwrap();
    let mut devices: Vec<&str> = recordings.iter().map(|recording| recording.device.as_str()).collect();
    devices.sort_unstable();
    devices.dedup();
    assert_eq!(devices.len(), 2, "{devices:?}");
    assert!(recordings.iter().all(|recording| recording.repeat_count(0) >= 5 && recording.rows.len() >= 9));
    assert!(recordings.iter().any(|recording| recording.completeness == Completeness::Sample));
    let files = |directory: PathBuf| std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    let bytes = files(ours()).chain(files(ours().join("spaces"))).map(|file| file.metadata().unwrap().len());
    assert!(bytes.sum::<u64>() < 100_000);
}

#[test]
fn every_strategy_finds_the_optimum_of_our_recordings_when_it_may_try_everything() {
    for recording in read_recordings(&ours(), &[]).unwrap() {
        let space = Arc::new(SearchSpace::new(&recording.space()));
        for name in STRATEGIES {
            let mut strategy = strategy(name, &space, 5, &[]).unwrap();
            let run = simulate(&recording, strategy.as_mut(), recording.rows.len(), None);
            assert_eq!(run.after(recording.rows.len()), 1.0, "{name} on {}", recording.name);
        }
    }
}

fn compressed(directory: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let file = std::fs::File::create(directory.join(name))?;
    let mut encoder = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    encoder.write_all(text.as_bytes())?;
    encoder.finish().map(|_| ())
}

const INDEX: &str = r#"[{"space": "s__d", "kernel": "s", "variant": "v", "device": "d", "device_name": "D", "api": "none",
  "problem": {"op": "x", "n": 8, "flops": 10, "bytes": 20}, "params": {"b": [1, 2], "a": [4, 8]}, "fixed": {"f": 3},
  "constraints": ["a * b <= 8 or f == 4"], "completeness": "bruteforce", "csv": "s.csv.gz", "reps_csv": "r.csv.gz"}]"#;
const ROWS: &str = "a,b,status,time_ms,n\n4,1,ok,2.0,2\n4,2,compile_failed,,0\n8,1,ok,1.0,2\n";

#[test]
fn a_recording_is_read_with_its_repeats() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("index.json"), INDEX).unwrap();
    compressed(directory.path(), "s.csv.gz", ROWS).unwrap();
    compressed(directory.path(), "r.csv.gz", "row,reps\n0,9000,11000\n2,10000,10000\n").unwrap();
    let recording = read_recordings(directory.path(), &["s__d"]).unwrap().remove(0);
    assert_eq!((recording.axes[0].name.as_str(), &recording.sizes[..]), ("a", &[8][..]));
    assert_eq!((recording.count_legal(), recording.rows.len()), (3, 3));
    assert!(matches!(recording.rows[1].outcome, Outcome::Failed(_)));
    assert_eq!((recording.repeat_ms(0, 1), recording.repeat_count(1)), (Some(2.2), 0));
    let missing = read_recordings(directory.path(), &["other"]).unwrap_err().to_string();
    assert!(missing.contains("no space `other`"), "{missing}");
}

#[test]
fn damaged_files_are_refused_with_the_place() {
    let directory = tempfile::tempdir().unwrap();
    let read = || read_recordings(directory.path(), &[]).unwrap_err();
    assert!(matches!(read(), ReadError::File { .. }));
    std::fs::write(directory.path().join("index.json"), "{").unwrap();
    assert!(matches!(read(), ReadError::Format { .. }));
    std::fs::write(directory.path().join("index.json"), INDEX).unwrap();
    compressed(directory.path(), "r.csv.gz", "row,reps\n").unwrap();
    for (rows, part) in [
        ("a,b,time_ms\n", "no column `status`"),
        ("a,c,status,time_ms\n", "no axis `c`"),
        ("a,b,status,time_ms\n4,1,ok\n", "line 2: 3 cells"),
        ("a,b,status,time_ms\n4,x,ok,1\n", "`x` is not a setting"),
        ("a,b,status,time_ms\n4,1,ok,\n", "without a time"),
        ("a,b,status,time_ms\n4,1,odd,1\n", "unknown status"),
    ] {
        compressed(directory.path(), "s.csv.gz", rows).unwrap();
        let error = read().to_string();
        assert!(error.contains(part), "{error}");
    }
}
