//! Directories as users meet them: damaged, shared, forgotten, compacted, carried elsewhere. Public interface only.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use trimtab_core::FailureKind;
use trimtab_wisdom::{
    Fact, FactKey, Filter, MAX_ORIGINS, MAX_SEGMENTS, Outcome, Stats, Verdict, WarningKind, Wisdom,
    WisdomError,
};

const PROBLEM: &str = "matmul:f32:8x8x8";

fn key(kernel: &str) -> FactKey {
    FactKey {
        device: "cpu".into(),
        kernel: kernel.into(),
        version: "1".into(),
        problem: PROBLEM.into(),
        point: "mc=8".into(),
        condition: Default::default(),
    }
}

fn timed(ns: f64) -> Outcome {
    Outcome::Timed(Stats::single(ns))
}

fn verdict(kernel: &str) -> Verdict {
    let (device, problem, terms) = ("cpu".into(), PROBLEM.into(), "default".into());
    Verdict { device, problem, terms, kernel: kernel.into(), candidates: u64::MAX, ..Verdict::default() }
}

/// A process that recorded these kernels and ended.
fn past(dir: &Path, kernels: &[&str]) {
    let wisdom = Wisdom::open(dir);
    kernels.iter().for_each(|kernel| wisdom.record(key(kernel), timed(10.0)));
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn only_segment(dir: &Path) -> PathBuf {
    dir.join(names(dir).iter().find(|name| name.ends_with(".jsonl")).unwrap())
}

fn kinds(wisdom: &Wisdom) -> Vec<WarningKind> {
    wisdom.warnings().iter().map(|warning| warning.kind).collect()
}

fn kernels(wisdom: &Wisdom) -> Vec<String> {
    wisdom.all_facts().into_iter().map(|fact| fact.key.kernel).collect()
}

#[test]
fn what_is_recorded_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(
        names(dir.path()),
        Vec::<String>::new(),
        "nothing is written before there is something to write"
    );
    wisdom.record(
        key("a"),
        Outcome::Timed(Stats { energy_uj: Some(0.1), ..Stats::of(&[0.1, 0.2, 0.7]).unwrap() }),
    );
    wisdom.record(
        key("b"),
        Outcome::Failed { kind: FailureKind::Compile, message: "no such\ninstruction".into() },
    );
    wisdom.decide(verdict("a"));
    let (facts, verdicts) = (wisdom.all_facts(), wisdom.verdicts());
    drop(wisdom);
    let wisdom = Wisdom::open(dir.path());
    assert_eq!((wisdom.all_facts(), wisdom.verdicts()), (facts, verdicts));
    assert_eq!(wisdom.verdict("cpu", PROBLEM, "default").unwrap().kernel, "a");
    assert_eq!(wisdom.device_facts("cpu").len(), 2);
    assert_eq!(wisdom.facts("cpu", "other"), Vec::<Fact>::new());
    assert_eq!(wisdom.warnings(), vec![]);
}

#[test]
fn flushing_twice_writes_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Wisdom::open(dir.path());
    wisdom.record(key("a"), timed(1.0));
    wisdom.flush();
    let size = fs::metadata(only_segment(dir.path())).unwrap().len();
    wisdom.flush();
    assert_eq!(fs::metadata(only_segment(dir.path())).unwrap().len(), size);
}

#[test]
fn two_living_processes_see_each_other_after_a_reload_and_their_times_add_up() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Wisdom::open(dir.path()), Wisdom::open(dir.path()));
    one.record(key("a"), timed(10.0));
    two.record(key("a"), timed(30.0));
    one.flush();
    two.flush();
    assert_eq!((one.reload(), two.reload()), (1, 1));
    assert_eq!((one.reload(), two.reload()), (0, 0));
    for wisdom in [&one, &two] {
        let fact = wisdom.facts("cpu", PROBLEM).remove(0);
        assert_eq!((fact.outcome.stats().unwrap().mean(), fact.origin.as_str()), (20.0, "merged"));
    }
    // What one adds later replaces what it said before and does not count twice.
    one.record(key("a"), timed(20.0));
    one.flush();
    two.reload();
    assert_eq!(two.facts("cpu", PROBLEM)[0].outcome.stats().unwrap().n, 3);
}

