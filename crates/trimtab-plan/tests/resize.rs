//! Live resize on a scripted machine: a plan nobody measured learns its width from what its calls took.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Script, Scripted, kernel, reference};
use std::sync::Arc;
use trimtab_core::{Constraints, Device, LaunchError, Nanos, Objective, Patience, Problem, Terms};
use trimtab_plan::{Plan, Planner, Reason, Settings, TermsId, TuneRequest};
use trimtab_tune::Rules;
use trimtab_wisdom::{Outcome, Wisdom};

/// The default, 32, is twice as slow as 512; between them it becomes a little worse first.
const WIDTHS: [(u32, u64); 6] =
    [(32, 200_000), (64, 210_000), (128, 220_000), (256, 150_000), (512, 100_000), (1024, 160_000)];

fn problem() -> Problem {
    trimtab_core::Custom::new("op", &[8]).unwrap().into()
}

fn device() -> Arc<Scripted> {
    Scripted::new(vec![kernel("wide", &WIDTHS)])
}

fn planner_with(device: &Arc<Scripted>, wisdom: &Arc<Wisdom>, settings: Settings) -> Planner {
    let devices = vec![Arc::clone(device) as Arc<dyn Device>];
    Planner::new(devices, Arc::clone(wisdom), settings, Terms::default())
}

fn estimating() -> Settings {
    Settings { patience: Patience::Estimate, ..Settings::default() }
}

fn planner(device: &Arc<Scripted>) -> Planner {
    planner_with(device, &Arc::new(Wisdom::in_memory()), estimating())
}

/// One call: the plan in force runs as long as is written down, is reported, and feedback is drained. Its width.
fn dispatch(planner: &Planner, device: &Scripted, terms: TermsId) -> u32 {
    let plan = planner.plan(&problem(), terms).unwrap();
    planner.report(&plan, Nanos(device.ns(plan.kernel, &plan.point)));
    planner.drain();
    plan.point.values()[0]
}

fn dispatches(planner: &Planner, device: &Scripted, count: usize) -> Vec<u32> {
    (0..count).map(|_| dispatch(planner, device, TermsId::default())).collect()
}

fn in_force(planner: &Planner) -> Plan {
    *planner.known(&problem(), TermsId::default()).unwrap().1
}

fn width(planner: &Planner) -> u32 {
    in_force(planner).point.values()[0]
}

fn notes(planner: &Planner) -> String {
    planner.explain(&problem(), TermsId::default()).unwrap().notes().join("\n")
}

#[test]
fn a_default_that_is_twice_as_slow_is_left_within_8_dispatches_and_explain_says_why() {
    let (device, wisdom) = (device(), Arc::new(Wisdom::in_memory()));
    let planner = planner_with(&device, &wisdom, estimating());
    let had = dispatches(&planner, &device, 8);
    assert_eq!(had[0], 32);
    assert_eq!(width(&planner), 512, "{had:?}");
    assert!(notes(&planner).contains("live resize: tile 512: the best seen"), "{}", notes(&planner));
    let more = dispatches(&planner, &device, 60);
    assert_eq!(width(&planner), 512, "{more:?}");
    assert_eq!(notes(&planner).matches("live resize").count(), 1);
    assert!(notes(&planner).contains("live resize: tile 32 → 512, 2.0× throughput"), "{}", notes(&planner));
    let decision = planner.explain(&problem(), TermsId::default()).unwrap();
    assert_eq!((decision.reason, &*decision.winner().unwrap().point_name), (Reason::Resized, "tile=512"));
    assert_eq!(decision.expected_loss, None);
    // What was seen is remembered under the points at which it was seen.
    let facts = wisdom.facts("scripted \"machine\"\n../x", &problem().to_string());
    for (value, ns) in WIDTHS {
        let fact = facts.iter().find(|fact| fact.key.point == format!("tile={value}")).unwrap();
        assert_eq!(fact.key.condition.name(), "live");
        assert!(matches!(&fact.outcome, Outcome::Timed(stats) if stats.min_ns == ns as f64), "{value}");
    }
    // A new process starts where this one ended, and has nothing to try.
    let next = planner_with(&device, &wisdom, estimating());
    assert_eq!(dispatches(&next, &device, 20), [512; 20]);
}

