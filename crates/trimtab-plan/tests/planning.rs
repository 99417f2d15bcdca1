//! Planning on a scripted machine: a device whose kernels have times written down, so that every plan is decidable.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Script, Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{
    Basis, Bytes, Constraints, Device, FailureKind, LaunchError, Nanos, Objective, Patience, Problem, Terms,
};
use trimtab_plan::{Planner, Reason, Settings, Standing, TermsId, TuneRequest};
use trimtab_tune::Rules;
use trimtab_wisdom::{Filter, Memory, Wisdom};

fn problem(size: u64) -> Problem {
    trimtab_core::Custom::new("op", &[size]).unwrap().into()
}

fn planner(device: &Arc<Scripted>, wisdom: &Arc<Wisdom>, patience: Patience) -> Planner {
    let settings = Settings { patience, ..Settings::default() };
    Planner::new(vec![Arc::clone(device) as Arc<dyn Device>], Arc::clone(wisdom), settings, Terms::default())
}

fn chosen(planner: &Planner, size: u64) -> String {
    planner.plan(&problem(size), TermsId::default()).unwrap();
    shown(planner, size)
}

fn shown(planner: &Planner, size: u64) -> String {
    let decision = planner.explain(&problem(size), TermsId::default()).unwrap();
    let winner = decision.winner().unwrap();
    format!("{} {} ({})", winner.name, winner.point_name, decision.reason.name())
}

fn request(patience: Patience) -> TuneRequest {
    let budget = Nanos::from_millis(10_000);
    TuneRequest { rules: Rules::default(), ..TuneRequest::new(patience, budget) }
}

fn usual() -> Vec<Script> {
    vec![
        kernel("slow", &[(1, 50_000), (2, 40_000)]),
        kernel("fast", &[(1, 9_000), (2, 3_000)]),
        reference(500_000),
    ]
}

#[test]
fn measuring_finds_the_fastest_kernel_and_point_and_remembers_it() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(usual());
    assert_eq!(chosen(&planner(&device, &wisdom, Patience::Measure), 8), "fast tile=2 (raced)");
    let runs = device.runs.load(Ordering::Relaxed);
    assert!(runs > 0);
    // A second planner with the same wisdom measures nothing and chooses the same.
    assert_eq!(chosen(&planner(&device, &wisdom, Patience::Measure), 8), "fast tile=2 (remembered)");
    assert_eq!(chosen(&planner(&device, &wisdom, Patience::Off), 8), "fast tile=2 (remembered)");
    assert_eq!(device.runs.load(Ordering::Relaxed), runs);
}

#[test]
fn mode_off_without_wisdom_takes_the_first_in_order_of_preference_and_runs_nothing() {
    let device = Scripted::new(usual());
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Off);
    planner.plan(&problem(8), TermsId::default()).unwrap();
    let decision = planner.decision(&problem(8), TermsId::default()).unwrap();
    assert_eq!(decision.reason, Reason::DefaultOrder);
    assert_eq!(&*decision.winner().unwrap().name, "slow");
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
}

#[test]
fn mode_estimate_measures_nothing_and_uses_what_was_measured_elsewhere() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(usual());
    planner(&device, &wisdom, Patience::Measure).plan(&problem(8), TermsId::default()).unwrap();
    let runs = device.runs.load(Ordering::Relaxed);
    let planner = planner(&device, &wisdom, Patience::Estimate);
    // Another size: fits over the first problem's facts decide.
    planner.plan(&problem(9), TermsId::default()).unwrap();
    let decision = planner.explain(&problem(9), TermsId::default()).unwrap();
    let winner = decision.winner().unwrap();
    assert_eq!(&*winner.name, "fast");
    assert!(matches!(winner.estimate().unwrap().basis, Basis::Fitted(_)), "{:?}", winner.estimate());
    assert_eq!(device.runs.load(Ordering::Relaxed), runs);
}

