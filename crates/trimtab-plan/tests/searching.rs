//! Searching large spaces of settings on recorded machines: few points, remembered, taken up again, and started from others.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod recorded;

use recorded::{Machine, recording, request};
use std::sync::Arc;
use trimtab_core::{Constraints, Device, Nanos, Patience, Terms};
use trimtab_plan::{Planner, Reason, Settings, Standing, TermsId, TuneRequest};
use trimtab_tune::search::STRATEGIES;
use trimtab_wisdom::{Filter, Wisdom};

fn fresh() -> Arc<Wisdom> {
    Arc::new(Wisdom::in_memory())
}

#[test]
fn a_large_space_is_searched_within_its_evaluations_and_the_next_process_measures_nothing() {
    let machine = Machine::new(recording("x", 1000, 5.0));
    let wisdom = fresh();
    let decision = machine.tune(&wisdom, &request(None, Some(60)));
    assert!(decision.space() > 2500, "{}", decision.space());
    let ran = machine.ran().len();
    assert!(ran <= 60 && ran == decision.evaluations as usize, "{ran} {}", decision.evaluations);
    assert!(machine.share(&decision) > 0.9, "{:.3}: {:?}", machine.share(&decision), decision.notes());
    assert!(decision.complete && decision.reason == Reason::Raced);
    assert_eq!(decision.strategy().unwrap().name(), "auto");
    assert!(decision.notes().iter().any(|note| note.starts_with("settings were searched by `auto`")));

    let runs = machine.runs();
    let again = machine.tune(&wisdom, &request(None, Some(60)));
    assert_eq!((again.reason, again.evaluations, again.complete), (Reason::Remembered, 0, true));
    assert_eq!(again.winner().unwrap().point, decision.winner().unwrap().point);
    machine.planner(&wisdom).plan(&machine.problem(), TermsId::default()).unwrap();
    assert_eq!(machine.runs(), runs);
    let explained = machine.planner(&wisdom).explain(&machine.problem(), TermsId::default()).unwrap();
    let how = "settings were searched by `auto`, at most 60 points measured".to_string();
    assert!(explained.notes().contains(&how), "{:?}", explained.notes());
}

#[test]
fn asking_for_more_evaluations_goes_on_from_what_is_known() {
    let machine = Machine::new(recording("x", 1000, 5.0));
    let wisdom = fresh();
    machine.tune(&wisdom, &request(None, Some(40)));
    let first = machine.ran();
    let more = machine.tune(&wisdom, &request(None, Some(80)));
    assert!(more.evaluations > 0 && more.evaluations <= 80);
    // A few are raced again, to compare; the others are new.
    let new = machine.ran().len() - first.len();
    assert!(new >= 70, "{new} new points");
}

#[test]
fn the_same_recording_gives_the_same_trace() {
    let traces = [(); 2].map(|()| {
        let machine = Machine::new(recording("x", 1000, 5.0));
        machine.tune(&fresh(), &request(None, Some(50)));
        machine.ran()
    });
    assert_eq!(traces[0], traces[1]);
    let other = Machine::new(recording("y", 1000, 5.0));
    other.tune(&fresh(), &request(None, Some(50)));
    assert_ne!(traces[0], other.ran());
}

#[test]
fn every_strategy_finds_something_better_than_the_default_and_keeps_its_evaluations() {
    for name in STRATEGIES {
        let machine = Machine::new(recording("x", 1000, 5.0));
        let decision = machine.tune(&fresh(), &request(Some(name), Some(40)));
        assert_eq!(decision.strategy().unwrap().name(), name);
        assert!(decision.evaluations <= 40 && machine.ran().len() <= 40, "{name}");
        assert!(machine.share(&decision) > 0.4, "{name}: {:.3}", machine.share(&decision));
    }
}