#[test]
fn every_call_is_seen_while_it_is_resized_and_afterwards_as_many_as_ever() {
    let quick: Vec<(u32, u64)> = WIDTHS.iter().map(|&(value, ns)| (value, ns / 1_000)).collect();
    let device = Scripted::new(vec![kernel("wide", &quick), reference(900_000)]);
    let planner = planner(&device);
    planner.plan(&problem(), TermsId::default()).unwrap();
    assert_eq!(in_force(&planner).sample_interval(), 1);
    // Unless they are so short that timing all of them would cost the caller: these take 200 ns.
    dispatches(&planner, &device, 3);
    assert_eq!((width(&planner), in_force(&planner).sample_interval()), (64, 32));
    dispatches(&planner, &device, 60);
    let plan = in_force(&planner);
    assert_eq!((plan.point.values()[0], plan.expected), (512, Nanos(100)));
    assert_eq!(plan.sample_interval(), 64);
    // Calls that are a little faster every time do not put a new plan in force each.
    for call in 0..50 {
        planner.report(&in_force(&planner), Nanos(100 - call / 2));
        planner.drain();
    }
    assert_eq!(in_force(&planner), plan);
}

#[test]
fn where_the_default_is_best_it_stays_and_is_called_what_it_was() {
    let device = Scripted::new(vec![kernel("wide", &[(4, 10_000), (8, 12_000), (16, 15_000)])]);
    let planner = planner(&device);
    dispatches(&planner, &device, 100);
    assert_eq!(width(&planner), 4);
    assert!(notes(&planner).contains("live resize: tile 4 stays"), "{}", notes(&planner));
    let decision = planner.explain(&problem(), TermsId::default()).unwrap();
    assert_eq!(decision.reason, Reason::Estimated);
}

#[test]
fn at_most_one_change_is_made_at_a_time_and_a_held_plan_stays_good() {
    let device = device();
    let planner = planner(&device);
    let held = planner.plan(&problem(), TermsId::default()).unwrap();
    // A whole burst before feedback is drained: the first calls lead to a change, the others were made before it.
    for _ in 0..50 {
        planner.report(&held, Nanos(200_000));
    }
    planner.drain();
    assert_eq!(width(&planner), 64);
    // Calls of a plan that is no longer in force say nothing about the one that is.
    for _ in 0..50 {
        planner.report(&held, Nanos(1));
        planner.drain();
    }
    assert_eq!(width(&planner), 64);
    assert!(planner.reports_dropped() == 0 && held.point.values() == [32]);
}

#[test]
fn what_was_measured_pinned_or_asked_to_stay_is_not_resized() {
    let stays = |settings: Settings, terms: Terms| {
        let device = device();
        let planner = planner_with(&device, &Arc::new(Wisdom::in_memory()), settings);
        let terms = planner.terms(&terms).unwrap();
        let had: Vec<u32> = (0..30).map(|_| dispatch(&planner, &device, terms)).collect();
        had.iter().all(|value| *value == had[0])
    };
    let terms = Terms::default();
    assert!(!stays(estimating(), terms));
    assert!(stays(Settings::default(), terms), "raced");
    assert!(stays(Settings { patience: Patience::Off, ..Settings::default() }, terms), "mode off");
    assert!(stays(Settings { live_resize: false, ..estimating() }, terms), "switched off");
    let latency = Constraints { latency_max: Some(Nanos::from_millis(900)), ..Constraints::default() };
    assert!(stays(estimating(), Terms { constraints: latency, ..terms }), "a limit on latency");
    let objective = Objective { memory: 0.5, ..Objective::default() };
    assert!(stays(estimating(), Terms { objective, ..terms }), "another objective");
}

#[test]
fn a_constraint_is_kept_while_looking() {
    // On this machine a point of n uses n threads, up to four.
    let points = [(1, 400_000), (2, 200_000), (3, 150_000), (4, 100_000)];
    let device = Scripted::new(vec![kernel("wide", &points), reference(9_000_000)]);
    let planner = planner(&device);
    let constraints = Constraints { threads_max: Some(2), ..Constraints::default() };
    let terms = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
    let had: Vec<u32> = (0..60).map(|_| dispatch(&planner, &device, terms)).collect();
    assert!(had.iter().all(|value| *value <= 2) && had[59] == 2, "{had:?}");
}