#[test]
fn a_malformed_line_costs_itself_alone_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    past(dir.path(), &["a", "b", "c"]);
    let path = only_segment(dir.path());
    let text = fs::read_to_string(&path).unwrap().replace(r#""kernel":"b""#, r#""kernel":"x""#);
    fs::write(&path, text).unwrap();
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(kernels(&wisdom), ["a", "c"]);
    assert_eq!(kinds(&wisdom), [WarningKind::MalformedLine]);
    let message = wisdom.warnings()[0].to_string();
    assert!(message.contains(&path.display().to_string()) && message.contains("line 3"), "{message}");
    // Compaction takes the good lines and keeps the file that has the bad one.
    past(dir.path(), &["d"]);
    assert_eq!(wisdom.compact().segments_merged, 2);
    assert_eq!(kernels(&Wisdom::open(dir.path())), ["a", "c", "d"]);
    assert!(
        names(dir.path()).iter().any(|name| name.ends_with(".jsonl.damaged-1")),
        "{:?}",
        names(dir.path())
    );
}

#[test]
fn a_file_cut_at_any_byte_loses_at_most_the_last_line() {
    let dir = tempfile::tempdir().unwrap();
    past(dir.path(), &["a", "b", "c"]);
    let path = only_segment(dir.path());
    let whole = fs::read(&path).unwrap();
    let header = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for size in header..whole.len() {
        fs::write(&path, &whole[..size]).unwrap();
        let wisdom = Wisdom::open(dir.path());
        let complete = whole[header..size].iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(wisdom.len(), complete, "cut at {size}");
        let torn = whole[size - 1] != b'\n';
        assert_eq!(kinds(&wisdom), [WarningKind::TornLine][..usize::from(torn)], "cut at {size}");
    }
}

#[test]
fn a_damaged_file_is_kept_aside_reported_and_its_good_lines_can_be_imported() {
    let dir = tempfile::tempdir().unwrap();
    past(dir.path(), &["good"]);
    past(dir.path(), &["a", "b"]);
    let damaged = names(dir.path()).into_iter().map(|name| dir.path().join(name));
    let damaged =
        damaged.into_iter().find(|path| fs::read_to_string(path).unwrap().contains("\"a\"")).unwrap();
    let mut text = fs::read_to_string(&damaged).unwrap();
    (0..9).for_each(|n| text.push_str(&format!("garbage {n}\n")));
    fs::write(&damaged, &text).unwrap();
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(kernels(&wisdom), ["good"]);
    assert_eq!(kinds(&wisdom), [WarningKind::DamagedFile]);
    let aside = PathBuf::from(format!("{}.damaged-1", damaged.display()));
    assert!(wisdom.warnings()[0].message.contains(&aside.display().to_string()), "{}", wisdom.warnings()[0]);
    assert!(!damaged.exists());
    assert_eq!(fs::read_to_string(&aside).unwrap(), text, "nothing of it is lost");

    let report = wisdom.import(&text, true).unwrap();
    assert_eq!((report.new, report.rejected_count, report.rejected[0].line), (2, 9, 4));
    assert_eq!(kernels(&wisdom), ["a", "b", "good"]);

    // A second damaged file of the same name does not overwrite the first.
    fs::write(&damaged, "\0\0\0\0\n").unwrap();
    assert_eq!(wisdom.reload(), 0);
    assert!(PathBuf::from(format!("{}.damaged-2", damaged.display())).exists());
    assert_eq!(fs::read_to_string(&aside).unwrap(), text);
}

#[test]
fn a_file_of_a_newer_format_is_left_alone_and_reported() {
    let dir = tempfile::tempdir().unwrap();
    let json = r#"{"trimtab":2,"shape":"unknown"}"#;
    let path = dir.path().join("seg-future.jsonl");
    let text = format!("{:08x} {json}\nwhatever comes\n", crc32fast::hash(json.as_bytes()));
    fs::write(&path, &text).unwrap();
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(kinds(&wisdom), [WarningKind::NewerVersion]);
    wisdom.reload();
    wisdom.compact();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert!(matches!(wisdom.import(&text, true), Err(WisdomError::NewerVersion { found: 2, known: 1 })));
}

