//! Months in a service: what many segments, many processes and a directory that comes and goes leave of what is remembered.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use trimtab_testing::variable;
use trimtab_wisdom::{FactKey, Outcome, Stats, Verdict, WarningKind, Wisdom};

const ROLE: &str = "TRIMTAB_WISDOM_TEST_ROLE";
const DIR: &str = "TRIMTAB_WISDOM_TEST_DIR";
/// How many times each of the eight processes goes round; by default a second or so.
const ROUNDS: &str = "TRIMTAB_WISDOM_TEST_ROUNDS";
/// So many facts of each process, that all of them are within the bound.
const KEYS: u32 = 20_000;

fn key(kernel: &str) -> FactKey {
    FactKey { device: "cpu".into(), kernel: kernel.into(), problem: "p".into(), ..FactKey::default() }
}

fn timed(ns: f64) -> Outcome {
    Outcome::Timed(Stats::single(ns))
}

/// A line of the format.
fn sealed(json: &str) -> String {
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

/// Segments of processes that ended, each with a fact of its own and one they all share.
fn leave(dir: &Path, segments: usize) {
    for number in 0..segments {
        let fact = |kernel: &str| {
            let times = r#""n":1,"sum_ns":5.5,"sum_sq_ns":30.25,"min_ns":5.5,"at_ms":1790000000001"#;
            sealed(&format!(r#"{{"kind":"fact","device":"cpu","kernel":"{kernel}","problem":"p",{times}}}"#))
        };
        let header =
            sealed(&format!(r#"{{"trimtab":1,"origin":"{number:016x}","created_ms":1790000000000}}"#));
        let text = header + &fact(&format!("k{number}")) + &fact("shared");
        fs::write(dir.join(format!("seg-{number:016x}.jsonl")), text).unwrap();
    }
}

fn segments(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().filter(|entry| entry.as_ref().unwrap().path().is_file()).count()
}

fn child(role: &str, dir: &Path) -> Command {
    let mut command = trimtab_testing::child("a_child_plays_its_role").unwrap();
    command.env(ROLE, role).env(DIR, dir).stdout(Stdio::null());
    command.env(ROUNDS, rounds().to_string());
    command
}

fn rounds() -> u32 {
    variable(ROUNDS).and_then(|text| text.parse().ok()).unwrap_or(200)
}

/// Not a test of its own: what the children do. Without a role it does nothing.
#[test]
fn a_child_plays_its_role() {
    let (Some(role), Some(dir)) = (variable(ROLE), variable(DIR)) else { return };
    let dir = Path::new(&dir);
    match role.as_str() {
        "compacts" => {
            let wisdom = Wisdom::open(dir);
            assert_eq!(wisdom.compact().error, None);
            assert_eq!(wisdom.warnings(), vec![]);
        }
        "goes round" => {
            let (wisdom, id) = (Wisdom::open(dir), std::process::id());
            for round in 0..rounds() {
                wisdom.record(key(&format!("{id}-{}", round % KEYS)), timed(1.0));
                wisdom.record(key("shared"), timed(f64::from(round + 1)));
                let live = FactKey { condition: "live".into(), ..key("live") };
                wisdom.record(live, timed(f64::from(round + 1)));
                let verdict = Verdict { device: "cpu".into(), problem: "p".into(), ..Verdict::default() };
                wisdom.decide(Verdict { kernel: format!("{}", id % 3), ..verdict });
                wisdom.intend("cpu", "k", "1", &round.to_string());
                wisdom.done("cpu", "k", "1", &round.to_string());
                wisdom.flush();
                match round % 50 {
                    10 => drop(wisdom.reload()),
                    // Somebody comes and goes and leaves a segment.
                    20 => Wisdom::open(dir).record(key(&format!("{id}-{}-guest", round % KEYS)), timed(1.0)),
                    30 => drop(wisdom.compact()),
                    _ => {}
                }
            }
            assert_eq!(wisdom.warnings(), vec![]);
        }
        "loses its disk" => {
            let wisdom = Wisdom::open(dir);
            wisdom.record(key("before"), timed(1.0));
            wisdom.flush();
            assert_eq!(wisdom.refused(), None);
            fs::set_permissions(dir, fs::Permissions::from_mode(0o500)).unwrap();
            fs::remove_file(fs::read_dir(dir).unwrap().next().unwrap().unwrap().path()).unwrap_err();
            // The segment that is open still takes lines; a new one, and a blob, cannot be made.
            wisdom.record(key("meanwhile"), timed(1.0));
            wisdom.flush();
            assert!(wisdom.keep_blob("b", b"x").unwrap_err().contains("could not be written"));
            assert_eq!((wisdom.len(), wisdom.warnings()), (2, vec![]));
            fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).unwrap();
            assert_eq!(wisdom.keep_blob("b", b"x"), Ok(()));
        }
        other => panic!("no role {other}"),
    }
}

#[test]
fn three_thousand_segments_are_compacted_by_a_process_that_may_open_few_files() {
    let dir = tempfile::tempdir().unwrap();
    leave(dir.path(), 3000);
    let compacts = child("compacts", dir.path());
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 256; exec \"$@\"", "sh"])
        .arg(compacts.get_program())
        .args(compacts.get_args());
    for (name, value) in compacts.get_envs() {
        if let Some(value) = value {
            limited.env(name, value);
        }
    }
    assert!(limited.stdout(Stdio::null()).status().unwrap().success());
    assert!(segments(dir.path()) <= 2, "{} segments", segments(dir.path()));
    let wisdom = Wisdom::open(dir.path());
    assert_eq!((wisdom.len(), wisdom.warnings()), (3001, vec![]));
}

#[test]
fn eight_processes_on_one_directory_lose_nothing_and_everyone_afterwards_knows_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..8).map(|_| child("goes round", dir.path()).spawn().unwrap()).collect();
    let ids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let wisdom = Wisdom::open(dir.path());
    let facts = wisdom.all_facts();
    let kernels: std::collections::BTreeSet<&str> = facts.iter().map(|fact| &*fact.key.kernel).collect();
    for id in ids {
        for round in 0..rounds().min(KEYS) {
            assert!(kernels.contains(&*format!("{id}-{round}")), "{id}-{round} is lost");
            assert!(
                round % 50 != 20 || kernels.contains(&*format!("{id}-{round}-guest")),
                "a guest's is lost"
            );
        }
    }
    let samples = |kernel: &str| {
        let its = facts.iter().filter(|fact| fact.key.kernel == kernel);
        its.filter_map(|fact| fact.outcome.stats()).map(|stats| stats.n).sum::<u64>()
    };
    assert_eq!((samples("shared"), samples("live")), (8 * u64::from(rounds()), 8 * u64::from(rounds())));
    assert_eq!((wisdom.warnings(), wisdom.died("cpu", "k", "1")), (vec![], Vec::<String>::new()));
    // Compacted or not, whoever opens it knows the same, and so decides the same.
    for compacts in [false, true] {
        let other = Wisdom::open(dir.path());
        if compacts {
            assert_eq!(other.compact().error, None);
        }
        let other = Wisdom::open(dir.path());
        assert_eq!((other.all_facts(), other.verdicts()), (facts.clone(), wisdom.verdicts()));
    }
}

