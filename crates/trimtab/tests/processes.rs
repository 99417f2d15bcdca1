//! Real processes on one wisdom directory: this test program starts itself again with a role in its environment.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its processes has failed")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::{Negates, kept_in};
use trimtab::advanced::cpu::Isolation;
use trimtab::advanced::plan::{Reason, TuneRequest};
use trimtab::advanced::tune::Rules;
use trimtab::advanced::wisdom::Wisdom;
use trimtab::{Bytes, Nanos, Patience, Problem};
use trimtab::{Runtime, Tensor};
use trimtab_testing::variable;

const ROLE: &str = "TRIMTAB_TEST_ROLE";
const DIR: &str = "TRIMTAB_TEST_DIR";

fn runtime(dir: &Path) -> Runtime {
    kept_in(dir).build().unwrap()
}

/// A user's kernel that ends the process instead of computing, or only counts that it was started.
fn deadly(dir: &Path, aborts: fn() -> bool, patience: Patience) -> (Runtime, Arc<AtomicU32>) {
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let first = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        if aborts() {
            std::process::abort();
        }
        Ok(())
    };
    // So little to do that it is tried first.
    let kernel = Negates { name: "user.deadly", bytes: |_| Bytes(1), first };
    (kept_in(dir).patience(patience).isolate(Isolation::Off).kernel(kernel).build().unwrap(), starts)
}

fn problems(of: &str) -> Vec<Problem> {
    let sizes: &[u32] = if of == "evens" { &[2, 4, 16, 64] } else { &[3, 5, 17, 64] };
    sizes.iter().map(|size| format!("elementwise.add:f32:{size}0").parse().unwrap()).collect()
}

/// Not a test of its own: what the children do. Without a role it does nothing.
#[test]
fn a_child_plays_its_role() {
    let (Some(role), Some(dir)) = (variable(ROLE), variable(DIR)) else { return };
    let dir = Path::new(&dir);
    match role.as_str() {
        "evens" | "odds" => {
            let rt = runtime(dir);
            for problem in problems(&role) {
                assert_eq!(rt.try_problem(&problem).unwrap().check, Ok(()));
            }
        }
        "measures for ever" => {
            let rt = runtime(dir);
            for size in 1.. {
                let problem: Problem = format!("reduce.sum:f32:{size}").parse().unwrap();
                rt.plan(&problem).unwrap();
                rt.planner().drain();
                println!("knows {problem}");
            }
        }
        "aborts when measured"
        | "aborts when checked"
        | "aborts in a live call"
        | "aborts in an expression"
        | "aborts in its third call" => {
            let live = || std::thread::current().name() != Some("trimtab-bench");
            let (aborts, patience): (fn() -> bool, _) = match role.as_str() {
                "aborts when measured" => (|| true, Patience::Measure),
                "aborts when checked" => (|| true, Patience::Estimate),
                "aborts in its third call" => {
                    static CALLS: AtomicU32 = AtomicU32::new(0);
                    let third = || {
                        std::thread::current().name() != Some("trimtab-bench")
                            && CALLS.fetch_add(1, Ordering::Relaxed) >= 2
                    };
                    (third, Patience::Estimate)
                }
                _ => (live, Patience::Estimate),
            };
            let (rt, _) = deadly(dir, aborts, patience);
            if role == "aborts in its third call" {
                (0..2).for_each(|_| drop(rt.neg(&Tensor::full(&[100], 1.0f32).unwrap())));
            }
            let x = Tensor::full(&[100], 1.0f32).unwrap();
            let _ = match role.as_str() {
                "aborts in an expression" => (-rt.lazy(&x)).eval(),
                _ => rt.neg(&x),
            };
        }
        "is stopped while it measures" => {
            let starts = AtomicU32::new(0);
            let first = move || {
                if starts.fetch_add(1, Ordering::Relaxed) == 0 {
                    let pause = "kill -STOP $PPID; sleep 0.7; kill -CONT $PPID";
                    assert!(Command::new("sh").args(["-c", pause]).status().unwrap().success());
                }
                Ok(())
            };
            let kernel = Negates { name: "user.healthy", bytes: |_| Bytes(1), first };
            let rt = kept_in(dir).kernel(kernel).build().unwrap();
            rt.neg(&Tensor::full(&[100], 1.0f32).unwrap()).unwrap();
            let decision = rt.explain(&"elementwise.neg:f32:100".parse().unwrap()).unwrap();
            let rival = decision.rivals.iter().find(|rival| &*rival.name == "user.healthy").unwrap();
            assert!(rival.estimate().is_some(), "{:?}", rival.standing);
        }
        "fails" => {
            let first = || Err(trimtab::advanced::core::LaunchError::Kernel("no".into()));
            let kernel = Negates { name: "user.fails", bytes: |_| Bytes(1), first };
            let rt = Runtime::builder().wisdom_in_memory().kernel(kernel).build().unwrap();
            rt.neg(&Tensor::full(&[100], 1.0f32).unwrap()).unwrap();
        }
        "reads the environment" => match Runtime::new() {
            Ok(rt) => {
                let place = rt.wisdom().dir().map_or("nowhere".to_string(), |dir| dir.display().to_string());
                let settings = rt.planner().settings();
                println!(
                    "mode {} budget {} wisdom {place} terms {}",
                    settings.patience,
                    settings.budget,
                    rt.terms()
                );
            }
            Err(error) => println!("error: {error}"),
        },
        other => panic!("no role {other}"),
    }
}

