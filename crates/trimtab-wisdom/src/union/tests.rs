//! The laws of the merge, on lines that collide in every way.

use super::*;
use proptest::prelude::*;
use trimtab_core::FailureKind;

/// Lines from a small world, so that keys, origins and times collide often.
fn lines() -> impl Strategy<Value = Vec<Line>> {
    let text = |words: &'static [&'static str]| proptest::sample::select(words).prop_map(str::to_string);
    let devices = text(&["cpu", "gpu"]);
    let kernels = text(&["a", "b"]);
    let problems = text(&["matmul:f32:1x1x1", "reduce.sum:f32:9"]);
    let origins = text(&["o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7", "o8", "o9"]);
    let at = 1..12u64;
    let fact = (devices.clone(), kernels.clone(), problems.clone(), origins.clone(), at.clone(), 0..4u32)
        .prop_map(|(device, kernel, problem, origin, last_seen_ms, what)| {
            let outcome = match what {
                0 => Outcome::Failed {
                    kind: FailureKind::Wrong,
                    message: format!("off by {}", last_seen_ms % 3),
                },
                n => Outcome::Timed(Stats { n: n.into(), ..Stats::single(0.1 * f64::from(n)) }),
            };
            let key = FactKey { device, kernel, problem, ..FactKey::default() };
            Line::Fact(Fact { key, origin, outcome, last_seen_ms })
        });
    let verdict = (devices.clone(), kernels.clone(), problems.clone(), origins.clone(), at.clone()).prop_map(
        |(device, kernel, problem, origin, last_seen_ms)| {
            Line::Verdict(Verdict { device, kernel, problem, origin, last_seen_ms, ..Verdict::default() })
        },
    );
    let intent = (devices.clone(), kernels.clone(), origins, at.clone(), any::<bool>()).prop_map(
        |(device, kernel, origin, at_ms, done)| {
            let (version, point) = (String::new(), String::new());
            Line::Intent(Intent { device, kernel, version, point, origin, at_ms, done })
        },
    );
    let filter = prop_oneof![
        devices.prop_map(Filter::device),
        kernels.prop_map(Filter::kernel),
        problems.prop_map(Filter::problem),
        Just(Filter::operation("reduce")),
        Just(Filter::everything()),
    ];
    let forget = (filter, 1..6u64).prop_map(|(filter, before_ms)| Line::Forget(Forget { filter, before_ms }));
    proptest::collection::vec(prop_oneof![12 => fact, 2 => verdict, 2 => intent, 1 => forget], 0..60)
}

fn union_of(lines: &[Line]) -> Union {
    let mut union = Union::default();
    for line in lines {
        union.insert(line.clone());
    }
    union
}

fn all_lines(union: &Union) -> Vec<Line> {
    let facts = union.unmerged().map(Line::Fact);
    let verdicts = union.unmerged_verdicts().map(Line::Verdict);
    let intents = union.intents().map(Line::Intent);
    facts.chain(verdicts).chain(intents).chain(union.forgets().map(Line::Forget)).collect()
}

fn joined(a: &Union, b: &Union) -> Union {
    let mut union = a.clone();
    for line in all_lines(b) {
        union.insert(line);
    }
    union
}

/// Forget lines that a later one covers may be dropped at different moments; what they hide is the same.
fn visible(union: &Union) -> (Vec<Fact>, Vec<Fact>, Vec<Verdict>, Vec<Intent>, usize) {
    let unmerged = union.unmerged().collect();
    (
        union.all_facts(),
        unmerged,
        union.unmerged_verdicts().collect(),
        union.intents().collect(),
        union.entries(),
    )
}

proptest! {
    #[test]
    fn the_order_of_lines_does_not_matter(lines in lines(), seed in any::<u64>()) {
        let mut shuffled = lines.clone();
        // A fixed shuffle of its own: the order must come from the case alone.
        let mut state = seed | 1;
        for i in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            shuffled.swap(i, (state >> 33) as usize % (i + 1));
        }
        prop_assert_eq!(visible(&union_of(&lines)), visible(&union_of(&shuffled)));
    }

    #[test]
    fn union_is_commutative_associative_and_idempotent(a in lines(), b in lines(), c in lines()) {
        let [a, b, c] = [a, b, c].map(|lines| union_of(&lines));
        prop_assert_eq!(visible(&joined(&a, &b)), visible(&joined(&b, &a)));
        prop_assert_eq!(visible(&joined(&joined(&a, &b), &c)), visible(&joined(&a, &joined(&b, &c))));
        prop_assert_eq!(visible(&joined(&a, &a)), visible(&a));
        let ab = joined(&a, &b);
        prop_assert_eq!(visible(&joined(&ab, &b)), visible(&ab));
    }

    #[test]
    fn no_key_has_more_than_eight_origins(lines in lines()) {
        let union = union_of(&lines);
        for fact in union.all_facts() {
            prop_assert!(union.seen_by(&fact.key).len() <= MAX_ORIGINS);
        }
        prop_assert_eq!(union.entries(), union.unmerged().count());
    }
}

