//! One planner for all devices: calls that may use all of them, calls on one alone, and devices that join and leave.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Constraints, Custom, Device, Nanos, Patience, Problem, Terms};
use trimtab_plan::{PlanError, Planner, Reason, Settings, TermsId, Why};
use trimtab_wisdom::{Filter, Wisdom};

fn problem() -> Problem {
    Custom::new("op", &[8]).unwrap().into()
}

fn host() -> Arc<Scripted> {
    Scripted::new(vec![kernel("host", &[(1, 10_000)]), reference(900_000)])
}

/// A device that is faster than the host, moving operands to it apart.
fn gpu() -> Arc<Scripted> {
    Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 3_000)])], 50_000, false)
}

fn devices(all: &[&Arc<Scripted>]) -> Vec<Arc<dyn Device>> {
    all.iter().map(|&device| Arc::clone(device) as Arc<dyn Device>).collect()
}

fn planner(all: &[&Arc<Scripted>], usable: &[bool], wisdom: &Arc<Wisdom>, patience: Patience) -> Planner {
    let settings = Settings { patience, ..Settings::default() };
    Planner::with_usable(devices(all), usable.to_vec(), Arc::clone(wisdom), settings, Terms::default())
}

fn on(planner: &Planner, device: u16) -> TermsId {
    planner.terms_on(&Terms::default(), device).unwrap()
}

#[test]
fn a_call_on_one_device_is_planned_there_with_nothing_to_move_whoever_else_there_is() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let (host, gpu) = (host(), gpu());
    let planner = planner(&[&host, &gpu], &[true, true], &wisdom, Patience::Measure);
    let devices = [TermsId::default(), on(&planner, 0), on(&planner, 1)]
        .map(|terms| planner.plan(&problem(), terms).unwrap().device);
    assert_eq!(devices, [0, 0, 1]);
    let there = planner.decision(&problem(), on(&planner, 1)).unwrap();
    assert_eq!((there.rivals.len(), there.winner().unwrap().transfer), (1, Nanos(0)));
    assert_eq!(planner.terms_on(&Terms::default(), 2), Err(PlanError::NoDevice));
}

#[test]
fn what_a_device_alone_decided_is_remembered_for_calls_on_it_and_the_other_way_round() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let (host, gpu) = (host(), gpu());
    let alone = planner(&[&gpu], &[true], &wisdom, Patience::Measure);
    alone.plan(&problem(), TermsId::default()).unwrap();
    let both = planner(&[&host, &gpu], &[true, true], &wisdom, Patience::Measure);
    let made = |planner: &Planner, terms| {
        planner.plan(&problem(), terms).unwrap();
        planner.decision(&problem(), terms).unwrap().reason
    };
    assert_eq!(made(&both, on(&both, 1)), Reason::Remembered);
    assert_eq!(made(&both, on(&both, 0)), Reason::Raced);
    let alone = planner(&[&host], &[true], &wisdom, Patience::Measure);
    assert_eq!(made(&alone, TermsId::default()), Reason::Remembered);
    // The only device, with nothing to move anyway: the same plans.
    assert_eq!(on(&alone, 0), TermsId::default());
}

#[test]
fn a_device_that_may_not_be_used_is_planned_for_only_where_it_is_asked_for_alone() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let (host, gpu) = (host(), gpu());
    let planner = planner(&[&host, &gpu], &[false, true], &wisdom, Patience::Measure);
    assert_eq!(planner.plan(&problem(), TermsId::default()).unwrap().device, 1);
    assert_eq!(host.runs.load(Ordering::Relaxed), 0);
    assert_eq!(planner.machine(), "scripted gpu0");
    assert_eq!(planner.plan(&problem(), on(&planner, 0)).unwrap().device, 0);
    let none = self::planner(&[&host], &[false], &wisdom, Patience::Measure);
    assert_eq!(none.plan(&problem(), TermsId::default()), Err(PlanError::NoDevice));
}