fn child(role: &str, dir: &Path) -> Command {
    let mut command = trimtab_testing::child("a_child_plays_its_role").unwrap();
    command.env(ROLE, role).env(DIR, dir).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

fn succeeds(child: Child) -> bool {
    child.wait_with_output().unwrap().status.success()
}

#[test]
fn two_processes_that_measure_at_once_leave_what_both_learned() {
    let dir = tempfile::tempdir().unwrap();
    let children = ["evens", "odds"].map(|role| child(role, dir.path()).spawn().unwrap());
    assert!(children.into_iter().all(succeeds));
    let rt = runtime(dir.path());
    assert_eq!(rt.wisdom().warnings(), []);
    for problem in problems("evens").into_iter().chain(problems("odds")) {
        let facts = rt.wisdom().all_facts();
        assert!(facts.iter().any(|fact| fact.key.problem == problem.to_string()), "{problem}");
        // The third process chooses without measuring.
        rt.plan(&problem).unwrap();
        let decision = rt.explain(&problem).unwrap();
        assert_eq!((decision.reason, decision.runs), (Reason::Remembered, 0), "{problem}");
    }
}

#[test]
fn a_process_killed_while_measuring_leaves_what_it_had_learned() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = child("measures for ever", dir.path()).spawn().unwrap();
    let mut known = Vec::new();
    for line in BufReader::new(process.stdout.take().unwrap()).lines() {
        if let Some((_, problem)) = line.unwrap().split_once("knows ") {
            known.push(problem.to_string());
        }
        if known.len() == 4 {
            break;
        }
    }
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(known.len(), 4);
    let rt = runtime(dir.path());
    assert_eq!(rt.warnings(), [0; 0].map(|_| String::new()));
    for text in &known {
        let problem: Problem = text.parse().unwrap();
        assert_eq!(rt.try_problem(&problem).unwrap().check, Ok(()));
        let decision = rt.explain(&problem).unwrap();
        assert_eq!((decision.reason, decision.runs), (Reason::Remembered, 0), "{text}");
    }
}

/// Two processes die of a kernel; from then on it is out, and says why.
fn dies_twice(role: &str, patience: Patience) {
    dies(role, patience, 2, "2 processes died");
}

/// One process dies of a kernel in a live call, by a signal that is seen; from then on it is out, and says why.
fn dies_once(role: &str, patience: Patience) {
    dies(role, patience, 1, "signal 6 ended a process in a live call");
}