#[test]
fn every_rival_has_an_estimate_or_says_why_not() {
    let mut kernels = usual();
    kernels.push(Script { declines: Some("does not like it"), ..kernel("shy", &[(1, 1)]) });
    kernels.push(Script { fails: Some(FailureKind::Wrong), ..kernel("liar", &[(1, 10)]) });
    let device = Scripted::new(kernels);
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    planner.plan(&problem(8), TermsId::default()).unwrap();
    let decision = planner.explain(&problem(8), TermsId::default()).unwrap();
    assert_eq!(&*decision.winner().unwrap().name, "fast");
    for rival in &decision.rivals {
        match &*rival.name {
            "shy" => assert_eq!(rival.standing, Standing::Declined("does not like it".to_string())),
            "liar" => assert!(rival.out_because().unwrap().contains("wrong")),
            name => assert!(rival.estimate().is_some(), "{name}: {:?}", rival.standing),
        }
    }
}

#[test]
fn a_kernel_that_lies_once_is_not_trusted_on_any_problem_even_after_a_restart() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let mut kernels = usual();
    kernels.push(Script { fails: Some(FailureKind::Wrong), ..kernel("liar", &[(1, 10)]) });
    let device = Scripted::new(kernels);
    planner(&device, &wisdom, Patience::Measure).plan(&problem(8), TermsId::default()).unwrap();
    let before = device.count("liar");
    let next = planner(&device, &wisdom, Patience::Measure);
    next.plan(&problem(77), TermsId::default()).unwrap();
    let decision = next.explain(&problem(77), TermsId::default()).unwrap();
    let liar = decision.rivals.iter().find(|rival| &*rival.name == "liar").unwrap();
    assert!(liar.out_because().unwrap().contains("wrong result on custom.op:8"), "{:?}", liar.standing);
    assert_eq!(device.count("liar"), before);
}

#[test]
fn the_first_kernel_in_order_of_preference_may_not_lie_again_either() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let mut kernels = vec![Script { fails: Some(FailureKind::Wrong), ..kernel("liar", &[(1, 10)]) }];
    kernels.extend(usual());
    let device = Scripted::new(kernels);
    chosen(&planner(&device, &wisdom, Patience::Measure), 8);
    let before = device.count("liar");
    chosen(&planner(&device, &wisdom, Patience::Measure), 77);
    assert_eq!(device.count("liar"), before);
}

#[test]
fn a_live_time_written_down_after_a_failure_does_not_lift_the_quarantine() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(usual());
    let planner = planner(&device, &wisdom, Patience::Measure);
    planner.plan(&problem(8), TermsId::default()).unwrap();
    let plan = *planner.known(&problem(8), TermsId::default()).unwrap().1;
    planner.report(&plan, Nanos(3_000));
    let error = LaunchError::Kernel("broke".to_string());
    planner.failed(&problem(8), TermsId::default(), &plan, &error).unwrap();
    // The clock of wisdom counts milliseconds.
    let watch = trimtab_tune::Stopwatch::start();
    while watch.elapsed() < Nanos::from_millis(3) {}
    planner.drain();
    let decision = planner.explain(&problem(8), TermsId::default()).unwrap();
    let broken =
        decision.rivals.iter().find(|rival| (rival.kernel, rival.point) == (plan.kernel, plan.point));
    assert!(matches!(broken.unwrap().standing, Standing::Quarantined(_)), "{:?}", broken.unwrap().standing);
}

#[test]
fn a_rival_that_hangs_is_run_once_and_the_others_are_measured() {
    let mut kernels = vec![kernel("forever", &[(1, 10_000_000_000)])];
    kernels.extend(usual());
    let device = Scripted::new(kernels);
    let wisdom = Arc::new(Wisdom::in_memory());
    assert_eq!(chosen(&planner(&device, &wisdom, Patience::Measure), 8), "fast tile=2 (raced)");
    assert_eq!(device.count("forever"), 1);
}