#[test]
fn a_file_where_the_directory_should_be_is_a_warning_and_memory_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wisdom");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below")] {
        let wisdom = Wisdom::open(&path);
        wisdom.record(key("a"), timed(1.0));
        wisdom.intend("cpu", "a", "1", "p");
        wisdom.flush();
        assert_eq!(wisdom.len(), 1);
        assert!(kinds(&wisdom).contains(&WarningKind::NotWritable), "{:?}", wisdom.warnings());
        assert!(wisdom.warnings()[0].message.contains("name another directory"), "{}", wisdom.warnings()[0]);
        assert!(wisdom.compact().error.is_some());
        assert_eq!(wisdom.dir(), Some(path));
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    // Once it is out of the way the next flush writes everything.
    let wisdom = Wisdom::open(&file);
    wisdom.record(key("a"), timed(1.0));
    fs::remove_file(&file).unwrap();
    wisdom.flush();
    assert_eq!(Wisdom::open(&file).len(), 1);
}

#[test]
fn hostile_names_are_only_ever_text() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(3000);
    let hostile = [
        "",
        "\"",
        "\\",
        "a\nb\r\n",
        "../../../etc/passwd",
        "/etc/passwd",
        "a\0b",
        "日本語 🚀",
        "\u{202e}",
        &long,
    ];
    {
        let wisdom = Wisdom::open(dir.path());
        for name in hostile {
            let name = name.to_string();
            let [device, kernel, version] = [(); 3].map(|()| name.clone());
            let fact = FactKey {
                device,
                kernel,
                version,
                problem: name.clone(),
                point: name.clone(),
                condition: name.as_str().into(),
            };
            let verdict = Verdict { device: name.clone(), terms: name.clone(), ..Verdict::default() };
            // The longest fits alone but not six times.
            wisdom.record(if name == long { key(&long) } else { fact }, timed(1.0));
            wisdom.decide(verdict);
            wisdom.intend(&name, &name, "1", &name);
        }
        wisdom.record(key(&"y".repeat(100_000)), timed(1.0));
        assert_eq!(kinds(&wisdom), [WarningKind::Refused]);
    }
    assert_eq!(names(dir.path()).len(), 1, "{:?}", names(dir.path()));
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(wisdom.warnings(), vec![]);
    assert_eq!((wisdom.len(), wisdom.verdicts().len()), (hostile.len(), hostile.len()));
    for name in hostile.into_iter().filter(|name| *name != long) {
        assert_eq!(wisdom.facts(name, name).len(), 1, "{name:?}");
        assert_eq!(wisdom.died(name, name, "1"), [name], "{name:?}");
        assert!(wisdom.forget(&Filter::device(name)) >= 3, "{name:?}");
    }
    drop(wisdom);
    assert_eq!(kernels(&Wisdom::open(dir.path())), [long]);
}

#[test]
fn forgetting_survives_a_restart_and_hides_what_other_processes_wrote() {
    let dir = tempfile::tempdir().unwrap();
    past(dir.path(), &["a", "b"]);
    let other = Wisdom::open(dir.path());
    other.record(key("a"), timed(1.0));
    other.decide(verdict("a"));
    other.flush();
    {
        let wisdom = Wisdom::open(dir.path());
        assert_eq!(wisdom.forget(&Filter::kernel("a")), 2);
        assert_eq!(kernels(&wisdom), ["b"]);
    }
    assert_eq!(kernels(&Wisdom::open(dir.path())), ["b"]);
    assert_eq!(Wisdom::open(dir.path()).verdicts(), vec![]);
    assert_eq!(kernels(&other), ["a", "b"], "a process that runs hears of it at its next reload");
    other.reload();
    assert_eq!(kernels(&other), ["b"]);
    other.record(key("a"), timed(5.0));
    drop(other);
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(wisdom.facts("cpu", PROBLEM)[0].outcome, timed(5.0), "only what came afterwards counts");
    // The forget line outlives compaction, and so an old copy of a segment does not bring anything back.
    let copy = tempfile::tempdir().unwrap();
    past(copy.path(), &["c"]);
    let old = only_segment(copy.path());
    wisdom.record(key("c"), timed(1.0));
    wisdom.forget(&Filter::everything());
    drop(wisdom);
    Wisdom::open(dir.path()).compact();
    fs::copy(&old, dir.path().join(old.file_name().unwrap())).unwrap();
    assert_eq!(kernels(&Wisdom::open(dir.path())), Vec::<String>::new());
}

