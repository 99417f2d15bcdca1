//! Choosing among closures: the fastest gets the calls, one that hangs or disagrees does not, and it is remembered.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use support::{fresh, kept_in};
use trimtab::advanced::plan::Reason;
use trimtab::advanced::tune::Stopwatch;
use trimtab::{Choice, Runtime};
use trimtab::{Nanos, Patience};

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

/// Sixty calls at the default budget of closures that take so many microseconds: each call's option, and what the calls took above the
/// fastest.
fn trap(times_us: [u64; 4], compared: bool) -> (Vec<usize>, Nanos) {
    let ran: Arc<Mutex<Vec<usize>>> = Arc::default();
    let rt = fresh().build().unwrap();
    let mut choice = rt.choose::<u64, u64>("trap");
    for (option, us) in times_us.into_iter().enumerate() {
        let ran = Arc::clone(&ran);
        choice = choice.option(&format!("{us} us"), move |x| {
            ran.lock().unwrap().push(option);
            // Long ones leave the processor to others: they may still run when they were given up.
            if us >= 1_000 {
                std::thread::sleep(Duration::from_micros(us))
            } else {
                spin(Nanos(us * 1_000))
            }
            x + 1
        });
    }
    if compared {
        choice = choice.agree(|a, b| a == b);
    }
    let choice = choice.build().unwrap();
    let (mut answered, mut took) = (Vec::new(), Nanos(0));
    for call in 0..60 {
        let watch = Stopwatch::start();
        assert_eq!(choice.run(&[8], call).unwrap(), call + 1);
        took.0 += watch.elapsed().0;
        answered.push(ran.lock().unwrap().last().copied().unwrap());
    }
    let fastest = times_us.iter().min().unwrap() * 1_000;
    (answered, Nanos(took.0 - (60 * fastest).min(took.0)))
}

#[test]
fn closures_of_any_length_are_told_apart_at_the_default_budget() {
    for times in [
        [60_000, 30_000, 20_000, 1_000],
        [3_000_000, 300_000, 100_000, 10_000],
        [10_000, 40_000, 90_000, 700_000],
        [9_000, 8_000, 5_000, 20_000],
        [400, 80, 9, 2],
    ] {
        let (answered, regret) = trap(times, false);
        let fastest = (0..4).min_by_key(|&option| times[option]).unwrap();
        let right = answered[20..].iter().filter(|&&option| option == fastest).count();
        assert!(right >= 38, "{times:?}: {right} of 40, {answered:?}");
        // What planning may cost comes on top.
        let slowest = times.iter().max().unwrap() * 1_000;
        assert!(regret.0 < 3 * slowest + 150_000_000, "{times:?}: {regret}");
    }
}

#[test]
fn long_closures_that_are_compared_are_told_apart_too() {
    let (answered, _) = trap([300_000, 90_000, 40_000, 12_000], true);
    let right = answered[20..].iter().filter(|&&option| option == 3).count();
    assert!(right >= 38, "{right} of 40, {answered:?}");
}

#[test]
fn a_closure_that_becomes_fifty_times_slower_loses_its_calls() {
    let rt = fresh().build().unwrap();
    let slow = Arc::new(AtomicU32::new(1));
    let factor = Arc::clone(&slow);
    let choice = rt
        .choose::<u64, &str>("drifting")
        .option("steady", |_| {
            spin(Nanos(200_000));
            "steady"
        })
        .option("changing", move |_| {
            spin(Nanos(50_000 * u64::from(factor.load(Ordering::Relaxed))));
            "changing"
        })
        .build()
        .unwrap();
    (0..20).for_each(|call| _ = choice.run(&[1], call).unwrap());
    assert_eq!(choice.run(&[1], 0).unwrap(), "changing");
    slow.store(50, Ordering::Relaxed);
    let answers: Vec<&str> = (0..400).map(|call| choice.run(&[1], call).unwrap()).collect();
    assert!(answers[380..].iter().all(|answer| *answer == "steady"), "{:?}", &answers[380..]);
}