#[test]
fn one_time_out_bars_in_its_process_and_two_processes_that_saw_it_bar_it_for_good() {
    let mut kernels = vec![kernel("forever", &[(1, 10_000_000_000)])];
    kernels.extend(usual());
    let (device, memory) = (Scripted::new(kernels), Memory::default());
    let out_in_a_new_process = |wisdom: &Arc<Wisdom>| {
        let planner = planner(&device, wisdom, Patience::Measure);
        let record = planner.survey(&planner.explain(&problem(8), TermsId::default()).unwrap());
        record.rivals.iter().find(|rival| &*rival.name == "forever").unwrap().out_because()
    };
    let tune = || {
        let wisdom = Arc::new(Wisdom::on(Arc::new(memory.clone())));
        assert!(!out_in_a_new_process(&wisdom).is_some_and(|why| why.contains("timeout")));
        let planner = planner(&device, &wisdom, Patience::Measure);
        let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(2_000));
        let record = planner.tune(&problem(8), TermsId::default(), &request, &mut |_| ()).unwrap();
        let rival = record.rivals.iter().find(|rival| &*rival.name == "forever").unwrap();
        assert!(rival.out_because().is_some_and(|why| why.contains("timeout")), "{:?}", rival.standing);
    };
    tune();
    // What the first race decided stands; another measures again.
    let wisdom = Wisdom::on(Arc::new(memory.clone()));
    wisdom.forget(&Filter::kernel("fast"));
    drop(wisdom);
    tune();
    let wisdom = Arc::new(Wisdom::on(Arc::new(memory.clone())));
    assert!(out_in_a_new_process(&wisdom).is_some_and(|why| why.contains("timeout")));
}

#[test]
fn when_everything_else_fails_the_reference_answers() {
    let fail = |name| Script { fails: Some(FailureKind::Launch), ..kernel(name, &[(1, 10)]) };
    let device = Scripted::new(vec![fail("a"), fail("b"), reference(500_000)]);
    for patience in Patience::ALL {
        let planner = planner(&device, &Arc::new(Wisdom::in_memory()), patience);
        planner.plan(&problem(8), TermsId::default()).unwrap();
        let decision = planner.decision(&problem(8), TermsId::default()).unwrap();
        assert_eq!(&*decision.winner().unwrap().name, "reference", "{patience}");
    }
}

#[test]
fn what_could_not_be_tried_is_not_remembered_as_failed() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let mut kernels = usual();
    kernels[1].fails = Some(FailureKind::Untried);
    let starved = Scripted::new(kernels);
    for patience in Patience::ALL {
        planner(&starved, &wisdom, patience).plan(&problem(8), TermsId::default()).unwrap();
    }
    let failed =
        |facts: Vec<trimtab_wisdom::Fact>| facts.iter().filter(|f| f.outcome.stats().is_none()).count();
    assert_eq!(failed(wisdom.facts(&starved.facts().fingerprint.0, "custom.op:8")), 0);
    assert_eq!(
        shown(&planner(&Scripted::new(usual()), &wisdom, Patience::Estimate), 9),
        "fast tile=2 (estimated)"
    );
}

#[test]
fn a_kernel_without_settings_for_a_problem_says_so() {
    let mut kernels = usual();
    kernels.push(kernel("none", &[]));
    let planner = planner(&Scripted::new(kernels), &Arc::new(Wisdom::in_memory()), Patience::Estimate);
    let decision = planner.explain(&problem(8), TermsId::default()).unwrap();
    let none = decision.rivals.iter().find(|rival| &*rival.name == "none").unwrap();
    assert_eq!(none.standing, Standing::Declined("offers no settings for this problem".to_string()));
}

#[test]
fn a_plan_whose_launch_fails_is_replaced_by_the_next_best() {
    let device = Scripted::new(usual());
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let terms = TermsId::default();
    let plan = planner.plan(&problem(8), terms).unwrap();
    let error = LaunchError::Kernel("broke".to_string());
    let next = planner.failed(&problem(8), terms, &plan, &error).unwrap();
    assert_ne!((next.kernel, next.point), (plan.kernel, plan.point));
    assert_eq!(*planner.known(&problem(8), terms).unwrap().1, planner.plan(&problem(8), terms).unwrap());
    let decision = planner.explain(&problem(8), terms).unwrap();
    let broken =
        decision.rivals.iter().find(|rival| rival.kernel == plan.kernel && rival.point == plan.point);
    assert!(broken.unwrap().out_because().unwrap().contains("broke"));
}