#[test]
fn a_search_that_time_ends_is_incomplete_and_a_call_searches_within_its_budget() {
    let machine = Machine::new(recording("x", 1000, 5.0));
    let wisdom = fresh();
    let budget = Nanos::from_millis(300);
    let decision = machine.tune(&wisdom, &TuneRequest::new(Patience::Measure, budget));
    assert!(!decision.complete && decision.evaluations > 10, "{}", decision.evaluations);
    assert!(decision.notes().iter().any(|note| note.contains("ended it")), "{:?}", decision.notes());
    // Those too close to call had time left to run off.
    let most =
        decision.rivals.iter().filter_map(|rival| rival.estimate()).map(|e| e.basis).max_by_key(|basis| {
            if let trimtab_core::Basis::Measured(samples) = basis { *samples } else { 0 }
        });
    assert!(matches!(most, Some(trimtab_core::Basis::Measured(samples)) if samples > 4), "{most:?}");
    let runs = machine.runs();
    assert_eq!(machine.tune(&wisdom, &TuneRequest::new(Patience::Measure, budget)).runs, 0);
    assert_eq!(machine.runs(), runs);

    let small = Machine::new(recording("x", 10, 5.0));
    let planner = small.planner(&fresh());
    planner.plan(&small.problem(), TermsId::default()).unwrap();
    let decision = planner.decision(&small.problem(), TermsId::default()).unwrap();
    assert!(decision.evaluations > 48, "{} {:?}", decision.evaluations, decision.notes());
    assert!(small.share(&decision) > 0.9, "{:.3}", small.share(&decision));
    // The next call takes it as it is.
    let runs = small.runs();
    planner.plan(&small.problem(), TermsId::default()).unwrap();
    assert_eq!(small.runs(), runs);
}

#[test]
fn a_search_ends_when_the_best_is_good_enough_and_says_so() {
    let machine = Machine::new(recording("x", 1000, 5.0));
    let wisdom = fresh();
    let good = TuneRequest { good_enough: Some(0.8), ..request(None, None) };
    let decision = machine.tune(&wisdom, &good);
    let share = machine.share(&decision);
    assert!(share >= 0.8 && decision.complete, "{share:.3}");
    let note = format!("good enough: {:.0} % of the roofline", share * 100.0);
    assert!(decision.notes().contains(&note), "{note}: {:?}", decision.notes());
    let runs = machine.runs();
    assert_eq!(machine.tune(&wisdom, &good).runs, 0);
    assert_eq!(machine.runs(), runs);
    // A better share is a new question.
    let better = machine.tune(&wisdom, &TuneRequest { good_enough: Some(0.97), ..good });
    assert!(machine.runs() > runs && machine.share(&better) >= 0.97, "{:.3}", machine.share(&better));
}

#[test]
fn another_devices_facts_are_imported_and_its_best_points_are_measured_first() {
    let (here, there) =
        (Machine::new(recording("here", 1000, 5.0)), Machine::new(recording("there", 1000, 4.6)));
    let elsewhere = fresh();
    let donated = there.tune(&elsewhere, &request(None, Some(150)));
    let best = donated.winner().unwrap().point;
    let wisdom = fresh();
    wisdom.import(&elsewhere.export(&Filter::everything()), true).unwrap();
    let decision = here.tune(&wisdom, &request(None, Some(20)));
    assert!(decision.evaluations <= 20);
    assert!(here.share(&decision) > 0.98, "{:.3}", here.share(&decision));
    let first: Vec<_> = here.ran().into_iter().take(5).collect();
    assert!(first.contains(&best), "{first:?} without {best:?}");
    // Without them it is not found that soon.
    let alone = Machine::new(recording("here", 1000, 5.0));
    let cold = alone.tune(&fresh(), &request(None, Some(20)));
    assert!(alone.share(&cold) < here.share(&decision));
}

#[test]
fn what_is_known_of_another_size_starts_the_search_too() {
    let wisdom = fresh();
    let small = Machine::new(recording("x", 1000, 5.0));
    let donated = small.tune(&wisdom, &request(None, Some(150)));
    let large = Machine::new(recording("x", 4000, 5.0));
    let decision = large.tune(&wisdom, &request(None, Some(20)));
    assert!(large.ran().into_iter().take(5).any(|point| point == donated.winner().unwrap().point));
    assert!(large.share(&decision) > small.share(&donated) - 0.01, "{:.3}", large.share(&decision));
}

#[test]
fn a_kernel_that_falls_behind_is_given_up_and_the_others_get_its_evaluations() {
    // Three times as slow throughout, and first in order of preference.
    let mut slow = recording("x", 3000, 5.0);
    (slow.name, slow.sizes) = ("slow".to_string(), vec![1000]);
    let machine = Machine::with_kernels(vec![slow, recording("x", 1000, 5.0)], |_| None, None);
    let decision = machine.tune(&fresh(), &request(None, Some(100)));
    assert_eq!(&*decision.winner().unwrap().name, "kernel");
    let (slow, fast) = (machine.ran_of(0), machine.ran_of(1));
    assert!(slow <= 20 && fast >= 70 && slow + fast <= 100, "{slow} {fast}");
}