fn dies(role: &str, patience: Patience, times: u32, says: &str) {
    let dir = tempfile::tempdir().unwrap();
    let dies = || !succeeds(child(role, dir.path()).spawn().unwrap());
    (0..times).for_each(|nth| assert!(dies(), "{role}: child {nth} was to die"));
    assert!(!dies(), "{role}: one more process dies of the same");
    let x = Tensor::full(&[100], 1.0f32).unwrap();
    let problem: Problem = "elementwise.neg:f32:100".parse().unwrap();
    // The same kernel, which would work by now: it is not trusted, and the call is answered by another.
    for _ in 0..2 {
        let (rt, starts) = deadly(dir.path(), || false, patience);
        assert_eq!(rt.neg(&x).unwrap(), Tensor::full(&[100], -1.0).unwrap());
        assert_eq!(starts.load(Ordering::Relaxed), 0, "{role}");
        let decision = rt.planner().survey(&rt.explain(&problem).unwrap());
        assert_ne!(&*decision.winner().unwrap().name, "user.deadly");
        let rival = decision.rivals.iter().find(|rival| &*rival.name == "user.deadly").unwrap();
        let why = rival.out_because().unwrap();
        assert!(why.contains(says), "{why}");
        assert!(times == 1 || why.contains("forget --kernel user.deadly"), "{why}");
    }
    // Forgetting lifts it.
    let (rt, starts) = deadly(dir.path(), || false, patience);
    assert!(rt.forget(&trimtab::advanced::wisdom::Filter::kernel("user.deadly")) > 0);
    let decision = rt.planner().survey(&rt.explain(&problem).unwrap());
    let rival = decision.rivals.iter().find(|rival| &*rival.name == "user.deadly").unwrap();
    assert!(rival.estimate().is_some(), "{role}: {rival:?}");
    let request = TuneRequest {
        rules: Rules::default(),
        ..TuneRequest::new(Patience::Exhaustive, Nanos::from_millis(2_000))
    };
    rt.tune(&problem, &request, &mut |_| ()).unwrap();
    assert!(starts.load(Ordering::Relaxed) > 0, "{role}");
}

#[test]
fn a_kernel_that_ends_processes_while_it_is_measured_is_out_after_the_second() {
    dies_twice("aborts when measured", Patience::Measure);
}

#[test]
fn a_kernel_that_ends_processes_while_it_is_checked_is_out_after_the_second() {
    dies_twice("aborts when checked", Patience::Estimate);
}

#[test]
fn a_kernel_that_ends_a_process_in_a_live_call_is_out_in_the_next() {
    dies_once("aborts in a live call", Patience::Estimate);
    dies_once("aborts in its third call", Patience::Estimate);
}

#[cfg(target_os = "linux")]
#[test]
fn a_kernel_that_would_end_the_process_ends_a_child_of_it_and_is_out() {
    let dir = tempfile::tempdir().unwrap();
    let problem: Problem = "elementwise.neg:f32:100".parse().unwrap();
    for patience in [Patience::Measure, Patience::Estimate] {
        let kernel = Negates { name: "user.deadly", bytes: |_| Bytes(1), first: || std::process::abort() };
        let rt = kept_in(dir.path()).patience(patience).kernel(kernel).build().unwrap();
        let x = Tensor::full(&[100], 1.0f32).unwrap();
        assert_eq!(rt.neg(&x).unwrap(), Tensor::full(&[100], -1.0).unwrap());
        let decision = rt.planner().survey(&rt.explain(&problem).unwrap());
        let its = decision.rivals.iter().find(|rival| &*rival.name == "user.deadly").unwrap();
        let why = its.out_because().unwrap();
        assert!(why.contains("SIGABRT ended the child process"), "{why}");
    }
}

#[test]
fn a_kernel_that_ends_a_process_in_an_expression_is_out_in_the_next() {
    dies_once("aborts in an expression", Patience::Estimate);
}