#[test]
fn a_time_from_a_clock_that_is_ahead_does_not_bring_a_failed_plan_back() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(usual());
    let planner = planner(&device, &wisdom, Patience::Measure);
    let plan = planner.plan(&problem(8), TermsId::default()).unwrap();
    let facts = wisdom.facts(&device.facts().fingerprint.0, "custom.op:8");
    let timed = facts.iter().find(|fact| fact.key.kernel == "fast" && fact.key.point == "tile=2").unwrap();
    let error = LaunchError::Kernel("broke".to_string());
    planner.failed(&problem(8), TermsId::default(), &plan, &error).unwrap();
    let later = trimtab_wisdom::FactKey { condition: "busy".into(), ..timed.key.clone() };
    let watch = trimtab_tune::Stopwatch::start();
    while watch.elapsed() < Nanos::from_millis(3) {}
    wisdom.record(later, timed.outcome.clone());
    let decision = planner.explain(&problem(8), TermsId::default()).unwrap();
    let broken =
        decision.rivals.iter().find(|rival| (rival.kernel, rival.point) == (plan.kernel, plan.point));
    assert!(matches!(broken.unwrap().standing, Standing::Quarantined(_)), "{:?}", broken.unwrap().standing);
}

#[test]
fn constraints_filter_first_and_plans_under_different_terms_are_kept_apart() {
    let mut kernels = usual();
    kernels[1].scratch = 1 << 20;
    let device = Scripted::new(kernels);
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let lean = Constraints { memory_max: Some(Bytes(1024)), ..Constraints::default() };
    let lean = planner.terms(&Terms { constraints: lean, ..Terms::default() }).unwrap();
    planner.plan(&problem(8), TermsId::default()).unwrap();
    planner.plan(&problem(8), lean).unwrap();
    let name = |terms| planner.decision(&problem(8), terms).unwrap().winner().unwrap().name.to_string();
    assert_eq!((name(TermsId::default()).as_str(), name(lean).as_str()), ("fast", "slow"));
    let decision = planner.explain(&problem(8), lean).unwrap();
    let fast = decision.rivals.iter().find(|rival| &*rival.name == "fast").unwrap();
    assert!(fast.out_because().unwrap().contains("limit 1.00 KiB"));
    // Nobody can keep this: an error that says who broke what, not a plan that breaks it.
    let strict = Constraints { latency_max: Some(Nanos(1)), ..Constraints::default() };
    let strict = planner.terms(&Terms { constraints: strict, ..Terms::default() }).unwrap();
    let error = planner.plan(&problem(8), strict).unwrap_err().to_string();
    assert!(error.contains("custom.op:8") && error.contains("limit 1 ns"), "{error}");
}

#[test]
fn a_rival_whose_measured_time_breaks_the_latency_limit_is_never_the_plan() {
    // By their work alone all are expected to take a microsecond.
    let device = Scripted::new(vec![kernel("slow", &[(1, 50_000)]), reference(500_000)]);
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let within = |limit| {
        let constraints = Constraints { latency_max: Some(Nanos(limit)), ..Constraints::default() };
        planner.terms(&Terms { constraints, ..Terms::default() }).unwrap()
    };
    // A call does not wait for a race longer than it may take; asked to tune, the race is run and its winner refused.
    let measure = request(Patience::Measure);
    let error = planner.tune(&problem(8), within(20_000), &measure, &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("expected to take 50.0 µs, limit 20.0 µs"), "{error}");
    let error = planner.plan(&problem(8), within(20_000)).unwrap_err().to_string();
    assert!(error.contains("expected to take 50.0 µs, limit 20.0 µs"), "{error}");
    assert!(planner.known(&problem(8), within(20_000)).is_none());
    assert!(planner.plan(&problem(8), within(60_000)).is_ok());
}

#[test]
fn a_kernel_that_hung_elsewhere_does_not_answer_because_the_others_are_too_slow() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(vec![kernel("forever", &[(1, 10_000_000_000)]), reference(50_000)]);
    planner(&device, &wisdom, Patience::Measure).plan(&problem(8), TermsId::default()).unwrap();
    let planner = planner(&device, &wisdom, Patience::Estimate);
    let constraints = Constraints { latency_max: Some(Nanos(10)), ..Constraints::default() };
    let strict = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
    let error = planner.plan(&problem(9), strict).unwrap_err().to_string();
    assert!(error.contains("forever: excluded: its time is not known, limit 10 ns"), "{error}");
}