fn fact(kernel: &str, origin: &str, at_ms: u64, outcome: Outcome) -> Line {
    let key =
        FactKey { device: "cpu".into(), kernel: kernel.into(), problem: "p".into(), ..FactKey::default() };
    Line::Fact(Fact { key, origin: origin.into(), outcome, last_seen_ms: at_ms })
}

#[test]
fn a_failure_counts_until_a_newer_time() {
    let failed = || Outcome::Failed { kind: FailureKind::TimedOut, message: "2 s".into() };
    let timed = || Outcome::Timed(Stats::single(5.0));
    let mut union = union_of(&[fact("k", "a", 1, timed()), fact("k", "b", 2, failed())]);
    assert_eq!(union.facts("cpu", "p")[0].outcome, failed());
    union.insert(fact("k", "c", 3, timed()));
    assert_eq!(union.facts("cpu", "p")[0].outcome.stats().unwrap().n, 2);
    assert_eq!(union.facts("cpu", "p")[0].origin, MERGED);
}

#[test]
fn only_the_newest_eight_origins_count() {
    let lines: Vec<Line> =
        (1..=20).map(|n| fact("k", &format!("o{n}"), n, Outcome::Timed(Stats::single(n as f64)))).collect();
    let merged = union_of(&lines).facts("cpu", "p").remove(0);
    let stats = merged.outcome.stats().unwrap();
    assert_eq!((stats.n, stats.min_ns, merged.last_seen_ms), (8, 13.0, 20));
}

#[test]
fn trimming_drops_the_oldest_and_counts_them() {
    let lines: Vec<Line> = (1..=100)
        .map(|n| fact(&format!("k{n}"), "o", n / 2 + 1, Outcome::Timed(Stats::single(1.0))))
        .collect();
    let mut union = union_of(&lines);
    assert_eq!(union.trim(50), 55);
    assert_eq!((union.len(), union.entries()), (45, 45));
    assert!(union.all_facts().iter().all(|fact| fact.last_seen_ms >= 29), "{:?}", union.all_facts());
    assert_eq!(union.trim(50), 0);
}

fn live(kernel: &str, origin: &str, at_ms: u64, samples: &[f64]) -> Line {
    let key = FactKey { kernel: kernel.to_string(), condition: "live".into(), ..FactKey::default() };
    let outcome = Outcome::Timed(Stats::of(samples).unwrap());
    Line::Fact(Fact { key, origin: origin.to_string(), outcome, last_seen_ms: at_ms })
}

#[test]
fn times_of_a_week_before_the_newest_count_half_and_races_of_a_day_are_one() {
    let week = crate::fact::HALF_LIFE_MS;
    let union = union_of(&[live("k", "a", 1, &[100.0; 8]), live("k", "b", 1 + week, &[200.0; 4])]);
    let [only] = &union.all_facts()[..] else { panic!("one key") };
    let stats = only.outcome.stats().unwrap();
    assert_eq!((stats.n, stats.mean(), only.last_seen_ms), (8, 150.0, 1 + week));
    let raced = |origin, at_ms| fact("k", origin, at_ms, Outcome::Timed(Stats::of(&[100.0; 8]).unwrap()));
    let counted = |apart_ms| {
        let union = union_of(&[raced("a", 1), raced("b", 1 + apart_ms)]);
        union.all_facts()[0].outcome.stats().unwrap().n
    };
    assert_eq!([0, week / 8, week, 2 * week, 9 * week].map(counted), [16, 16, 12, 10, 8]);
}

#[test]
fn facts_from_live_calls_are_bounded_apart_and_never_push_out_what_was_raced() {
    let mut union = Union::default();
    union.insert(fact("raced", "o", 1, Outcome::Timed(Stats::single(1.0))));
    for number in 0..100 {
        union.insert(live(&format!("k{number}"), "o", 10 + number, &[1.0]));
    }
    union.trim_live(100);
    assert_eq!((union.live_entries(), union.len()), (100, 101));
    union.trim_live(50);
    assert_eq!((union.live_entries(), union.entries()), (45, 46));
    let left = union.all_facts();
    assert!(left.iter().any(|fact| fact.key.kernel == "raced"));
    assert!(left.iter().all(|fact| fact.key.kernel == "raced" || fact.last_seen_ms >= 65));
}
