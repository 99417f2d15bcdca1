//! What trying rivals on live calls may cost, whatever times come: never more than was earned, but for one call that broke its bound.

#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use proptest::prelude::*;
use trimtab_core::RandomNumbers;
use trimtab_model::learn::{Ledger, PROBLEM_SHARE, PROCESS_SHARE, Pick, Policy};

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