#[cfg(unix)]
#[test]
fn a_process_that_is_stopped_for_a_while_bars_nobody() {
    let dir = tempfile::tempdir().unwrap();
    assert!(succeeds(child("is stopped while it measures", dir.path()).spawn().unwrap()));
    let late = |fact: &trimtab::advanced::wisdom::Fact| {
        matches!(fact.outcome, trimtab::advanced::wisdom::Outcome::Failed { .. })
    };
    let facts = Wisdom::open(dir.path()).all_facts();
    assert!(!facts.iter().any(late), "{facts:?}");
}

#[test]
fn a_kernel_that_fails_is_told_where_warnings_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let says = |log: &str| {
        let mut command = child("fails", dir.path());
        let output = command.env("TRIMTAB_LOG", log).stderr(Stdio::piped()).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let told = says("on");
    assert!(
        told.contains("trimtab: elementwise.neg:f32:100: user.fails") && told.contains("is out: launch"),
        "{told}"
    );
    assert!(!says("off").contains("user.fails"));
}

#[test]
fn a_kernel_that_works_again_after_one_death_is_measured_again_after_all_others() {
    let dir = tempfile::tempdir().unwrap();
    assert!(!succeeds(child("aborts when measured", dir.path()).spawn().unwrap()));
    let (rt, starts) = deadly(dir.path(), || false, Patience::Measure);
    rt.neg(&Tensor::full(&[100], 1.0f32).unwrap()).unwrap();
    assert!(starts.load(Ordering::Relaxed) > 0);
    let decision = rt.explain(&"elementwise.neg:f32:100".parse().unwrap()).unwrap();
    let rival = decision.rivals.iter().find(|rival| &*rival.name == "user.deadly").unwrap();
    assert!(rival.estimate().is_some(), "{:?}", rival.standing);
}

#[test]
fn a_process_is_set_up_by_its_environment_and_wrong_values_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let says = |variables: &[(&str, &str)]| {
        let mut command = child("reads the environment", dir.path());
        command.env("TRIMTAB_WISDOM_DIR", dir.path()).envs(variables.iter().copied());
        let Output { stdout, status, .. } = command.output().unwrap();
        assert!(status.success());
        String::from_utf8(stdout).unwrap()
    };
    let plain = says(&[]);
    assert!(plain.contains("mode measure") && plain.contains(dir.path().to_str().unwrap()), "{plain}");
    for off in ["off", "Off", "0", "false"] {
        let said = says(&[("TRIMTAB_TUNE", off), ("TRIMTAB_WISDOM_DIR", off)]);
        assert!(said.contains("mode off") && said.contains("wisdom nowhere"), "{said}");
    }
    let said = says(&[("TRIMTAB_TUNE", "Exhaustive"), ("TRIMTAB_BUDGET", "2s"), ("TRIMTAB_DEVICE", "CPU")]);
    assert!(said.contains("mode exhaustive budget 2.00 s"), "{said}");
    for (variable, value, part) in [
        ("TRIMTAB_TUNE", "fast", "off (also 0, false), estimate, measure, exhaustive"),
        ("TRIMTAB_THREADS", "none", "1 to"),
        ("TRIMTAB_DEVICE", "gpu9", "auto, cpu"),
        ("TRIMTAB_BUDGET", "soon", "40ms"),
    ] {
        let said = says(&[(variable, value)]);
        assert!(said.contains("error: ") && said.contains(value) && said.contains(part), "{said}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_costs_a_warning_and_no_call() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a file");
    std::fs::write(&file, "not a directory").unwrap();
    let rt = runtime(&file);
    let ones = Tensor::full(&[9, 9], 1.0f32).unwrap();
    assert_eq!(rt.matmul(&ones, &ones).unwrap(), Tensor::full(&[9, 9], 9.0).unwrap());
    rt.planner().drain();
    assert!(!rt.wisdom().warnings().is_empty());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "not a directory");
    assert_eq!(Wisdom::open(dir.path()).len(), 0);
}