#[test]
fn devices_share_the_evaluations() {
    let machines = [Machine::new(recording("x", 1000, 5.0)), Machine::new(recording("y", 1000, 4.0))];
    let devices = machines.iter().map(|machine| Arc::clone(machine) as Arc<dyn Device>).collect();
    let planner = Planner::new(devices, fresh(), Settings::default(), Terms::default());
    let problem = machines[0].problem();
    let decision = planner.tune(&problem, TermsId::default(), &request(None, Some(60)), &mut |_| ()).unwrap();
    let [x, y] = [0, 1].map(|at| machines[at].ran().len());
    assert!(x + y == decision.evaluations as usize && x + y <= 60 && x >= 25 && y >= 25, "{x} {y}");
}

#[test]
fn a_limit_on_latency_is_kept_by_what_a_search_finds() {
    let machine = Machine::new(recording("x", 1000, 5.0));
    let planner = machine.planner(&fresh());
    let latency_max = Some(Nanos((machine.optimum_ns() * 1.3) as u64));
    let constraints = Constraints { latency_max, ..Constraints::default() };
    let terms = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
    let decision = planner.tune(&machine.problem(), terms, &request(None, Some(80)), &mut |_| ()).unwrap();
    assert!(machine.share(&decision) > 1.0 / 1.3, "{:.3}", machine.share(&decision));
    let out = decision.rivals.iter().filter(|rival| matches!(rival.standing, Standing::Excluded(_)));
    assert!(out.count() > 20);
}

#[test]
fn what_is_in_force_stays_if_nothing_clearly_faster_is_found() {
    let machine = Machine::new(recording("x", 1000, 5.0));
    let planner = machine.planner(&fresh());
    let tune = |evals| {
        let request = request(None, Some(evals));
        planner.tune(&machine.problem(), TermsId::default(), &request, &mut |_| ()).unwrap()
    };
    let mut last = tune(60);
    for evals in [120, 240] {
        let next = tune(evals);
        let gain = machine.share(&next) / machine.share(&last);
        let same = next.winner().unwrap().point == last.winner().unwrap().point;
        assert!(same || gain > 1.02, "{gain}");
        last = next;
    }
}

#[test]
fn a_strategy_in_the_settings_is_used_by_calls_and_by_tuning() {
    let machine = Machine::rough(recording("x", 10, 5.0), |_| None, Some(30));
    let settings = Settings { strategy: "sweep".parse().ok(), ..Settings::default() };
    let planner = machine.planner_with(&fresh(), settings);
    planner.plan(&machine.problem(), TermsId::default()).unwrap();
    let decision = planner.decision(&machine.problem(), TermsId::default()).unwrap();
    assert_eq!(decision.strategy().unwrap().name(), "sweep");
    let tuned =
        planner.tune(&machine.problem(), TermsId::default(), &request(None, Some(5)), &mut |_| ()).unwrap();
    assert_eq!(tuned.strategy().unwrap().name(), "sweep");
    // Thirty points are few enough to be raced whole by everyone else.
    let machine = Machine::rough(recording("x", 10, 5.0), |_| None, Some(30));
    let decision = machine.tune(&fresh(), &TuneRequest::new(Patience::Measure, Nanos::from_millis(60_000)));
    assert_eq!((decision.strategy(), decision.complete), (None, true));
}

#[test]
fn a_named_strategy_is_not_repeated_even_where_there_is_nothing_to_search() {
    let machine = Machine::rough(recording("x", 1000, 5.0), |_| None, Some(1));
    let wisdom = fresh();
    for evals in [None, Some(9)] {
        machine.tune(&wisdom, &request(Some("hill"), evals));
        let runs = machine.runs();
        assert_eq!(machine.tune(&wisdom, &request(Some("hill"), evals)).runs, 0, "{evals:?}");
        assert_eq!(machine.runs(), runs);
    }
}

#[test]
fn exhaustive_patience_measures_everything_whatever_else_is_asked() {
    let machine = Machine::rough(recording("x", 10, 5.0), |_| None, Some(60));
    let everything = TuneRequest { patience: Patience::Exhaustive, ..request(Some("hill"), Some(3)) };
    let decision = machine.tune(&fresh(), &everything);
    assert_eq!((decision.evaluations, decision.strategy(), decision.complete), (60, None, true));
}
