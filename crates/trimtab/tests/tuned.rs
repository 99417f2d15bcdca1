//! `rt.tuned`: settings of a caller's own code, found while it runs and remembered.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use trimtab::advanced::study::{NamedPoint, Setting};
use trimtab::{Error, Runtime};

fn number(settings: &NamedPoint, name: &str) -> u64 {
    settings.get(name).and_then(Setting::number).map_or(0, |number| number as u64)
}

/// Work that takes longer with a larger setting; the answer is the same.
fn work(settings: &NamedPoint) -> u64 {
    let rounds = number(settings, "n");
    (0..rounds * 500).fold(0u64, |sum, at| std::hint::black_box(sum.wrapping_add(at) ^ at)) & 1
}

#[test]
fn the_first_calls_try_settings_and_later_ones_use_the_best_also_in_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = || Runtime::builder().device("cpu").wisdom_dir(dir.path()).build().unwrap();
    let tuned =
        |runtime: &Runtime| runtime.tuned("work").parameter("n=1..12").evaluations(12).build().unwrap();
    let first = tuned(&runtime());
    let calls = AtomicUsize::new(0);
    for _ in 0..30 {
        let answer = first.run(&[64], |settings| {
            calls.fetch_add(1, Ordering::Relaxed);
            work(settings)
        });
        assert!(answer <= 1);
    }
    assert_eq!((calls.load(Ordering::Relaxed), first.tried(&[64])), (30, 12), "each call runs once");
    let best = first.best(&[64]);
    assert!(best.is_some());
    drop(first);
    let later = tuned(&runtime());
    assert_eq!(later.tried(&[64]), 12, "remembered");
    assert_eq!(later.best(&[64]), best);
    assert_eq!(later.tried(&[128]), 0, "other sizes are searched by themselves");
}

#[test]
fn a_budget_of_time_ends_the_search_in_all_processes_together() {
    let dir = tempfile::tempdir().unwrap();
    let run = |budget: Duration, calls: usize| {
        let runtime = Runtime::builder().device("cpu").wisdom_dir(dir.path()).build().unwrap();
        let tuned = runtime.tuned("work").parameter("n=3..12").evaluations(6).budget(budget).build().unwrap();
        let mut seen = Vec::new();
        for _ in 0..calls {
            tuned.run(&[64], |settings| {
                seen.push(number(settings, "n"));
                work(settings)
            });
        }
        (tuned.tried(&[64]), seen)
    };
    // Nothing may be tried: the first settings serve.
    assert_eq!(run(Duration::ZERO, 3), (0, vec![3; 3]));
    let (tried, seen) = run(Duration::from_nanos(1), 9);
    assert!(tried == 1 && seen.iter().all(|n| *n == seen[0]), "any call takes longer: {seen:?}");
    assert_eq!(run(Duration::from_nanos(1), 9).0, 1, "what was spent is remembered");
    assert_eq!(run(Duration::from_secs(3600), 9).0, 6, "the number of settings ends it too");
}

#[test]
fn a_panic_reaches_the_caller_and_its_settings_are_not_the_best() {
    let runtime = Runtime::builder().device("cpu").wisdom_in_memory().build().unwrap();
    let tuned = runtime.tuned("panics").parameter("n=1..4").build().unwrap();
    let mut panics = 0;
    for _ in 0..20 {
        let call =
            || tuned.run(&[], |settings| if number(settings, "n") == 1 { panic!("on purpose") } else { 5 });
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
            Ok(answer) => assert_eq!(answer, 5),
            Err(_) => panics += 1,
        }
    }
    assert_eq!(panics, 1, "tried once, then left alone");
    assert_ne!(tuned.best(&[]).map(|best| number(&best, "n")), Some(1));
}

#[test]
fn mistakes_are_told_when_it_is_built() {
    let runtime = Runtime::builder().device("cpu").wisdom_in_memory().build().unwrap();
    let reason =
        |built: Result<trimtab::Tuned, Error>| built.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(reason(runtime.tuned("a").build()).contains("there is no parameter"));
    assert!(reason(runtime.tuned("a").parameter("n=8..1").build()).contains("wrong way round"));
    assert!(
        reason(runtime.tuned("a").parameter("n=1,2").constraint("n > 5").build()).contains("no combination")
    );
    assert!(reason(runtime.tuned("../a").parameter("n=1,2").build()).contains("letters, digits"));
}