#[test]
fn a_closure_that_panics_later_does_so_once() {
    let rt = fresh().build().unwrap();
    let broken = Arc::new(AtomicU32::new(0));
    let breaks = Arc::clone(&broken);
    let choice = rt
        .choose::<u64, u64>("panicking")
        .option("slow", |x| {
            spin(Nanos(500_000));
            x
        })
        .option("quick", move |x| {
            assert_eq!(breaks.load(Ordering::Relaxed), 0, "it breaks later");
            x
        })
        .build()
        .unwrap();
    // The first calls are made where an option can be left behind, and answered by another if it panics; these are over.
    (0..40).for_each(|call| assert_eq!(choice.run(&[1], call).unwrap(), call));
    broken.store(1, Ordering::Relaxed);
    let panicked =
        |call| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| choice.run(&[1], call))).is_err();
    assert_eq!((0..100).filter(|&call| panicked(call)).count(), 1);
    assert_eq!(choice.chosen(&[1]).unwrap(), Some("slow"));
}

/// A closure that waits while it is told to hang, and how many threads do that.
#[derive(Default)]
struct Hanging {
    hangs: Mutex<bool>,
    changed: Condvar,
    inside: AtomicU32,
    most: AtomicU32,
}

impl Hanging {
    fn set(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut hangs = self.hangs.lock().unwrap();
        if *hangs {
            self.most.fetch_max(self.inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            while *hangs {
                hangs = self.changed.wait(hangs).unwrap();
            }
            self.inside.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Two options that hang, between two that do not; what hangs is released in the end.
fn two_that_hang(rt: &Runtime, compared: bool) -> ([Arc<Hanging>; 2], Choice<u64, u64>) {
    let hanging: [Arc<Hanging>; 2] = Default::default();
    let [first, second] = hanging.clone();
    let mut choice = rt
        .choose::<u64, u64>("hanging")
        .option("first", move |x| {
            first.pass();
            x + 1
        })
        .option("steady", |x| {
            spin(Nanos(20_000));
            x + 1
        })
        .option("second", move |x| {
            second.pass();
            x + 1
        })
        .option("slow", |x| {
            spin(Nanos(50_000));
            x + 1
        });
    if compared {
        choice = choice.agree(|a, b| a == b);
    }
    (hanging, choice.build().unwrap())
}

#[test]
fn options_that_hang_leave_one_thread_each() {
    for compared in [false, true] {
        let rt = fresh().longest_call(Nanos::from_millis(300)).build().unwrap();
        let (hanging, choice) = two_that_hang(&rt, compared);
        hanging.iter().for_each(|hanging| hanging.set(true));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let choice = &choice;
                scope.spawn(move || {
                    for call in 0..24 {
                        assert_eq!(choice.run(&[thread, call % 6], call).unwrap(), call + 1);
                    }
                });
            }
        });
        let most = hanging.each_ref().map(|hanging| hanging.most.load(Ordering::Relaxed));
        assert!(most.iter().all(|most| *most <= 1), "{most:?}, compared: {compared}");
        hanging.iter().for_each(|hanging| hanging.set(false));
    }
}

#[test]
fn an_option_that_hangs_later_is_left_behind_and_another_answers() {
    let rt = fresh().build().unwrap();
    let (hanging, choice) = two_that_hang(&rt, false);
    (0..10).for_each(|call| assert_eq!(choice.run(&[1], call).unwrap(), call + 1));
    hanging.iter().for_each(|hanging| hanging.set(true));
    (0..10).for_each(|call| assert_eq!(choice.run(&[1], call).unwrap(), call + 1));
    let most = hanging.each_ref().map(|hanging| hanging.most.load(Ordering::Relaxed));
    assert!(most.iter().sum::<u32>() >= 1 && most.iter().all(|most| *most <= 1), "{most:?}");
    assert!(["steady", "slow"].map(Some).contains(&choice.chosen(&[1]).unwrap()));
    hanging.iter().for_each(|hanging| hanging.set(false));
}

#[test]
fn a_first_option_that_hangs_is_left_behind_where_nothing_is_measured() {
    for patience in [Patience::Off, Patience::Estimate] {
        let rt = fresh().patience(patience).longest_call(Nanos::from_millis(300)).build().unwrap();
        let (hanging, choice) = two_that_hang(&rt, false);
        hanging.iter().for_each(|hanging| hanging.set(true));
        (0..5).for_each(|call| assert_eq!(choice.run(&[1], call).unwrap(), call + 1));
        assert_eq!(hanging[0].most.load(Ordering::Relaxed), 1, "{patience:?}");
        hanging.iter().for_each(|hanging| hanging.set(false));
    }
}
