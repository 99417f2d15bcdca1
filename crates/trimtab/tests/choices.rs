//! Choosing among closures: the fastest gets the calls, one that hangs or disagrees does not, and it is remembered.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{fresh, kept_in};
use trimtab::Runtime;
use trimtab::core::Nanos;
use trimtab::plan::Reason;
use trimtab::tune::Stopwatch;

/// Time for a race: a run may take a quarter of it, which only a run that really hangs does even on a loaded machine.
const BUDGET: Nanos = Nanos::from_millis(2_000);
/// What a closure that hangs would take if the test did not end.
const TEN_SECONDS: Duration = Duration::from_secs(10);

fn runtime() -> Runtime {
    fresh().budget(BUDGET).build().unwrap()
}

fn spin(time: Nanos) {
    let watch = Stopwatch::start();
    while watch.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Four closures that do the same in very different times, given in that order.
fn race_of_closures(order: [usize; 4], compared: bool) {
    let (let_go, wait) = channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let counts: Arc<[AtomicU32; 4]> = Arc::default();
    let rt = runtime();
    let name = |way: usize| ["10 s", "50 us", "20 us", "1 us"][way];
    let mut choice = rt.choose::<u64, u64>("four");
    for way in order {
        let counts = Arc::clone(&counts);
        let wait = Arc::clone(&wait);
        choice = choice.option(name(way), move |x| {
            counts[way].fetch_add(1, Ordering::Relaxed);
            match way {
                0 => {
                    let _ = wait.lock().unwrap().recv_timeout(TEN_SECONDS);
                }
                1 => spin(Nanos(50_000)),
                2 => spin(Nanos(20_000)),
                _ => spin(Nanos(1_000)),
            }
            x + 1
        });
    }
    if compared {
        choice = choice.agree(|a, b| a == b);
    }
    let choice = choice.build().unwrap();
    let watch = Stopwatch::start();
    for call in 0..20 {
        assert_eq!(choice.run(&[8], call).unwrap(), call + 1);
    }
    let learning = watch.elapsed();
    let before = counts[3].load(Ordering::Relaxed);
    for call in 0..200 {
        assert_eq!(choice.run(&[8], call).unwrap(), call + 1);
    }
    let fastest = counts[3].load(Ordering::Relaxed) - before;
    let explained = choice.explain(&[8]).unwrap();
    assert!(fastest >= 190, "{fastest} of 200 went to the fastest ({order:?}): {explained:?}");
    assert!(counts[0].load(Ordering::Relaxed) <= 1, "the slowest ran {:?} times ({order:?})", counts[0]);
    assert_eq!(choice.chosen(&[8]).unwrap(), Some("1 us"));
    assert!(learning < Nanos::from_millis(5_000), "{learning}");
    drop(let_go);
}

#[test]
fn of_four_closures_the_fastest_gets_the_calls_and_the_slowest_runs_at_most_once() {
    race_of_closures([0, 1, 2, 3], false);
    race_of_closures([3, 2, 1, 0], false);
}

#[test]
fn of_four_closures_that_are_compared_the_fastest_gets_the_calls() {
    race_of_closures([1, 0, 2, 3], true);
    race_of_closures([3, 2, 0, 1], true);
}

#[test]
fn a_first_closure_that_takes_ten_seconds_does_not_keep_the_others_from_being_compared() {
    race_of_closures([0, 1, 2, 3], true);
}

#[test]
fn a_closure_that_disagrees_is_never_chosen_and_explain_says_why() {
    let rt = runtime();
    let choice = rt
        .choose::<u64, u64>("liar")
        .option("honest", |x| {
            spin(Nanos(30_000));
            x * 2
        })
        .option("liar", |x| x * 2 + 1)
        .option("panics", |_| std::panic::resume_unwind(Box::new("no")))
        .agree(|a, b| a == b)
        .build()
        .unwrap();
    for x in 0..50 {
        assert_eq!(choice.run(&[1], x).unwrap(), x * 2);
    }
    assert_eq!(choice.chosen(&[1]).unwrap(), Some("honest"));
    let decision = choice.explain(&[1]).unwrap();
    let why = |name: &str| {
        decision.rivals.iter().find(|rival| rival.name.ends_with(name)).and_then(|rival| rival.out_because())
    };
    assert!(why("liar").unwrap().contains("disagrees with the first option"), "{decision:?}");
    assert!(why("panics").unwrap().contains("panicked"), "{decision:?}");
}

#[test]
fn where_the_first_closure_gives_no_answer_two_others_must_agree() {
    let run = |others: [u64; 3]| {
        let (let_go, wait) = channel::<()>();
        let (wait, starts) = (Mutex::new(wait), AtomicU32::new(0));
        let rt = runtime();
        let mut choice = rt.choose::<u64, u64>("hung").option("hangs once", move |x| {
            if starts.fetch_add(1, Ordering::Relaxed) == 0 {
                let _ = wait.lock().unwrap().recv_timeout(TEN_SECONDS);
            }
            x
        });
        for (name, more) in ["a", "b", "c"].into_iter().zip(others) {
            choice = choice.option(name, move |x| x + more);
        }
        let choice = choice.agree(|a, b| a == b).build().unwrap();
        let answer = choice.run(&[1], 0).unwrap();
        drop(let_go);
        (answer, choice.chosen(&[1]).unwrap().map(str::to_string))
    };
    let (answer, chosen) = run([9, 0, 0]);
    assert!(answer == 0 && ["b", "c"].map(Some).contains(&chosen.as_deref()), "{answer} {chosen:?}");
    let (answer, chosen) = run([7, 8, 9]);
    assert_eq!((answer, chosen.filter(|name| name != "hangs once")), (0, None));
}

#[test]
fn a_choice_is_remembered_by_the_next_runtime_and_a_new_version_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let run = |version: &str, fast: Nanos| {
        let rt = kept_in(dir.path()).budget(BUDGET).build().unwrap();
        let choice = rt
            .choose::<u64, u64>("kept")
            .option("steady", |x| {
                spin(Nanos(40_000));
                x
            })
            .option("changes", move |x| {
                spin(fast);
                x
            })
            .version(version)
            .build()
            .unwrap();
        assert_eq!(choice.run(&[3], 7).unwrap(), 7);
        let decision = choice.explain(&[3]).unwrap();
        (choice.chosen(&[3]).unwrap().unwrap().to_string(), decision.reason, decision.runs)
    };
    let (name, reason, runs) = run("1", Nanos(1_000));
    assert_eq!((name.as_str(), reason, runs > 0), ("changes", Reason::Raced, true));
    assert_eq!(run("1", Nanos(1_000)), ("changes".to_string(), Reason::Remembered, 0));
    let (name, reason, runs) = run("2", Nanos(400_000));
    assert_eq!((name.as_str(), reason, runs > 0), ("steady", Reason::Raced, true));
}

#[test]
fn choices_without_options_or_with_bad_names_are_errors() {
    let rt = runtime();
    let text = rt.choose::<u8, u8>("empty").build().unwrap_err().to_string();
    assert!(text.contains("there are no options"), "{text}");
    let twice = rt.choose::<u8, u8>("twice").option("a", |x| x).option("a", |x| x).build();
    assert!(twice.unwrap_err().to_string().contains("two options are named `a`"));
    let name = rt.choose::<u8, u8>("../x y").option("a", |x| x).build();
    assert!(name.unwrap_err().to_string().contains("ASCII letters"));
    let one = rt.choose::<u8, u8>("one").option("a", |x| x).build().unwrap();
    assert!(one.run(&[1, 2, 3, 4, 5], 1).unwrap_err().to_string().contains("at most 4 sizes"));
    assert_eq!(one.run(&[], 1).unwrap(), 1);
}