#[test]
fn a_directory_that_vanishes_or_becomes_a_file_is_one_warning_and_gets_everything_once_it_is_back() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("wisdom");
    let wisdom = Wisdom::open(&dir);
    wisdom.record(key("a"), timed(1.0));
    let live = FactKey { condition: "live".into(), ..key("live") };
    (0..3).for_each(|_| wisdom.record(live.clone(), timed(1.0)));
    wisdom.flush();
    // Gone: it is made again, with everything of ours.
    fs::remove_dir_all(&dir).unwrap();
    wisdom.record(key("b"), timed(1.0));
    wisdom.flush();
    assert_eq!((Wisdom::open(&dir).len(), wisdom.warnings()), (3, vec![]));
    // Something else in its place: memory goes on alone.
    fs::remove_dir_all(&dir).unwrap();
    fs::write(&dir, "in the way").unwrap();
    for kernel in ["c", "d"] {
        wisdom.record(key(kernel), timed(1.0));
        wisdom.flush();
    }
    assert_eq!((wisdom.len(), wisdom.reload()), (5, 0));
    assert!(wisdom.refused().is_some());
    let kinds: Vec<WarningKind> = wisdom.warnings().iter().map(|warning| warning.kind).collect();
    assert!(kinds.contains(&WarningKind::NotWritable) && kinds.len() <= 2, "{:?}", wisdom.warnings());
    fs::remove_file(&dir).unwrap();
    wisdom.flush();
    assert_eq!((wisdom.refused(), Wisdom::open(&dir).len()), (None, 5));
    drop(wisdom);
    let facts = Wisdom::open(&dir).all_facts();
    let live = facts.iter().find(|fact| fact.key == live).unwrap();
    assert_eq!(live.outcome.stats().unwrap().n, 3);
}

#[test]
fn a_directory_that_becomes_read_only_while_the_program_runs_costs_nothing_that_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = child("loses its disk", dir.path());
    // Permissions do not bind root: the child becomes nobody, and the directory nobody's.
    if fs::metadata(dir.path()).unwrap().uid() == 0 {
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
        command.uid(65534).gid(65534).current_dir("/");
    }
    assert!(command.status().unwrap().success());
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(wisdom.len(), 2);
}
