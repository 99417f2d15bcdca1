//! What needs a look inside: a disk that is really full, bounds, and times within one process.

use super::*;
use crate::directory::FileWriter;
use crate::fact::Stats;
use crate::store::MAX_SEGMENT_BYTES;
use std::fs::{File, OpenOptions};
use trimtab_core::FailureKind;

fn key(kernel: &str) -> FactKey {
    FactKey {
        device: "cpu".into(),
        kernel: kernel.into(),
        problem: "matmul:f32:8x8x8".into(),
        ..FactKey::default()
    }
}

fn timed(ns: f64) -> Outcome {
    Outcome::Timed(Stats::single(ns))
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_warning_and_everything_is_written_once_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    wisdom.view().writer = Some(Box::new(FileWriter::over(full, "/dev/full".into(), false)));
    for n in 0..10 {
        wisdom.record(key(&format!("k{n}")), timed(1.0));
        wisdom.flush();
    }
    wisdom.intend("cpu", "k", "1", "p");
    wisdom.done("cpu", "k", "1", "p");
    let warnings = wisdom.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert_eq!(warnings[0].kind, WarningKind::NotWritable);
    assert!(warnings[0].message.contains("make room"), "{}", warnings[0]);
    assert_eq!((wisdom.len(), wisdom.state().queue.len()), (10, 11));

    wisdom.view().writer = None;
    wisdom.flush();
    assert_eq!(wisdom.state().queue.len(), 0);
    assert_eq!(Wisdom::open(dir.path()).len(), 10);
}

/// Calls of so many problems for an hour, drained twice a second, with a clock that is set; the bytes that were written and those left on the disk.
fn an_hour_of(problems: usize) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(std::sync::atomic::AtomicU64::new(wall::now_ms()));
    let mut wisdom = Wisdom::open(dir.path());
    wisdom.set_ms = Some(Arc::clone(&clock));
    let device = "cpu:AMD EPYC 7B13:8c16t:avx2+fma:linux-6.8:0123456789abcdef";
    let key = |problem: usize, condition: &str| FactKey {
        device: device.into(),
        kernel: "cpu.matmul.blocked".into(),
        version: "3f2a9c0d4b5e6f70".into(),
        problem: format!("matmul:f32:{problem}x512x512"),
        point: "mc=64,kc=256,nc=4096,threads=2".into(),
        condition: condition.into(),
    };
    let (mut written, mut before) = (0, 0);
    for drain in 0..7200u64 {
        clock.fetch_add(500, std::sync::atomic::Ordering::Relaxed);
        // Machines get slower and faster by a third within minutes: the worst that a fact can do.
        let slow = 1.0 + 0.3 * (drain as f64 / 500.0).sin();
        for problem in 0..problems {
            let ns = 1e5 * slow * (1.0 + 0.1 * ((drain * 31 + problem as u64 * 17) % 10) as f64);
            wisdom
                .record(key(problem, "live"), Outcome::Timed(Stats::of(&[ns, ns * 1.1, ns * 1.3]).unwrap()));
            if drain % 50 == 0 {
                wisdom.record(key(problem, "explored"), timed(ns * 1.5));
                wisdom.record(key(problem, "chosen"), timed(ns));
            }
        }
        wisdom.flush();
        let now = wisdom.view().bytes;
        written += if now >= before { now - before } else { now };
        before = now;
    }
    drop(wisdom);
    let reader = Wisdom::open(dir.path());
    let live =
        reader.facts(device, "matmul:f32:0x512x512").into_iter().find(|fact| fact.key == key(0, "live"));
    assert_eq!(live.unwrap().outcome.stats().unwrap().n, 3 * 7200, "what was not news is written at the end");
    let left = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    (written, left.sum())
}

#[test]
fn a_program_that_calls_ten_problems_for_an_hour_writes_less_than_a_megabyte() {
    let (written, left) = an_hour_of(10);
    println!("{written} bytes were written, {left} are left");
    assert!(written < 1_000_000 && left < 1_100_000, "{written} bytes, {left} left");
}