#[test]
fn compaction_keeps_the_union_and_leaves_a_living_writer_alone() {
    let dir = tempfile::tempdir().unwrap();
    let living = Wisdom::open(dir.path());
    living.record(key("living"), timed(1.0));
    living.intend("cpu", "living", "1", "running");
    for n in 0..=MAX_SEGMENTS {
        past(dir.path(), &["shared", &format!("k{n:02}")]);
    }
    {
        let crashing = Wisdom::open(dir.path());
        crashing.intend("cpu", "bad", "1", "p");
        crashing.decide(verdict("shared"));
    }
    let before = Wisdom::open(dir.path());
    assert_eq!(names(dir.path()).len(), MAX_SEGMENTS + 3);
    let (facts, verdicts) = (before.all_facts(), before.verdicts());
    // The next flush does it.
    before.flush();
    assert_eq!(names(dir.path()).len(), 2, "{:?}", names(dir.path()));
    let after = Wisdom::open(dir.path());
    assert_eq!((after.all_facts(), after.verdicts()), (facts, verdicts));
    assert_eq!(after.died("cpu", "bad", "1"), ["p"]);
    assert_eq!(after.died("cpu", "living", "1"), Vec::<String>::new());
    assert_eq!(before.reload(), 0, "the new segment says nothing new");
    let shared = after.facts("cpu", PROBLEM).into_iter().find(|fact| fact.key.kernel == "shared").unwrap();
    assert_eq!(shared.outcome.stats().unwrap().n, MAX_ORIGINS as u64, "the newest eight origins count");
    // The living one goes on writing where it was.
    living.record(key("later"), timed(1.0));
    living.flush();
    assert_eq!(after.reload(), 1);
    assert_eq!(names(dir.path()).len(), 2);
    // With one segment that is compact already there is nothing to do.
    assert_eq!(after.compact().segments_merged, 0);
}

#[test]
fn importing_says_what_it_would_change_before_it_does() {
    let there = Wisdom::in_memory();
    there.record(key("slow"), timed(50.0));
    there.record(key("fast"), timed(25.0));
    there.record(FactKey { device: "gpu".into(), ..key("other") }, timed(5.0));
    there.decide(verdict("fast"));
    let text = there.export(&Filter::everything());
    assert_eq!(text.lines().count(), 5);
    assert_eq!(there.export(&Filter::device("gpu")).lines().count(), 2);
    assert_eq!(there.export(&Filter::default()).lines().count(), 1);

    let dir = tempfile::tempdir().unwrap();
    let here = Wisdom::open(dir.path());
    here.record(key("slow"), timed(50.0));
    let text = format!("{text}not a line\n");
    let dry = here.import(&text, false).unwrap();
    assert_eq!((dry.committed, dry.new, dry.updated, dry.unchanged, dry.rejected_count), (false, 3, 1, 0, 1));
    assert_eq!((dry.rejected[0].line, dry.rejected[0].reason.contains("checksum")), (6, true));
    assert_eq!(dry.changes.len(), 2);
    let cpu = dry.changes.iter().find(|change| change.device == "cpu").unwrap();
    assert_eq!(
        (cpu.before.as_ref().unwrap().kernel.as_str(), cpu.after.as_ref().unwrap().kernel.as_str()),
        ("slow", "fast")
    );
    assert_eq!(cpu.ratio, Some(0.5));
    assert_eq!((here.len(), here.verdicts().len()), (1, 0), "a dry run changes nothing");

    let done = here.import(&text, true).unwrap();
    assert_eq!(done.changes, dry.changes);
    assert!(done.committed);
    assert_eq!((here.len(), here.verdict("cpu", PROBLEM, "default").unwrap().kernel.as_str()), (3, "fast"));
    assert_eq!(Wisdom::open(dir.path()).len(), 3, "written at once");
    let again = here.import(&text, true).unwrap();
    assert_eq!((again.new, again.updated, again.unchanged), (0, 0, 4));

    // A backup can be restored after forgetting.
    here.forget(&Filter::everything());
    assert_eq!(here.import(&text, true).unwrap().new, 4);
    drop(here);
    assert_eq!(Wisdom::open(dir.path()).len(), 3);
    let error = there.import("hello\nworld\n", true).unwrap_err().to_string();
    assert!(error.contains("trimtab wisdom export"), "{error}");
}