#[test]
fn a_call_with_less_time_than_a_race_takes_measures_nothing() {
    let device = Scripted::new(usual());
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let constraints = Constraints { latency_max: Some(Nanos::from_millis(1)), ..Constraints::default() };
    let terms = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
    assert!(planner.plan(&problem(8), terms).is_ok());
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
}

#[test]
fn weights_on_memory_can_make_a_slower_kernel_the_best() {
    let mut kernels = usual();
    kernels[1].scratch = 1 << 30;
    let device = Scripted::new(kernels);
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let objective = Objective { memory: 0.5, ..Objective::default() };
    let thrifty = planner.terms(&Terms { objective, ..Terms::default() }).unwrap();
    planner.plan(&problem(8), thrifty).unwrap();
    assert_eq!(&*planner.decision(&problem(8), thrifty).unwrap().winner().unwrap().name, "slow");
}

#[test]
fn a_new_candidate_value_challenges_the_remembered_winner() {
    let wisdom = Arc::new(Wisdom::in_memory());
    planner(&Scripted::new(usual()), &wisdom, Patience::Measure)
        .plan(&problem(8), TermsId::default())
        .unwrap();
    let mut more = usual();
    more[1].points.push((4, 1_000));
    let device = Scripted::new(more);
    assert_eq!(chosen(&planner(&device, &wisdom, Patience::Measure), 8), "fast tile=4 (raced)");
    // In mode off nothing is measured, so the remembered winner stays.
    assert_eq!(chosen(&planner(&device, &Arc::clone(&wisdom), Patience::Off), 8), "fast tile=4 (remembered)");
}

#[test]
fn a_changed_kernel_version_forgets_that_kernel_only() {
    let wisdom = Arc::new(Wisdom::in_memory());
    planner(&Scripted::new(usual()), &wisdom, Patience::Measure)
        .plan(&problem(8), TermsId::default())
        .unwrap();
    let mut changed = usual();
    changed[1].version = "2";
    let planner = planner(&Scripted::new(changed), &wisdom, Patience::Estimate);
    let decision = planner.explain(&problem(8), TermsId::default()).unwrap();
    for rival in &decision.rivals {
        let basis = rival.estimate().unwrap().basis;
        let measured = matches!(basis, Basis::Measured(_));
        assert_eq!(measured, &*rival.name == "slow" || &*rival.name == "reference", "{} {basis}", rival.name);
    }
}

#[test]
fn forgetting_a_kernel_that_failed_lets_it_race_again() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let mut kernels = usual();
    kernels.push(Script { fails: Some(FailureKind::Launch), ..kernel("cured", &[(1, 10)]) });
    let sick = Scripted::new(kernels.clone());
    assert!(chosen(&planner(&sick, &wisdom, Patience::Measure), 8).starts_with("fast "));
    kernels[3].fails = None;
    let device = Scripted::new(kernels);
    assert_eq!(chosen(&planner(&device, &wisdom, Patience::Measure), 8), "fast tile=2 (remembered)");
    let next = planner(&device, &wisdom, Patience::Measure);
    next.forget(&Filter::kernel("cured"));
    assert_eq!(chosen(&next, 8), "cured tile=1 (raced)");
}

#[test]
fn ties_keep_what_is_in_force() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let twins = |a: u64, b: u64| {
        Scripted::new(vec![kernel("a", &[(1, a)]), kernel("b", &[(1, b)]), reference(500_000)])
    };
    assert!(chosen(&planner(&twins(10_000, 9_000), &wisdom, Patience::Measure), 8).starts_with("b "));
    // Now `a` is faster by one percent only: measured again on request, `b` stays.
    let device = twins(9_000, 9_090);
    let next = planner(&device, &wisdom, Patience::Measure);
    let decision =
        next.tune(&problem(8), TermsId::default(), &request(Patience::Exhaustive), &mut |_| ()).unwrap();
    assert_eq!(&*decision.winner().unwrap().name, "b");
    assert_eq!(decision.reason, Reason::KeptIncumbent);
}