#[test]
fn a_width_that_gives_wrong_results_is_never_put_in_force() {
    let liar = Script { lies_at: Some(512), ..kernel("wide", &WIDTHS) };
    let device = Scripted::new(vec![liar, reference(9_000_000)]);
    let planner = planner(&device);
    let had = dispatches(&planner, &device, 100);
    assert!(!had.contains(&512) && width(&planner) == 256, "{had:?}");
    let decision = planner.survey(&planner.explain(&problem(), TermsId::default()).unwrap());
    let lied = decision.rivals.iter().find(|rival| rival.point_name == "tile=512").unwrap();
    assert!(lied.out_because().unwrap().contains("wrong"), "{:?}", lied.standing);
}

#[test]
fn tuning_ends_it_and_its_winner_stays() {
    let device = device();
    let planner = planner(&device);
    dispatches(&planner, &device, 5);
    assert!(width(&planner) != 32);
    let budget = Nanos::from_millis(10_000);
    let request = TuneRequest { rules: Rules::default(), ..TuneRequest::new(Patience::Exhaustive, budget) };
    planner.tune(&problem(), TermsId::default(), &request, &mut |_| ()).unwrap();
    assert_eq!(dispatches(&planner, &device, 30), [512; 30]);
    assert!(!notes(&planner).contains("live resize"), "{}", notes(&planner));
}

#[test]
fn a_launch_that_fails_ends_it() {
    let device = Scripted::new(vec![kernel("wide", &WIDTHS), reference(9_000_000)]);
    let planner = planner(&device);
    dispatches(&planner, &device, 3);
    let plan = in_force(&planner);
    assert_eq!(plan.point.values(), [64]);
    let error = LaunchError::Kernel("scripted".to_string());
    let next = planner.failed(&problem(), TermsId::default(), &plan, &error).unwrap();
    let had = dispatches(&planner, &device, 30);
    assert!(had.iter().all(|value| [*value] == next.point.values()), "{had:?}");
    assert!(next.point.values() != [64]);
}

#[test]
fn forgetting_starts_over() {
    let device = device();
    let planner = planner(&device);
    dispatches(&planner, &device, 60);
    assert_eq!(width(&planner), 512);
    planner.forget(&trimtab_wisdom::Filter::everything());
    let had = dispatches(&planner, &device, 60);
    assert!(had[0] == 32 && had[59] == 512, "{had:?}");
}

#[test]
fn a_load_that_makes_another_width_the_best_is_followed_and_a_slower_machine_is_not() {
    let device = device();
    let planner = planner(&device);
    dispatches(&planner, &device, 200);
    assert_eq!(width(&planner), 512);
    let calls = |count: usize, ns: &dyn Fn(u32) -> u64| {
        for _ in 0..count {
            let plan = in_force(&planner);
            planner.report(&plan, Nanos(ns(plan.point.values()[0])));
            planner.drain();
        }
        width(&planner)
    };
    let written = |value: u32| WIDTHS.iter().find(|width| width.0 == value).unwrap().1;
    assert_eq!(calls(400, &|value| 3 * written(value)), 512);
    assert!(notes(&planner).contains("live resize: tile 32 → 512, 2.0× throughput"), "{}", notes(&planner));
    assert_eq!(calls(400, &|value| 20_000 * u64::from(value)), 32);
    assert!(notes(&planner).contains("live resize: tile 512 → 32, 16.0× throughput"), "{}", notes(&planner));
    let decision = planner.explain(&problem(), TermsId::default()).unwrap();
    assert_eq!(decision.reason, Reason::Estimated);
}

#[test]
fn without_anybody_draining_the_background_thread_does_it() {
    let device = device();
    let planner = planner(&device);
    planner.plan(&problem(), TermsId::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !notes(&planner).contains("throughput in live calls") {
                    let plan = in_force(&planner);
                    planner.report(&plan, Nanos(device.ns(plan.kernel, &plan.point)));
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(width(&planner), 512);
}
