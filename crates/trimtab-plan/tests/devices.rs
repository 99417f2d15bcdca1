//! Planning for several devices: handing over counts, a device that cannot win costs nothing, and twins are told apart.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Constraints, Device, Nanos, Patience, Problem, Terms};
use trimtab_plan::{Decision, Planner, Reason, Settings, Standing, TermsId};
use trimtab_wisdom::Wisdom;

fn problem() -> Problem {
    trimtab_core::Custom::new("op", &[8]).unwrap().into()
}

fn planner(devices: &[&Arc<Scripted>], wisdom: &Arc<Wisdom>, patience: Patience) -> Planner {
    let settings = Settings { patience, ..Settings::default() };
    let devices = devices.iter().map(|&device| Arc::clone(device) as Arc<dyn Device>).collect();
    Planner::new(devices, Arc::clone(wisdom), settings, Terms::default())
}

fn decided(planner: &Planner) -> Arc<Decision> {
    planner.plan(&problem(), TermsId::default()).unwrap();
    planner.explain(&problem(), TermsId::default()).unwrap()
}

fn winner(decision: &Decision) -> String {
    let winner = decision.winner().unwrap();
    format!("{} on {} ({})", winner.name, winner.device_id, decision.reason.name())
}

fn processor(ns: u64) -> Arc<Scripted> {
    Scripted::new(vec![kernel("host", &[(1, ns)]), reference(900_000)])
}

#[test]
fn a_faster_kernel_on_a_gpu_wins_only_if_handing_over_is_paid_for() {
    for (transfer, wins) in [(0, true), (5_000, true), (8_000, false), (50_000, false)] {
        let wisdom = Arc::new(Wisdom::in_memory());
        let host = processor(10_000);
        let gpu = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 3_000)])], transfer, false);
        let decision = decided(&planner(&[&host, &gpu], &wisdom, Patience::Measure));
        let expected = if wins { "kernel on gpu0 (raced)" } else { "host on scripted (raced)" };
        assert_eq!(winner(&decision), expected, "{transfer}");
    }
}

#[test]
fn a_gpu_that_cannot_win_is_neither_measured_nor_asked_for_its_rates_and_explain_says_why() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let host = processor(10_000);
    let gpu = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 1)])], 50_000, false);
    let decision = decided(&planner(&[&host, &gpu], &wisdom, Patience::Measure));
    assert_eq!((gpu.runs.load(Ordering::Relaxed), gpu.rated.load(Ordering::Relaxed)), (0, 0));
    let rival = decision.rivals.iter().find(|rival| &*rival.device_id == "gpu0").unwrap();
    let Standing::Dominated(reason) = &rival.standing else { unreachable!("{:?}", rival.standing) };
    assert!(reason.contains("50.0 µs") && reason.contains("scripted does it all in"), "{reason}");
}

#[test]
fn what_is_remembered_names_the_device_also_among_twins() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let host = processor(90_000);
    let slow = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 30_000)])], 100, false);
    let fast = Scripted::gpu("gpu1", vec![kernel("kernel", &[(1, 10_000)])], 100, false);
    let devices = [&host, &slow, &fast];
    let first = decided(&planner(&devices, &wisdom, Patience::Measure));
    assert_eq!(winner(&first), "kernel on gpu1 (raced)");
    let runs = || devices.map(|device| device.runs.load(Ordering::Relaxed));
    let before = runs();
    let again = decided(&planner(&devices, &wisdom, Patience::Measure));
    assert_eq!(winner(&again), "kernel on gpu1 (remembered)");
    assert_eq!(runs(), before);
}

#[test]
fn building_a_kernel_is_remembered_apart_from_running_it() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let gpu = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 3_000)])], 100, false);
    decided(&planner(&[&gpu], &wisdom, Patience::Measure));
    let facts = wisdom.facts("scripted gpu0", &problem().to_string());
    let time = |condition: &str| {
        let fact = facts.iter().find(|fact| fact.key.condition.name() == condition).unwrap();
        match &fact.outcome {
            trimtab_wisdom::Outcome::Timed(stats) => stats.min_ns,
            other => unreachable!("{other:?}"),
        }
    };
    assert_eq!((time("quiet"), time("compile")), (3_000.0, 77_000.0));
    // And a new process plans with what running took.
    let decision = decided(&planner(&[&gpu], &wisdom, Patience::Off));
    assert_eq!(decision.winner().unwrap().estimate().unwrap().time, Nanos(3_000));
}

#[test]
fn a_gpu_that_cannot_be_measured_now_is_taken_only_if_its_estimate_is_clearly_better() {
    // By its work the kernel takes about a microsecond; analytic estimates may be off by a factor of four.
    for (host_ns, wins) in [(20_000, true), (2_000, false)] {
        let wisdom = Arc::new(Wisdom::in_memory());
        let host = processor(host_ns);
        let gpu = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 1_000)])], 100, true);
        let decision = decided(&planner(&[&host, &gpu], &wisdom, Patience::Measure));
        let winner = decision.winner().unwrap();
        assert_eq!(&*winner.device_id == "gpu0", wins, "{host_ns}: {:?}", decision.notes());
        assert_eq!(decision.reason == Reason::Estimated, wins);
        assert!(decision.notes().iter().any(|note| note.contains("gpu0: kernels take too long to build")));
    }
}

#[test]
fn a_limit_on_latency_counts_handing_over() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let gpu = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 1_000)])], 30_000, false);
    let planner = planner(&[&gpu], &wisdom, Patience::Measure);
    decided(&planner);
    let constraints = Constraints { latency_max: Some(Nanos(20_000)), ..Constraints::default() };
    let terms = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
    let refused = planner.plan(&problem(), terms).unwrap_err().to_string();
    assert!(refused.contains("31.0 µs"), "{refused}");
}

#[test]
fn in_mode_off_what_was_measured_is_compared_with_handing_over() {
    let wisdom = Arc::new(Wisdom::in_memory());
    let host = processor(10_000);
    let gpu = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 3_000)])], 9_000, false);
    // Each alone has measured itself; together nothing was decided yet.
    decided(&planner(&[&host], &wisdom, Patience::Measure));
    decided(&planner(&[&gpu], &wisdom, Patience::Measure));
    let decision = decided(&planner(&[&host, &gpu], &wisdom, Patience::Off));
    assert_eq!(&*decision.winner().unwrap().name, "host");
}

#[test]
fn calls_on_a_gpu_try_nothing_and_explain_says_so() {
    let wisdom = Arc::new(Wisdom::in_memory());
    // Nothing can be measured on it now: the plan rests on an estimate.
    let gpu =
        Scripted::gpu("gpu0", vec![kernel("one", &[(1, 3_000)]), kernel("two", &[(1, 2_000)])], 100, true);
    let planner = planner(&[&gpu], &wisdom, Patience::Measure);
    let decision = decided(&planner);
    assert_eq!(winner(&decision), "one on gpu0 (estimated)");
    assert!(
        decision.notes().iter().any(|note| note.contains("do not try other kernels")),
        "{:?}",
        decision.notes()
    );
    for _ in 0..500 {
        let plan = *planner.for_call(&problem(), TermsId::default()).unwrap().1;
        planner.report(&plan, Nanos(3_000));
        planner.drain();
        assert_eq!(plan.kernel.0, 0);
    }
    assert_eq!(planner.ledger().explored, 0);
}