#[test]
fn exhaustive_patience_measures_every_point_once_and_is_not_repeated() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(usual());
    let planner = planner(&device, &wisdom, Patience::Measure);
    let terms = TermsId::default();
    let decision = planner.tune(&problem(8), terms, &request(Patience::Exhaustive), &mut |_| ()).unwrap();
    assert!(decision.complete && decision.runs > 0);
    for rival in &decision.rivals {
        assert!(matches!(rival.estimate().unwrap().basis, Basis::Measured(_)), "{}", rival.name);
    }
    let again = planner.tune(&problem(8), terms, &request(Patience::Exhaustive), &mut |_| ()).unwrap();
    assert_eq!((again.runs, again.reason), (0, Reason::Remembered));
}

#[test]
fn a_race_cut_short_is_taken_up_again_only_by_a_larger_session() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let points: Vec<(u32, u64)> = (1..40).map(|tile| (tile, 900_000 + u64::from(tile))).collect();
    let device = Scripted::new(vec![kernel("many", &points), reference(50_000_000)]);
    let planner = planner(&device, &wisdom, Patience::Measure);
    let tune = |budget: u64, session: u64| {
        let (budget, session) = (Nanos::from_millis(budget), Nanos::from_millis(session));
        let request = TuneRequest {
            session,
            rules: Rules::default(),
            ..TuneRequest::new(Patience::Exhaustive, budget)
        };
        planner.tune(&problem(8), TermsId::default(), &request, &mut |_| ()).unwrap()
    };
    let cut = tune(10, 100);
    assert!(!cut.complete && cut.runs > 0, "{} runs", cut.runs);
    let again = tune(80, 100);
    assert_eq!((again.complete, again.runs), (false, 0));
    let more = tune(60_000, 60_000);
    assert!(more.complete && more.runs > 0);
    assert_eq!(tune(60_000, 60_000).runs, 0);
}

#[test]
fn a_race_ends_when_the_best_is_good_enough_and_says_so() {
    // By its work, 1000 bytes at a byte a nanosecond, nothing takes less than a microsecond.
    let kernels = || vec![kernel("near", &[(1, 1_100)]), kernel("far", &[(1, 1_250)]), reference(5_000)];
    let tune = |good_enough| {
        let device = Scripted::new(kernels());
        let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
        let asked = TuneRequest { good_enough, ..request(Patience::Measure) };
        let decision = planner.tune(&problem(8), TermsId::default(), &asked, &mut |_| ()).unwrap();
        assert!(decision.complete);
        (decision.runs, decision.notes())
    };
    let (runs, notes) = tune(Some(0.9));
    assert_eq!(notes, ["good enough: 91 % of the roofline"]);
    let (all, none) = tune(Some(0.95));
    assert!(runs < all && none.is_empty(), "{runs} {all} {none:?}");
    assert_eq!(tune(None), (all, vec![]));
}

#[test]
fn an_import_counts_from_the_next_call_on_and_a_dry_run_changes_nothing() {
    let elsewhere = Arc::new(Wisdom::in_memory());
    planner(&Scripted::new(usual()), &elsewhere, Patience::Measure)
        .plan(&problem(8), TermsId::default())
        .unwrap();
    let text = elsewhere.export(&Filter::everything());

    let device = Scripted::new(usual());
    let here = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Off);
    assert!(chosen(&here, 8).starts_with("slow"));
    let report = here.import(&text, false).unwrap();
    assert!(report.new > 0 && !report.committed && !report.changes.is_empty());
    assert!(chosen(&here, 8).starts_with("slow"));
    here.import(&text, true).unwrap();
    assert_eq!(chosen(&here, 8), "fast tile=2 (remembered)");
    here.forget(&Filter::everything());
    assert!(chosen(&here, 8).starts_with("slow"));
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
}

#[test]
fn live_reports_reach_wisdom_and_survive() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(usual());
    let planner = planner(&device, &wisdom, Patience::Measure);
    planner.plan(&problem(8), TermsId::default()).unwrap();
    let plan = *planner.known(&problem(8), TermsId::default()).unwrap().1;
    for ns in [3_100, 3_200, 2_900] {
        planner.report(&plan, Nanos(ns));
    }
    drop(planner);
    let facts = wisdom.facts("scripted \"machine\"\n../x", "custom.op:8");
    let live = facts.iter().find(|fact| fact.key.condition.name() == "live").unwrap();
    let stats = live.outcome.stats().unwrap();
    assert_eq!((stats.n, stats.min_ns), (3, 2_900.0));
}

