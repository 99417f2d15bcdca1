//! What trying rivals on live calls may cost, whatever times come: never more than was earned, but for one call that broke its bound.

#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use proptest::prelude::*;
use trimtab_core::RandomNumbers;
use trimtab_model::learn::{Ledger, PROBLEM_LIMIT, PROBLEM_SHARE, PROCESS_SHARE, Pick, Policy};

/// Rounding of sums, in nanoseconds.
const ROUNDING: f64 = 1e-3;

fn policies(count: usize, dice: &mut RandomNumbers) -> Vec<Policy> {
    let one = |dice: &mut RandomNumbers| {
        let prior: Vec<f64> = (0..2 + dice.below(6)).map(|_| 1.5 * dice.unit()).collect();
        Policy::new(&prior, 0.02 + 0.5 * dice.unit(), true, dice.bits()).unwrap()
    };
    (0..count).map(|_| one(dice)).collect()
}

/// Times that change without reason, mostly within a factor of ten, at times by `wild`.
fn any_time(dice: &mut RandomNumbers, wild: f64) -> f64 {
    let wild = if dice.below(7) == 0 { 1.0 + wild * dice.unit() } else { 1.0 };
    1e3 * (1.0 + 9.0 * dice.unit()) * wild
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn times_within_their_bounds_never_exceed_a_budget_even_with_calls_under_way_at_once(
        seed in any::<u64>(), problems in 1usize..6, slowest in 0.0f64..1.0,
    ) {
        let mut dice = RandomNumbers::new(seed);
        let mut policies = policies(problems, &mut dice);
        let mut process = Ledger::default();
        let mut explored = 0u64;
        for _ in 0..400 {
            // All problems pick before any of them comes back, in another order.
            let picks: Vec<Pick> = policies.iter_mut().map(|policy| policy.pick_held(&mut process)).collect();
            for at in dice.order(problems) {
                let (policy, pick) = (&mut policies[at], picks[at]);
                let ns = match (pick.explores, policy.bound_ns(pick.rival)) {
                    // The longest, or anything below.
                    (Some(_), Some(bound)) => bound * (1.0 - slowest * dice.unit()),
                    _ => any_time(&mut dice, 1.0),
                };
                explored += u64::from(pick.explores.is_some());
                policy.ran(pick, ns, &mut process);
                prop_assert!(policy.ledger().owed_ns(PROBLEM_SHARE) <= ROUNDING, "{:?}", policy.ledger());
                prop_assert!(process.owed_ns(PROCESS_SHARE) <= ROUNDING, "{process:?}");
            }
        }
        prop_assert_eq!(explored, process.explored);
    }

    #[test]
    fn exploring_never_takes_more_than_three_per_cent_of_a_problems_time_while_no_call_exceeds_its_surprise(
        seed in any::<u64>(), wild in 1.0f64..1e3, checks in any::<bool>(),
    ) {
        let mut dice = RandomNumbers::new(seed);
        let mut policy = policies(1, &mut dice).remove(0);
        let mut process = Ledger::default();
        for _ in 0..6000 {
            let pick = policy.pick_held(&mut process);
            if let Some(rival) = policy.unknown().filter(|_| checks) {
                policy.checked(rival, any_time(&mut dice, 1.0));
            }
            let surprise = pick.explores.and_then(|_| policy.surprise_ns(pick.rival));
            // The worst: as fast as was hoped, or as slow as can be.
            let ns = match surprise {
                Some(most) if dice.below(3) > 0 => most,
                Some(most) => any_time(&mut dice, wild).min(most),
                None => any_time(&mut dice, wild),
            };
            policy.ran(pick, ns, &mut process);
            prop_assert!(policy.ledger().share() <= PROBLEM_LIMIT + 1e-12, "{:?}", policy.ledger());
        }
    }

    #[test]
    fn rivals_up_to_forty_times_slower_that_grow_slower_later_take_three_per_cent_at_most_from_microseconds_to_a_second(
        seed in any::<u64>(), microseconds in 0.0f64..6.0, later in 1.0f64..7.0, checks in any::<bool>(),
    ) {
        let mut dice = RandomNumbers::new(seed);
        let base_ns = 1e3 * 10f64.powf(microseconds);
        let rivals = 2 + dice.below(6);
        // The first is what the estimates would take; of the others some are faster, some far slower than anybody thinks.
        let truth: Vec<f64> = (0..rivals)
            .map(|rival| base_ns * if rival == 0 { 1.0 } else { (5.9 * dice.unit() - 0.6).exp2() })
            .collect();
        let mut prior: Vec<f64> = (0..rivals).map(|_| 1.5 * dice.unit()).collect();
        prior[0] = 0.0;
        let mut policy = Policy::new(&prior, 0.1 + 0.5 * dice.unit(), true, dice.bits()).unwrap();
        // What is promised of rivals that never ran holds up to fifty times what the fastest takes, all disturbances included.
        let most_ns = 45.0 * truth.iter().copied().fold(f64::INFINITY, f64::min);
        // From some call on each rival but the first takes longer, once.
        let since: Vec<usize> = (0..rivals).map(|_| dice.below(6000)).collect();
        let mut process = Ledger::default();
        for call in 0..6000 {
            let pick = policy.pick_held(&mut process);
            let time = |rival: usize, dice: &mut RandomNumbers| {
                let slower = if rival > 0 && call >= since[rival] { later } else { 1.0 };
                (truth[rival] * slower).min(most_ns) * (1.0 + 0.1 * dice.unit())
            };
            if let Some(rival) = policy.unknown().filter(|_| checks) {
                let ns = time(rival, &mut dice);
                policy.checked(rival, ns);
            }
            let ns = time(pick.rival, &mut dice);
            policy.ran(pick, ns, &mut process);
            prop_assert!(policy.ledger().share() <= PROBLEM_LIMIT + 1e-12, "call {call}: {:?}", policy.ledger());
            prop_assert!(process.share() <= PROBLEM_LIMIT + 1e-12, "call {call}: {process:?}");
        }
    }

    #[test]
    fn whatever_times_come_one_call_is_owed_at_most_and_is_earned_back_before_the_next(
        seed in any::<u64>(), wild in 1.0f64..1e5,
    ) {
        let mut dice = RandomNumbers::new(seed);
        let mut policy = policies(1, &mut dice).remove(0);
        let mut process = Ledger::default();
        // What the last explored call took beyond what was expected.
        let mut last = 0.0f64;
        for _ in 0..2000 {
            let pick = policy.pick_held(&mut process);
            let ns = any_time(&mut dice, wild);
            if let Some(expected_ns) = pick.explores {
                prop_assert!(policy.ledger().owed_ns(PROBLEM_SHARE) == 0.0 && process.owed_ns(PROCESS_SHARE) == 0.0);
                last = (ns - expected_ns).max(0.0);
            }
            policy.ran(pick, ns, &mut process);
            prop_assert!(policy.ledger().owed_ns(PROBLEM_SHARE) <= last + ROUNDING);
            prop_assert!(process.owed_ns(PROCESS_SHARE) <= last + ROUNDING);
        }
    }
}