#[test]
fn a_new_kernel_version_leaves_the_facts_of_other_kernels_and_versions_intact() {
    let dir = tempfile::tempdir().unwrap();
    past(dir.path(), &["a", "b"]);
    let wisdom = Wisdom::open(dir.path());
    let (old, other) = (wisdom.facts("cpu", PROBLEM)[0].clone(), wisdom.facts("cpu", PROBLEM)[1].clone());
    wisdom.record(FactKey { version: "2".into(), ..key("a") }, timed(7.0));
    let facts = wisdom.facts("cpu", PROBLEM);
    assert_eq!(facts.len(), 3);
    assert_eq!((&facts[0], &facts[2]), (&old, &other));
    assert_eq!((facts[1].key.version.as_str(), &facts[1].outcome), ("2", &timed(7.0)));
}

#[test]
fn an_intent_left_behind_is_a_death_and_one_of_a_living_process_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let living = Wisdom::open(dir.path());
    living.intend("gpu", "k", "1", "wg=64");
    living.intend("gpu", "k", "1", "wg=128");
    living.done("gpu", "k", "1", "wg=64");
    let other = Wisdom::open(dir.path());
    assert_eq!(other.died("gpu", "k", "1"), Vec::<String>::new());
    drop(living);
    other.reload();
    assert_eq!(other.died("gpu", "k", "1"), ["wg=128"]);
    assert_eq!(other.died("gpu", "k", "2"), Vec::<String>::new(), "another version may be tried");
    assert_eq!(Wisdom::open(dir.path()).died("gpu", "k", "1"), ["wg=128"]);
    assert_eq!(other.forget(&Filter::kernel("k")), 1);
    assert_eq!(Wisdom::open(dir.path()).died("gpu", "k", "1"), Vec::<String>::new());
}

#[test]
fn one_death_is_an_accident_the_second_at_the_same_point_a_crash_and_a_note_taken_back_is_neither() {
    let dir = tempfile::tempdir().unwrap();
    let die_at = |points: &[&str]| {
        let dying = Wisdom::open(dir.path());
        points.iter().for_each(|point| dying.intend("cpu", "k", "1", point));
    };
    die_at(&["mc=8"]);
    die_at(&["mc=16"]);
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(wisdom.died("cpu", "k", "1"), ["mc=16", "mc=8"]);
    assert_eq!(wisdom.crashed("cpu", "k", "1"), Vec::<String>::new());
    die_at(&["mc=8"]);
    {
        let interrupted = Wisdom::open(dir.path());
        interrupted.intend("cpu", "k", "1", "mc=16");
        interrupted.withdraw();
        // Another thread of it goes on until the process ends.
        interrupted.intend("cpu", "k", "1", "mc=16");
    }
    for wisdom in [Wisdom::open(dir.path()), wisdom] {
        wisdom.compact();
        wisdom.reload();
        assert_eq!(wisdom.crashed("cpu", "k", "1"), ["mc=8"]);
        let deaths = wisdom.deaths();
        let counts: Vec<(&str, usize)> = deaths.iter().map(|death| (&*death.point, death.count)).collect();
        assert_eq!(counts, [("mc=16", 1), ("mc=8", 2)]);
    }
}