#[test]
fn a_device_that_joined_is_asked_only_alone_and_takes_its_plans_along_when_it_leaves() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let (host, first) = (host(), gpu());
    let planner = planner(&[&host], &[true], &wisdom, Patience::Measure);
    let at = planner.join(Arc::clone(&first) as Arc<dyn Device>).unwrap();
    assert_eq!((at, planner.devices().len()), (1, 1));
    assert_eq!(planner.plan(&problem(), TermsId::default()).unwrap().device, 0);
    assert_eq!(first.runs.load(Ordering::Relaxed), 0);
    let terms = on(&planner, at);
    assert_eq!(planner.plan(&problem(), terms).unwrap().device, 1);
    planner.leave(at);
    assert!(planner.known(&problem(), terms).is_none() && planner.decision(&problem(), terms).is_none());
    assert!(planner.known(&problem(), TermsId::default()).is_some());
    assert_eq!(planner.plan(&problem(), terms), Err(PlanError::NoDevice));
    // Another takes its place and is measured: nothing of the first is believed of it.
    let next = Scripted::gpu("gpu1", vec![kernel("kernel", &[(1, 9_000)])], 0, false);
    assert_eq!(planner.join(Arc::clone(&next) as Arc<dyn Device>).unwrap(), at);
    assert_eq!(planner.plan(&problem(), on(&planner, at)).unwrap().expected, Nanos(9_000));
    // Devices that were there from the beginning stay.
    planner.leave(0);
    assert!(planner.known(&problem(), TermsId::default()).is_some());
    assert_eq!(Arc::strong_count(&first), 1);
}

#[test]
fn as_many_devices_join_as_there_are_places_and_a_place_that_was_left_is_free() {
    let planner = planner(&[&host()], &[true], &Arc::new(Wisdom::in_memory()), Patience::Off);
    let guest = gpu();
    let joined: Vec<u16> =
        std::iter::from_fn(|| planner.join(Arc::clone(&guest) as Arc<dyn Device>).ok()).collect();
    assert_eq!(joined.len(), 1024);
    let full = planner.join(Arc::clone(&guest) as Arc<dyn Device>).unwrap_err();
    assert_eq!(full, PlanError::TooManyDevices { limit: 1024 });
    planner.leave(joined[500]);
    assert_eq!(planner.join(guest as Arc<dyn Device>), Ok(joined[500]));
}

#[test]
fn an_estimate_is_what_a_call_would_go_by_and_runs_nothing() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let (host, gpu) = (host(), gpu());
    let planner = planner(&[&host, &gpu], &[true, true], &wisdom, Patience::Measure);
    let estimates = |terms| planner.estimate(&problem(), terms).unwrap();
    let runs = || host.runs.load(Ordering::Relaxed) + gpu.runs.load(Ordering::Relaxed);
    let terms = on(&planner, 1);
    assert_eq!(estimates(terms).basis.name(), "analytic");
    assert_eq!((runs(), planner.known(&problem(), terms)), (0, None));
    planner.plan(&problem(), terms).unwrap();
    assert_eq!((estimates(terms).time, estimates(terms).basis.name()), (Nanos(3_000), "measured"));
}

#[test]
fn who_finds_nobody_is_told_whether_a_limit_is_to_blame() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let planner = planner(&[&gpu()], &[true], &wisdom, Patience::Measure);
    let why = |problem: &Problem, terms| match planner.estimate(problem, terms) {
        Err(PlanError::NoRival { why, .. }) => Some(why),
        _ => None,
    };
    let constraints = Constraints { threads_max: Some(0), ..Constraints::default() };
    let none = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
    assert_eq!(why(&problem(), none), Some(Why::Constraint));
    let unknown = "matmul:f32:2x2x2".parse().unwrap();
    assert_eq!(why(&unknown, TermsId::default()), Some(Why::Unsupported));
    assert_eq!(why(&problem(), TermsId::default()), None);
}

#[test]
fn planning_anew_forgets_plans_and_nothing_that_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let wisdom = Arc::new(Wisdom::open(dir.path()));
    let planner = planner(&[&host()], &[true], &wisdom, Patience::Measure);
    planner.plan(&problem(), TermsId::default()).unwrap();
    planner.drain();
    let files = || -> Vec<_> {
        let all = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut all: Vec<_> = all.filter(|path| path.is_file()).collect();
        all.sort();
        all.iter().map(|path| std::fs::read(path).unwrap()).collect()
    };
    let before = files();
    assert!(!before.is_empty());
    planner.replan();
    planner.drain();
    assert_eq!(files(), before);
    assert!(planner.known(&problem(), TermsId::default()).is_none());
    planner.plan(&problem(), TermsId::default()).unwrap();
    assert_eq!(planner.decision(&problem(), TermsId::default()).unwrap().reason, Reason::Remembered);
    assert_eq!(planner.forget(&Filter::default()), 0);
    planner.drain();
    assert_eq!(files(), before);
}
