//! Real processes on one directory: this test program starts itself again with a role in its environment.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use trimtab_testing::variable;
use trimtab_wisdom::{FactKey, Outcome, Stats, Wisdom};

const ROLE: &str = "TRIMTAB_WISDOM_TEST_ROLE";
const DIR: &str = "TRIMTAB_WISDOM_TEST_DIR";

fn key(kernel: String) -> FactKey {
    FactKey { device: "cpu".into(), kernel, problem: "matmul:f32:8x8x8".into(), ..FactKey::default() }
}

fn timed() -> Outcome {
    Outcome::Timed(Stats::single(1.0))
}

/// Not a test of its own: what the children do. Without a role it does nothing.
#[test]
fn a_child_plays_its_role() {
    let (Some(role), Some(dir)) = (variable(ROLE), variable(DIR)) else { return };
    let wisdom = Wisdom::open(Path::new(&dir));
    match role.as_str() {
        "writes 1000" => {
            for n in 0..1000 {
                wisdom.record(key(format!("{}-{n}", std::process::id())), timed());
                if n % 7 == 0 {
                    wisdom.flush();
                }
            }
        }
        "writes for ever" => {
            for n in 0.. {
                wisdom.record(key(format!("k{n}")), timed());
                wisdom.flush();
                println!("wrote {}", n + 1);
            }
        }
        "crashes" => {
            wisdom.record(key("measured before".into()), timed());
            wisdom.intend("cpu", "bad", "1", "mc=8");
            std::process::abort();
        }
        "cannot write" => {
            assert_eq!(wisdom.len(), 1);
            wisdom.record(key("new".into()), timed());
            wisdom.flush();
            wisdom.flush();
            assert_eq!(wisdom.len(), 2);
            let warnings = wisdom.warnings();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert!(warnings[0].message.contains("make it writable"), "{}", warnings[0]);
        }
        "compacts" => {
            for _ in 0..20 {
                wisdom.compact();
                wisdom.reload();
            }
        }
        other => panic!("no role {other}"),
    }
}

fn child(role: &str, dir: &Path) -> Command {
    let mut command = trimtab_testing::child("a_child_plays_its_role").unwrap();
    command.env(ROLE, role).env(DIR, dir).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn finish(child: Child) -> bool {
    child.wait_with_output().unwrap().status.success()
}

#[test]
fn two_processes_that_write_a_thousand_facts_each_leave_two_thousand() {
    let dir = tempfile::tempdir().unwrap();
    let children = [(); 2].map(|()| child("writes 1000", dir.path()).spawn().unwrap());
    assert!(children.into_iter().all(finish));
    let wisdom = Wisdom::open(dir.path());
    assert_eq!((wisdom.len(), wisdom.warnings()), (2000, vec![]));
}

#[test]
fn writers_compactors_and_readers_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Dead segments to fight over.
    for n in 0..20 {
        Wisdom::open(dir.path()).record(key(format!("old{n}")), timed());
    }
    let writers: Vec<Child> = (0..3).map(|_| child("writes 1000", dir.path()).spawn().unwrap()).collect();
    let compactors: Vec<Child> = (0..3).map(|_| child("compacts", dir.path()).spawn().unwrap()).collect();
    let reader = Wisdom::open(dir.path());
    let mut seen = reader.len();
    for _ in 0..50 {
        reader.reload();
        assert!(reader.len() >= seen);
        seen = reader.len();
        assert!(Wisdom::open(dir.path()).len() >= 20, "what was there before is there at every moment");
    }
    assert!(writers.into_iter().chain(compactors).all(finish));
    reader.reload();
    assert_eq!((reader.len(), reader.warnings()), (3020, vec![]));
    assert_eq!(Wisdom::open(dir.path()).len(), 3020);
}

#[test]
fn a_process_killed_while_writing_loses_at_most_its_last_line() {
    for acknowledged in [1, 50, 333] {
        let dir = tempfile::tempdir().unwrap();
        let mut process = child("writes for ever", dir.path()).spawn().unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let count =
            |line: &str| line.split("wrote ").nth(1).and_then(|number| number.trim().parse::<usize>().ok());
        let mut wrote = 0;
        while wrote < acknowledged {
            wrote = count(&output.next().unwrap().unwrap()).unwrap_or(wrote);
        }
        process.kill().unwrap();
        process.wait().unwrap();
        // What it still said before it died; the last word may be cut off.
        for line in output.map_while(Result::ok) {
            wrote = count(&line).filter(|&number| number == wrote + 1).unwrap_or(wrote);
        }
        let wisdom = Wisdom::open(dir.path());
        assert!(wisdom.len() == wrote || wisdom.len() == wrote + 1, "{} of {wrote}", wisdom.len());
    }
}

#[test]
fn a_process_that_dies_in_a_first_run_leaves_the_point_and_what_it_measured() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!finish(child("crashes", dir.path()).spawn().unwrap()));
    let wisdom = Wisdom::open(dir.path());
    assert_eq!(wisdom.died("cpu", "bad", "1"), ["mc=8"]);
    assert_eq!(wisdom.len(), 1);
}

#[cfg(unix)]
#[test]
fn a_read_only_directory_is_read_and_new_facts_stay_in_memory() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    let allow = |mode| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    // Shared on purpose, or nobody but its owner could read what is written to it.
    allow(0o2755);
    Wisdom::open(dir.path()).record(key("old".into()), timed());
    allow(0o2555);
    let mut command = child("cannot write", dir.path());
    // Permissions do not bind root: the child becomes nobody.
    if std::fs::metadata(dir.path()).unwrap().uid() == 0 {
        command.uid(65534).gid(65534).current_dir("/");
    }
    assert!(finish(command.spawn().unwrap()));
    allow(0o2755);
    assert_eq!(Wisdom::open(dir.path()).len(), 1);
}
