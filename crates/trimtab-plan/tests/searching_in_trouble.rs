//! Searches on machines where points fail, hang and lie, where there is little to search, and where a process dies.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod recorded;

use recorded::{Machine, Trouble, recording, request};
use std::path::Path;
use std::sync::Arc;
use trimtab_core::{FailureKind, Point};
use trimtab_plan::TermsId;
use trimtab_testing::variable;
use trimtab_tune::search::STRATEGIES;
use trimtab_wisdom::{Death, Outcome, Wisdom};

fn fresh() -> Arc<Wisdom> {
    Arc::new(Wisdom::in_memory())
}

fn tile_x(point: &Point) -> u32 {
    point.values()[2]
}

#[test]
fn every_strategy_survives_points_that_fail_hang_and_lie() {
    let troubles: [(Trouble, FailureKind); 3] = [
        (|point| tile_x(point).is_multiple_of(2).then_some(FailureKind::Launch), FailureKind::Launch),
        (|point| tile_x(point).is_multiple_of(2).then_some(FailureKind::TimedOut), FailureKind::TimedOut),
        (|point| tile_x(point).is_multiple_of(2).then_some(FailureKind::Wrong), FailureKind::Wrong),
    ];
    for (trouble, kind) in troubles {
        for name in STRATEGIES {
            let machine = Machine::rough(recording("x", 1000, 5.0), trouble, None);
            let wisdom = fresh();
            let decision = machine.tune(&wisdom, &request(Some(name), Some(40)));
            assert!(decision.evaluations <= 40, "{name} {kind:?}");
            let winner = decision.winner().unwrap();
            assert_eq!(tile_x(&winner.point) % 2, 1, "{name} {kind:?}: {winner:?}");
            let facts = wisdom.all_facts();
            let told = |fact: &&trimtab_wisdom::Fact| matches!(&fact.outcome, Outcome::Failed { kind: failed, .. } if *failed == kind);
            let failed = facts.iter().filter(told).count();
            let asked = machine.ran().iter().filter(|point| tile_x(point).is_multiple_of(2)).count();
            assert!(failed > 0 && failed == asked, "{name} {kind:?}: {failed} of {asked} are remembered");
        }
    }
}

#[test]
fn a_default_that_fails_does_not_keep_the_others_from_being_searched() {
    // Everything but one value of an axis fails, the default among them.
    let machine = Machine::rough(
        recording("x", 1000, 5.0),
        |point| (tile_x(point) != 5).then_some(FailureKind::Launch),
        None,
    );
    let decision = machine.tune(&fresh(), &request(None, Some(100)));
    assert_eq!(tile_x(&decision.winner().unwrap().point), 5);
    assert!(decision.evaluations <= 100);
}

#[test]
fn when_every_point_fails_there_is_no_plan_and_the_search_ends() {
    let machine = Machine::rough(recording("x", 1000, 5.0), |_| Some(FailureKind::Launch), None);
    let planner = machine.planner(&fresh());
    let refused = planner.tune(&machine.problem(), TermsId::default(), &request(None, Some(30)), &mut |_| ());
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("made up"), "{message}");
    assert!(machine.ran().len() <= 30);
}

#[test]
fn points_that_cannot_be_tried_end_the_search_soon_and_are_not_remembered() {
    let machine = Machine::rough(recording("x", 1000, 5.0), |_| Some(FailureKind::Untried), None);
    let wisdom = fresh();
    let planner = machine.planner(&wisdom);
    let tuned = planner.tune(&machine.problem(), TermsId::default(), &request(None, None), &mut |_| ());
    assert!(tuned.is_err() || !tuned.unwrap().complete);
    assert!(machine.ran().len() < 20, "{}", machine.ran().len());
    assert!(wisdom.is_empty());
}

#[test]
fn no_evaluation_measures_nothing_and_one_measures_one_point() {
    let machine = Machine::new(recording("x", 1000, 5.0));
    // The first point may be one that does not build: what is chosen then is checked, not measured.
    for (evals, most) in [(0, 0), (1, 1)] {
        let decision = machine.tune(&fresh(), &request(None, Some(evals)));
        assert!(decision.evaluations <= most && machine.ran().len() <= most as usize);
        assert!(decision.winner().unwrap().estimate().is_some());
    }
}

#[test]
fn one_point_and_no_point_need_no_search() {
    for name in STRATEGIES {
        let one = Machine::rough(recording("x", 1000, 5.0), |_| None, Some(1));
        let decision = one.tune(&fresh(), &request(Some(name), Some(10)));
        assert_eq!((decision.evaluations, decision.space()), (1, 1), "{name}");
        let none = Machine::rough(recording("x", 1000, 5.0), |_| None, Some(0));
        let planner = none.planner(&fresh());
        let refused =
            planner.tune(&none.problem(), TermsId::default(), &request(Some(name), None), &mut |_| ());
        assert!(refused.unwrap_err().to_string().contains("no settings"), "{name}");
    }
}

/// Ends the process at any point a search would want, after the first few.
fn deadly(point: &Point) -> Option<FailureKind> {
    if tile_x(point) == 5 && is_child() {
        std::process::abort();
    }
    None
}

const DIR: &str = "TRIMTAB_TEST_DIR";

fn is_child() -> bool {
    variable(DIR).is_some()
}

#[test]
fn a_child_searches_until_it_dies() {
    let Some(dir) = variable(DIR) else { return };
    let machine = Machine::rough(recording("x", 1000, 5.0), deadly, None);
    machine.tune(&Arc::new(Wisdom::open(Path::new(&dir))), &request(None, Some(100)));
}

#[test]
fn a_users_kernel_of_which_two_processes_died_is_not_asked_again() {
    if is_child() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = trimtab_testing::child("a_child_searches_until_it_dies").unwrap();
    child.env(DIR, dir.path());
    assert!(!child.output().unwrap().status.success(), "the child was to die");
    // Another dies there.
    let Death { device, kernel, version, point, .. } = Wisdom::open(dir.path()).deaths().remove(0);
    Wisdom::open(dir.path()).intend(&device, &kernel, &version, &point);
    let wisdom = Arc::new(Wisdom::open(dir.path()));
    let machine = Machine::rough(recording("x", 1000, 5.0), deadly, None);
    let ask = request(None, Some(100));
    let refused = machine.planner(&wisdom).tune(&machine.problem(), TermsId::default(), &ask, &mut |_| ());
    let why = refused.unwrap_err().to_string();
    assert!(why.contains("2 processes died while its kernel ran"), "{why}");
    assert!(machine.ran().is_empty());
}
