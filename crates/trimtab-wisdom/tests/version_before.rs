//! Wisdom as the version before stores wrote it: files made by its code and checked in. Every line is understood.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::{fs, io::Write};
use trimtab_core::{Condition, FailureKind, Patience};
use trimtab_wisdom::{Extent, Outcome, WarningKind, Wisdom};

/// Every kind of line, every condition, failure and form of patience.
const ALL_KINDS: &str = "seg-4e6eaa99d1dbf641.jsonl";
/// What `trimtab tune transpose:f32:64x64` left.
const TUNED: &str = "seg-8ae8efb540286881.jsonl";

fn copied(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in names {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
        fs::copy(data, dir.path().join(name)).unwrap();
    }
    dir
}

fn everything_is_there(wisdom: &Wisdom) {
    assert_eq!(wisdom.warnings(), vec![]);
    let facts = wisdom.facts("cpu:zen3", "matmul:f32:512x512x512");
    // The version before had the first seven.
    let known = Condition::ALL[..7].to_vec();
    let timed = |condition: Condition| {
        let of = |fact: &&trimtab_wisdom::Fact| fact.key.condition == condition;
        facts.iter().find(of).and_then(|fact| fact.outcome.stats().copied()).unwrap()
    };
    for (n, condition) in known.clone().into_iter().enumerate() {
        let stats = timed(condition);
        assert_eq!((stats.n, stats.min_ns, stats.sum_ns), (2, 1234.5 + n as f64, 2484.75 + n as f64));
    }
    assert_eq!((timed(Condition::Quiet).energy_uj, timed("a later one".into()).n), (Some(17.5), 1));
    for kind in FailureKind::ALL {
        let message = format!("as \"{}\" does", kind.name());
        assert!(facts.iter().any(|fact| fact.outcome == Outcome::Failed { kind, message: message.clone() }));
    }
    assert_eq!(facts.len(), known.len() + 1 + FailureKind::ALL.len(), "one more was forgotten");

    let verdicts = wisdom.verdicts().into_iter().filter(|verdict| verdict.device == "cpu:zen3+gpu:x");
    let extents: Vec<(Extent, String)> = verdicts.map(|verdict| (verdict.extent, verdict.on)).collect();
    let whole = |patience| Extent { patience: Some(patience), ..Extent::default() };
    let partial = |session_ms| Extent { partial: true, session_ms, ..Extent::default() };
    let by = |strategy: &str| Extent { strategy: Some(strategy.to_string()), ..Extent::default() };
    let expected = [
        (whole(Patience::Estimate), "cpu:zen3"),
        (whole(Patience::Measure), ""),
        (whole(Patience::Exhaustive), "cpu:zen3"),
        (Extent { evals: Some(50), ..by("auto") }, ""),
        (Extent { good_enough_ppm: Some(800_000), ..by("model") }, "cpu:zen3"),
        (partial(0), ""),
        (partial(5000), "cpu:zen3"),
        (Extent { strategy: Some("hill".to_string()), ..partial(5000) }, ""),
    ];
    assert_eq!(extents, expected.map(|(extent, on)| (extent, on.to_string())));
    let verdict = wisdom.verdict("cpu:zen3+gpu:x", "matmul:f32:3x8x8", "default").unwrap();
    assert_eq!((verdict.point.as_str(), verdict.candidates), ("mc=64", 0xc0ffee << 3));
    assert_eq!(wisdom.died("gpu:x", "gpu.matmul.tiled", "9b"), ["wg=128"]);

    let tuned =
        wisdom.verdicts().into_iter().find(|verdict| verdict.problem == "transpose:f32:64x64").unwrap();
    assert_eq!(tuned.kernel, "cpu.transpose.registers");
    assert_eq!(wisdom.facts(&tuned.device, "transpose:f32:64x64").len(), 6);
}

#[test]
fn every_line_of_the_version_before_is_understood_and_outlives_compaction() {
    let dir = copied(&[ALL_KINDS, TUNED]);
    let wisdom = Wisdom::open(dir.path());
    everything_is_there(&wisdom);
    assert_eq!(wisdom.compact().segments_merged, 2);
    everything_is_there(&Wisdom::open(dir.path()));
}

#[test]
fn a_line_of_another_version_is_skipped_with_a_warning_and_kept() {
    let dir = copied(&[ALL_KINDS, TUNED]);
    let json = r#"{"kind":"rumour","device":"cpu","at_ms":1794865356100}"#;
    let line = format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    let path = dir.path().join(TUNED);
    fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap();
    let wisdom = Wisdom::open(dir.path());
    assert_eq!((wisdom.len(), wisdom.verdicts().len()), (19, 9));
    assert_eq!(wisdom.warnings()[0].kind, WarningKind::MalformedLine);
    assert!(wisdom.warnings()[0].message.contains("rumour"), "{}", wisdom.warnings()[0]);
    assert_eq!(wisdom.compact().segments_merged, 2);
    let aside = fs::read_to_string(dir.path().join(format!("{TUNED}.damaged-1"))).unwrap();
    assert!(aside.ends_with(&line), "what was not understood is still there");
}

#[test]
fn a_blob_of_the_version_before_is_found() {
    let dir = copied(&[]);
    fs::create_dir(dir.path().join("blobs")).unwrap();
    let blob = [b"trimtab blob".as_slice(), &crc32fast::hash(b"kernels").to_le_bytes(), b"kernels"].concat();
    fs::write(dir.path().join("blobs/built-gpu_x_y-98a30dc1.blob"), blob).unwrap();
    assert_eq!(Wisdom::open(dir.path()).blob("built-gpu/x y").as_deref(), Some(&b"kernels"[..]));
}