#[test]
fn rivals_are_tried_within_the_budget_and_a_trial_that_never_comes_back_holds_nothing() {
    let truth = [110.0, 100.0, 130.0];
    let mut policy = Policy::new(&[0.0, 0.1, 0.2], 0.2, true, 1).unwrap();
    let mut process = Ledger::default();
    let mut dice = RandomNumbers::new(2);
    let mut given_up = 0;
    for call in 0..3000 {
        let pick = policy.pick_held(&mut process);
        if pick.explores.is_some() && call % 2 == 0 {
            given_up += 1;
            continue;
        }
        policy.ran(pick, truth[pick.rival] * (1.0 + 0.05 * dice.unit()), &mut process);
    }
    assert_eq!(policy.incumbent(), 1);
    assert!(given_up > 0 && process.explored > 3, "{given_up} {process:?}");
    assert!(process.share() <= PROCESS_SHARE);
}

/// What 600 products took by ten variants on a machine.
fn recorded() -> Vec<Vec<f64>> {
    let lines = include_str!("data/matmul_times.csv").lines().skip(1);
    let times = |line: &str| line.split(',').skip(3).map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
    lines.map(times).collect()
}

#[test]
fn on_recorded_times_exploring_stays_below_three_per_cent_of_every_problems_time_after_every_call() {
    let mut dice = RandomNumbers::new(5);
    let (mut process, mut worst, mut explored) = (Ledger::default(), 0.0f64, 0);
    for ns in recorded() {
        let best = ns.iter().copied().fold(f64::INFINITY, f64::min);
        // Predictions that are off by a factor of four, one in three by more, of a model that thinks it is off by seven per cent.
        let prior: Vec<f64> =
            ns.iter().map(|ns| ((ns / best).log2() + 2.0 * dice.normal()).max(0.0)).collect();
        let mut policy = Policy::new(&prior, 0.1, true, dice.bits()).unwrap();
        for _ in 0..3000 {
            let pick = policy.pick_held(&mut process);
            if let Some(rival) = policy.unknown() {
                policy.checked(rival, ns[rival]);
            }
            // One call in 25 is disturbed.
            let disturbed = if dice.below(25) == 0 { 3.0 } else { 1.2 };
            policy.ran(pick, ns[pick.rival] * (1.0 + (disturbed - 1.0) * dice.unit()), &mut process);
            worst = worst.max(policy.ledger().share());
        }
        explored += policy.ledger().explored;
    }
    assert!(explored > 1000, "{explored}");
    assert!(worst <= PROBLEM_LIMIT, "{worst}");
}

#[test]
fn a_rival_that_never_ran_is_tried_only_when_fifty_times_the_usual_is_earned_and_sooner_once_it_was_checked()
{
    let first_try = |checks: bool| {
        let mut policy = Policy::new(&[0.0, 0.0], 0.5, true, 9).unwrap();
        let mut process = Ledger::default();
        for call in 0..20_000 {
            let pick = policy.pick_held(&mut process);
            if pick.explores.is_some() {
                return call;
            }
            if let Some(rival) = policy.unknown().filter(|_| checks) {
                policy.checked(rival, 1_000.0);
            }
            policy.ran(pick, 1_000.0, &mut process);
        }
        unreachable!("never tried")
    };
    let (unchecked, checked) = (first_try(false), first_try(true));
    assert!(unchecked as f64 >= 49.0 / PROBLEM_LIMIT, "{unchecked}");
    assert!((7.0 / PROBLEM_LIMIT..600.0).contains(&(checked as f64)), "{checked}");
}