/// As above at full size; a minute or so without optimization.
#[test]
#[ignore = "ten times as long as all the others; `cargo test -p trimtab-wisdom --release -- --ignored`"]
fn a_program_that_calls_two_hundred_problems_for_an_hour_writes_less_than_20_megabytes() {
    let (written, left) = an_hour_of(200);
    println!("{written} bytes were written, {left} are left");
    assert!(written < 20_000_000 && left < 22_000_000, "{written} bytes, {left} left");
}

#[test]
fn a_writer_compacts_its_own_segments_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    let size = || -> u64 {
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    let mut most = 0;
    let point = "x".repeat(12_000);
    // 2000 facts that are measured again and again: 150 MB of lines, of which 24 count.
    for round in 0..6 {
        for number in 0..2000 {
            wisdom.record(
                FactKey { point: point.clone(), ..key(&format!("k{number}")) },
                timed(f64::from(round + 1)),
            );
        }
        wisdom.flush();
        most = most.max(size());
    }
    println!("{most} bytes at most");
    // What counts, what is written again of it before it is compacted, and the segment that is being written.
    assert!(most < 24_200_000 * 2 + 5 * MAX_SEGMENT_BYTES, "{most} bytes at most");
    assert_eq!(Wisdom::open(dir.path()).len(), 2000);
}

#[test]
fn a_write_that_broke_off_costs_one_line_even_if_it_cannot_be_undone() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.record(key("a"), timed(1.0));
    wisdom.flush();
    let path = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    // What a write leaves that broke off and could not be cut away again.
    let mut file = OpenOptions::new().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut file, b"0123abcd {\"ki").unwrap();
    wisdom.view().writer = Some(Box::new(FileWriter::over(file, path, true)));
    wisdom.record(key("b"), timed(1.0));
    wisdom.flush();
    let other = Wisdom::open(dir.path());
    assert_eq!(other.len(), 2);
    assert_eq!(other.warnings().len(), 1, "{:?}", other.warnings());
    assert_eq!(other.warnings()[0].kind, WarningKind::MalformedLine);
}

#[test]
fn a_segment_that_was_removed_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.record(key("a"), timed(1.0));
    wisdom.decide(Verdict { device: "cpu".into(), kernel: "a".into(), ..Verdict::default() });
    wisdom.flush();
    std::fs::remove_dir_all(dir.path()).unwrap();
    wisdom.record(key("b"), timed(1.0));
    wisdom.flush();
    let other = Wisdom::open(dir.path());
    assert_eq!((other.len(), other.verdicts().len()), (2, 1));
}

#[test]
fn times_add_up_a_failure_replaces_them_and_a_time_after_it_starts_anew() {
    let wisdom = Wisdom::in_memory();
    let only = || wisdom.facts("cpu", "matmul:f32:8x8x8").remove(0).outcome;
    wisdom.record(key("k"), timed(10.0));
    wisdom.record(key("k"), timed(20.0));
    assert_eq!(only(), Outcome::Timed(Stats::of(&[10.0, 20.0]).unwrap()));
    let failed = Outcome::Failed { kind: FailureKind::Wrong, message: "off by 3".into() };
    wisdom.record(key("k"), failed.clone());
    assert_eq!(only(), failed);
    wisdom.record(key("k"), timed(30.0));
    assert_eq!(only(), timed(30.0));
    assert_eq!(wisdom.len(), 1);
}

#[test]
fn what_no_clock_can_have_measured_is_refused() {
    let wisdom = Wisdom::in_memory();
    for ns in [f64::NAN, f64::INFINITY, -1.0] {
        wisdom.record(key("k"), timed(ns));
    }
    wisdom.record(key("k"), Outcome::Timed(Stats { n: 0, ..Stats::single(1.0) }));
    assert!(wisdom.is_empty());
    assert!(wisdom.warnings().iter().all(|warning| warning.kind == WarningKind::Refused));
    assert_eq!(wisdom.warnings().len(), 2);
}