#[test]
fn a_call_during_another_threads_measuring_gets_an_estimate_at_once() {
    // A progress callback runs while the planner's cold lock is held; a plan asked for from inside must not wait.
    let device = Scripted::new(usual());
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let mut asked = 0;
    planner
        .tune(&problem(8), TermsId::default(), &request(Patience::Measure), &mut |_| {
            if asked == 0 {
                assert!(planner.plan(&problem(99), TermsId::default()).is_ok());
            }
            asked += 1;
        })
        .unwrap();
    assert!(asked > 0 && planner.known(&problem(99), TermsId::default()).is_none());
}

#[test]
fn same_wisdom_same_plans() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(usual());
    let first = planner(&device, &wisdom, Patience::Measure);
    for size in 1..40 {
        first.plan(&problem(size), TermsId::default()).unwrap();
    }
    let plans = |patience| -> Vec<String> {
        let planner = planner(&device, &wisdom, patience);
        (1..60).map(|size| chosen(&planner, size)).collect()
    };
    assert_eq!(plans(Patience::Off), plans(Patience::Off));
    assert_eq!(plans(Patience::Estimate), plans(Patience::Estimate));
}

/// Wisdom in which these kernels were measured on problems of these sizes.
fn measured(kernels: &[Script], sizes: &[u64]) -> Arc<Wisdom> {
    let wisdom = Arc::new(Wisdom::in_memory());
    let device = Scripted::new(kernels.to_vec());
    for &size in sizes {
        let planner = planner(&device, &wisdom, Patience::Exhaustive);
        planner
            .tune(&problem(size), TermsId::default(), &request(Patience::Exhaustive), &mut |_| ())
            .unwrap();
    }
    wisdom
}

#[test]
fn nobody_wins_by_an_estimate_because_it_was_never_measured() {
    let known = [kernel("slow", &[(1, 50_000), (2, 40_000)]), kernel("fast", &[(1, 9_000), (2, 3_000)])];
    let wisdom = measured(&known, &[8, 16]);
    // By the machine's rates alone the others would take a microsecond.
    for other in [reference(500_000), kernel("new", &[(1, 500_000)])] {
        let device = Scripted::new([known.as_slice(), &[other]].concat());
        assert_eq!(chosen(&planner(&device, &wisdom, Patience::Estimate), 32), "fast tile=2 (estimated)");
    }
    // Where nobody else can run, the reference does.
    let out = |name| Script { declines: Some("not this one"), ..kernel(name, &[(1, 1)]) };
    let device = Scripted::new(vec![out("slow"), out("fast"), reference(500_000)]);
    assert_eq!(chosen(&planner(&device, &wisdom, Patience::Estimate), 32), "reference tile=1 (estimated)");
}

/// What is chosen by estimates of a kernel that live calls of this problem were timed with, and one measured on other sizes only.
fn by_estimate(seen_ns: u64, fitted_ns: u64) -> String {
    let (seen, fitted) = (kernel("seen", &[(1, seen_ns)]), kernel("fitted", &[(1, fitted_ns)]));
    let wisdom = measured(std::slice::from_ref(&fitted), &[8, 16]);
    let live = planner(&Scripted::new(vec![seen.clone()]), &wisdom, Patience::Estimate);
    let plan = live.plan(&problem(32), TermsId::default()).unwrap();
    (0..23).for_each(|_| live.report(&plan, Nanos(seen_ns)));
    live.drain();
    chosen(&planner(&Scripted::new(vec![fitted, seen]), &wisdom, Patience::Estimate), 32)
}

#[test]
fn a_fit_does_not_beat_a_measurement_by_less_than_fits_are_off() {
    assert_eq!(by_estimate(3_000, 2_500), "seen tile=1 (estimated)");
    assert_eq!(by_estimate(30_000, 1_500), "fitted tile=1 (estimated)");
}