#[test]
fn a_record_after_forgetting_counts_even_within_the_same_millisecond() {
    let wisdom = Wisdom::in_memory();
    for n in 0..100 {
        wisdom.record(key("k"), timed(10.0));
        wisdom.decide(Verdict { device: "cpu".into(), kernel: "k".into(), ..Verdict::default() });
        assert_eq!((wisdom.len(), wisdom.verdicts().len()), (1, 1), "{n}");
        assert_eq!(wisdom.all_facts()[0].outcome, timed(10.0), "times before do not count");
        assert_eq!(wisdom.forget(&Filter::kernel("k")), 2);
        assert_eq!((wisdom.len(), wisdom.verdicts().len()), (0, 0), "{n}");
    }
    assert_eq!(wisdom.forget(&Filter::default()), 0);
}

#[test]
fn memory_alone_has_no_queue_and_no_directory() {
    let wisdom = Wisdom::in_memory();
    wisdom.record(key("k"), timed(1.0));
    wisdom.intend("cpu", "k", "1", "p");
    wisdom.flush();
    assert!(wisdom.state().queue.is_empty());
    assert_eq!((wisdom.dir(), wisdom.warnings(), wisdom.reload()), (None, vec![], 0));
    assert_eq!(wisdom.compact(), crate::CompactReport::default());
}

#[test]
fn intents_are_bounded_and_open_ones_outlive_discharged_ones() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.intend("cpu", "k", "1", "open");
    for n in 0..MAX_INTENTS + 10 {
        wisdom.intend("cpu", "k", "1", &n.to_string());
        wisdom.done("cpu", "k", "1", &n.to_string());
    }
    assert!(wisdom.state().union.intent_count() <= MAX_INTENTS);
    drop(wisdom);
    assert_eq!(Wisdom::open(dir.path()).died("cpu", "k", "1"), ["open"]);
}

#[test]
fn a_writer_goes_on_in_a_new_segment_and_its_open_intents_are_no_crash() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.record(key("a"), timed(1.0));
    wisdom.intend("cpu", "k", "1", "running");
    wisdom.view().bytes = MAX_SEGMENT_BYTES;
    wisdom.record(key("b"), timed(1.0));
    wisdom.flush();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    let other = Wisdom::open(dir.path());
    assert_eq!(other.len(), 2);
    assert_eq!(other.died("cpu", "k", "1"), Vec::<String>::new());
    // The full segment has no lock any more: compacting it must keep what the living writer intends.
    std::fs::write(dir.path().join("seg-empty.jsonl"), "").unwrap();
    assert_eq!(other.compact().segments_merged, 2);
    let other = Wisdom::open(dir.path());
    assert_eq!((other.len(), other.died("cpu", "k", "1")), (2, vec![]));
    drop(wisdom);
    other.reload();
    assert_eq!(other.died("cpu", "k", "1"), ["running"]);
}

#[test]
fn a_pipe_or_directory_named_like_a_segment_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("seg-x.jsonl")).unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.record(key("k"), timed(1.0));
    wisdom.flush();
    assert_eq!(wisdom.warnings()[0].kind, WarningKind::Unreadable);
    assert!(wisdom.warnings()[0].message.contains("not a regular file"), "{}", wisdom.warnings()[0]);
    assert_eq!(wisdom.compact().error, None);
    assert!(File::open(dir.path().join("seg-x.jsonl")).is_ok());
}

#[test]
fn the_places_of_a_kernel_are_its_own_each_once() {
    let wisdom = Wisdom::in_memory();
    for (kernel, version, point) in
        [("k", "1", "a=1"), ("k", "1", "a=2"), ("k", "2", "a=1"), ("k2", "1", "a=1"), ("j", "1", "a=1")]
    {
        let (version, point) = (version.to_string(), point.to_string());
        wisdom.record(FactKey { version, point, ..key(kernel) }, timed(1.0));
    }
    let elsewhere = FactKey { device: "gpu".into(), version: "1".into(), ..key("k") };
    wisdom.record(elsewhere, timed(1.0));
    let place = |device: &str, version: &str| MeasuredOn {
        device: device.into(),
        problem: "matmul:f32:8x8x8".into(),
        version: version.into(),
    };
    assert_eq!(wisdom.places("k"), [place("cpu", "1"), place("cpu", "2"), place("gpu", "1")]);
    assert_eq!(wisdom.places("nobody"), []);
}
