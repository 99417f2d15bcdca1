//! Calibrating on machines that do not exist: crossovers are found again, what is reported is what decides, and rules are obeyed.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

use std::sync::Arc;
use trimtab_core::{Basis, Device, Nanos, Patience, Problem, RandomNumbers, Terms};
use trimtab_plan::calibration::{Before, Calibration, DeviceTimes, Ladder, Origin, contested, measure};
use trimtab_plan::{Class, Crossover, Decision, Offload, Planner, Reason, Settings, Standing, TermsId, Why};
use trimtab_testing::machine::Machine;
use trimtab_wisdom::Wisdom;

/// What a whole call takes on a device of a machine.
fn call(machine: &Machine, device: usize, problem: &Problem) -> f64 {
    let device = [&machine.host, &machine.gpu][device];
    device.time(problem).unwrap() + device.transfer_overhead(problem).0 as f64
}

fn calibrated(machine: &Machine, noise: f64, seed: u64) -> Calibration {
    let mut dice = RandomNumbers::new(seed);
    let mut time = |device: usize, problem: &Problem| {
        Some(Nanos((call(machine, device, problem) * (1.0 + noise * dice.normal().abs())) as u64))
    };
    let ladder = Ladder { quick: false, rounds: 4, classes: &Class::ALL };
    let times = measure(&machine.devices(), ladder, &mut time, &mut |_, _| ());
    Calibration::new(times.into_iter().map(Some).collect(), 0)
}

fn planner(machine: &Machine, patience: Patience, offload: Offload) -> Planner {
    let settings = Settings { patience, offload, ..Settings::default() };
    Planner::new(machine.devices(), Arc::new(Wisdom::in_memory()), settings, Terms::default())
}

fn decided(planner: &Planner, text: &str) -> Arc<Decision> {
    let problem = text.parse().unwrap();
    planner.plan(&problem, TermsId::default()).unwrap();
    planner.explain(&problem, TermsId::default()).unwrap()
}

fn device(decision: &Decision) -> &str {
    &decision.winner().unwrap().device_id
}

#[test]
fn eight_calibrations_agree_within_a_step_or_say_that_they_do_not() {
    let mut found = 0;
    for machine in Machine::all() {
        for class in Class::ALL {
            let runs = (0..8).map(|seed| calibrated(&machine, 0.03, seed).crossover(1, class).unwrap());
            let places: Vec<f64> = runs
                .filter_map(|crossover| match crossover {
                    Crossover::At { size, .. } => Some(size as f64),
                    Crossover::NeverUpTo(size) => Some(size as f64 * class.step()),
                    Crossover::Always => Some(1.0),
                    Crossover::Unstable { .. } => None,
                })
                .collect();
            let (least, most) = places.iter().fold((f64::MAX, 0.0f64), |(a, b), p| (a.min(*p), b.max(*p)));
            assert!(places.is_empty() || most <= least * class.step(), "{} {class} {places:?}", machine.name);
            found += usize::from(places.len() == 8);
        }
    }
    // Saying "unstable" everywhere would satisfy the above.
    assert!(found >= 20, "only {found} of 30 are stable");
}

#[test]
fn classes_that_one_device_alone_has_kernels_for_are_not_contested() {
    let devices = Machine::discrete().devices();
    assert_eq!(contested(&devices), Class::ALL);
    assert_eq!(contested(&devices[..1]), []);
}

#[test]
fn a_slow_device_is_never_better_and_the_size_it_was_tried_to_is_said() {
    let calibration = calibrated(&Machine::slow(), 0.01, 1);
    for class in Class::ALL {
        let largest = class.ladder(false).last().and_then(Class::calibrated).unwrap().1;
        assert_eq!(calibration.crossover(1, class), Some(Crossover::NeverUpTo(largest)), "{class}");
    }
}

#[test]
fn what_is_reported_is_what_decides() {
    let machine = Machine::discrete();
    let calibration = calibrated(&machine, 0.01, 5);
    let Some(Crossover::At { size, .. }) = calibration.crossover(1, Class::Matmul) else {
        unreachable!("{:?}", calibration.crossover(1, Class::Matmul))
    };
    let planner = planner(&machine, Patience::Estimate, Offload::default());
    let before = decided(&planner, "matmul:f32:96x96x96");
    assert_eq!(before.winner().unwrap().estimate().unwrap().basis, Basis::Analytic);
    planner.calibrate(calibration.clone());
    let side = (size as f64 / 2.0).cbrt();
    for (share, expected) in [(0.25, "cpu"), (0.97, "cpu"), (1.03, "gpu0"), (4.0, "gpu0")] {
        let n = if share < 1.0 { (side * share).floor() } else { (side * share).ceil() } as u64;
        let text = format!("matmul:f32:{n}x{n}x{n}");
        let decision = decided(&planner, &text);
        assert_eq!(device(&decision), expected, "{text}, crossover {size} flops");
        let problem: Problem = text.parse().unwrap();
        for at in 0..2 {
            let best = decision.rivals.iter().filter(|rival| usize::from(rival.device) == at);
            let best = best.filter_map(|rival| rival.call_time()).min().unwrap();
            let said = calibration.expected(at, &problem).unwrap();
            assert_eq!(best, said.time, "{text} on {at}");
            assert_eq!(planner.best_on(&problem, TermsId::default(), at).unwrap().1, said.time);
        }
        assert!(matches!(decision.winner().unwrap().estimate().unwrap().basis, Basis::Fitted(n) if n >= 24));
    }
}

#[test]
fn at_every_size_of_a_ladder_the_calibrated_choice_is_within_five_per_cent_of_the_better() {
    for machine in Machine::all() {
        let planner = planner(&machine, Patience::Estimate, Offload::default());
        let calibration = calibrated(&machine, 0.01, 9);
        planner.calibrate(calibration.clone());
        for class in Class::ALL.into_iter().filter(|class| calibration.is_used(*class)) {
            for problem in class.ladder(false) {
                let decision = decided(&planner, &problem.to_string());
                let chosen = usize::from(decision.winner().unwrap().device);
                let times = [0, 1].map(|at| call(&machine, at, &problem));
                assert!(
                    times[chosen] <= 1.05 * times[0].min(times[1]),
                    "{} {problem} {times:?}",
                    machine.name
                );
            }
        }
    }
}

#[test]
fn one_large_size_promises_nothing_of_small_ones() {
    let machine = Machine::discrete();
    let mut times = calibrated(&machine, 0.0, 0).into_times();
    let gpu = times[1].as_mut().unwrap();
    let steps = gpu.steps.get_mut(&Class::Matmul).unwrap();
    steps.drain(..steps.len() - 1);
    assert_eq!(steps.len(), 1);
    let calibration = Calibration::new(times, 0);
    assert!(calibration.profile(1, Class::Matmul).unwrap().assumed.is_some());
    let planner = planner(&machine, Patience::Estimate, Offload::default());
    planner.calibrate(calibration);
    assert_eq!(device(&decided(&planner, "matmul:f32:8x8x8")), "cpu");
    assert_eq!(device(&decided(&planner, "matmul:f32:2000x2000x2000")), "gpu0");
}

#[test]
fn a_measured_problem_is_decided_by_what_was_measured() {
    let machine = Machine::discrete();
    let planner = planner(&machine, Patience::Measure, Offload::default());
    // A calibration that says the GPU takes no time at all.
    let mut times = calibrated(&machine, 0.0, 0).into_times();
    let gpu = times[1].as_mut().unwrap();
    gpu.steps.values_mut().flatten().for_each(|step| step.ns.fill(1.0));
    planner.calibrate(Calibration::new(times, 0));
    let decision = decided(&planner, "elementwise.add:f32:4096");
    assert_eq!((device(&decision), decision.reason), ("cpu", Reason::Raced), "{:?}", decision.notes());
}

#[test]
fn a_device_seen_to_be_slower_is_not_measured_again() {
    let machine = Machine::slow();
    let planner = planner(&machine, Patience::Measure, Offload::default());
    planner.calibrate(calibrated(&machine, 0.01, 2));
    let decision = decided(&planner, "matmul:f32:700x700x700");
    assert_eq!(device(&decision), "cpu");
    let mut gpu = decision.rivals.iter().filter(|rival| &*rival.device_id == "gpu0");
    let standing = &gpu.next().unwrap().standing;
    assert!(
        matches!(standing, Standing::Dominated(why) if why.contains("were seen to take")),
        "{standing:?}"
    );
    assert!(planner.wisdom().device_facts(&machine.gpu.facts().fingerprint.0).is_empty());
}

#[test]
fn times_come_back_from_text_unless_driver_or_version_changed() {
    let machine = Machine::integrated();
    let calibration = calibrated(&machine, 0.02, 3);
    let times = calibration.times(1).unwrap();
    let text = times.to_text();
    let read = DeviceTimes::read(&text, machine.gpu.as_ref());
    assert_eq!(read.as_ref(), Some(times));
    assert_eq!(times.origin, Origin::Measured);
    for damaged in [
        text.replace("calibration 2", "calibration 1"),
        text.replace("made_with trimtab", "made_with another"),
        text.replace("matmul ", "matmul x"),
        format!("{text}matmul 0 100\n"),
        String::new(),
    ] {
        assert_eq!(DeviceTimes::read(&damaged, machine.gpu.as_ref()), None);
    }
    assert_eq!(DeviceTimes::read(&text, machine.host.as_ref()), None, "another driver");
}

#[test]
fn what_decisions_rested_on_before_and_where_each_class_comes_from_are_kept_with_the_times() {
    let machine = Machine::integrated();
    let mut kept = calibrated(&machine, 0.02, 3).times(1).unwrap().clone();
    let before = |unit_ns: f64, calibrated: bool| Before { start_ns: 12.5, unit_ns, calibrated };
    kept.before = Class::ALL.into_iter().map(|class| (class, before(0.25, false))).collect();
    let mut newer = DeviceTimes::new(machine.gpu.as_ref(), Origin::Imported);
    newer.note(Class::Matmul, 1000, 77.0);
    newer.before.insert(Class::Matmul, before(0.0, true));
    kept.renew(&newer);
    assert_eq!(kept.steps[&Class::Matmul], newer.steps[&Class::Matmul]);
    assert_eq!(
        (kept.origin_of(Class::Matmul), kept.origin_of(Class::Unary)),
        (Origin::Imported, Origin::Measured)
    );
    assert_eq!(
        (kept.before[&Class::Matmul], kept.before[&Class::Unary]),
        (before(0.0, true), before(0.25, false))
    );
    let text = kept.to_text();
    assert_eq!(DeviceTimes::read(&text, machine.gpu.as_ref()).as_ref(), Some(&kept));
    for damaged in [
        text.replace("from unary measured", "from unary guessed"),
        text.replace("before unary 12.5", "before unary -12.5"),
        text.replace("0.25 built-in", "0.25"),
    ] {
        assert_ne!(damaged, text);
        assert_eq!(DeviceTimes::read(&damaged, machine.gpu.as_ref()), None, "{damaged}");
    }
    // Measured anew, nothing is older.
    kept.renew(&calibrated(&machine, 0.02, 4).times(1).unwrap().clone());
    assert!(kept.older.is_empty() && kept.origin_of(Class::Matmul) == Origin::Measured);
}

#[test]
fn thresholds_are_obeyed_the_specific_before_the_general_and_explain_says_so() {
    let machine = Machine::slow();
    let offload = Offload { all: Some(1 << 30), elementwise: Some(1000), ..Offload::default() };
    let planner = planner(&machine, Patience::Measure, offload);
    let up = decided(&planner, "elementwise.add:f32:1000");
    assert_eq!((device(&up), up.overruled), ("gpu0", Some(Why::Threshold)), "{:?}", up.notes());
    assert!(up.notes().iter().any(|note| note.contains("not below the elementwise threshold of 1000")));
    let down = decided(&planner, "elementwise.add:f32:999");
    assert_eq!((device(&down), down.overruled), ("cpu", Some(Why::Threshold)));
    assert!(down.rivals.iter().any(|rival| matches!(rival.standing, Standing::Overruled(_))));
    let general = decided(&planner, "reduce.sum:f32:5000");
    assert_eq!((device(&general), general.overruled), ("cpu", Some(Why::Threshold)));
    // 64-bit floats are not narrowed to please a threshold.
    let wide = decided(&planner, "elementwise.add:f64:5000");
    assert_eq!((device(&wide), wide.overruled), ("cpu", None));
    assert!(
        wide.notes().iter().any(|note| note.contains("no device there can run it")),
        "{:?}",
        wide.notes()
    );
}

#[test]
fn what_a_rule_forced_is_not_remembered_as_won() {
    let machine = Machine::slow();
    let wisdom = Arc::new(Wisdom::in_memory());
    let planner = |offload: Offload| {
        let settings = Settings { offload, ..Settings::default() };
        Planner::new(machine.devices(), Arc::clone(&wisdom), settings, Terms::default())
    };
    let forced = planner(Offload { all: Some(1), ..Offload::default() });
    assert_eq!(device(&decided(&forced, "reduce.sum:f32:100000")), "gpu0");
    drop(forced);
    let free = planner(Offload::default());
    assert_eq!(device(&decided(&free, "reduce.sum:f32:100000")), "cpu");
}

#[test]
fn a_small_batch_of_small_products_stays_on_the_processor() {
    let machine = Machine::discrete();
    let offload = Offload { small_batch: Some(8), all: Some(1), ..Offload::default() };
    let planner = planner(&machine, Patience::Estimate, offload);
    let small = decided(&planner, "matmul:f32:7x64x64x64");
    assert_eq!((device(&small), small.overruled), ("cpu", Some(Why::SmallBatch)));
    for text in ["matmul:f32:8x64x64x64", "matmul:f32:7x512x512x512", "matmul:f32:64x64x64"] {
        assert_eq!(device(&decided(&planner, text)), "gpu0", "{text}");
    }
}

#[test]
fn limits_bind_on_gpus_too() {
    use trimtab_core::{Bytes, Constraints};
    let machine = Machine::discrete();
    let planner = planner(&machine, Patience::Estimate, Offload::default());
    let problem: Problem = "matmul:f32:1024x1024x1024".parse().unwrap();
    let under = |constraints: Constraints| {
        let terms = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
        planner.explain(&problem, terms)
    };
    let free = under(Constraints::default()).unwrap();
    assert_eq!(device(&free), "gpu0");
    let tight = Constraints { latency_max: Some(Nanos(1_000)), ..Constraints::default() };
    assert!(under(tight).is_err(), "nothing is that fast, handing over included");
    let sum: Problem = "reduce.sum:f32:1000000".parse().unwrap();
    let constraints = Constraints { memory_max: Some(Bytes(0)), ..Constraints::default() };
    let terms = planner.terms(&Terms { constraints, ..Terms::default() }).unwrap();
    let decision = planner.explain(&sum, terms).unwrap();
    let gpu = decision.rivals.iter().filter(|rival| &*rival.device_id == "gpu0");
    assert!(gpu.clone().count() > 0);
    gpu.for_each(|rival| assert!(matches!(rival.standing, Standing::Excluded(_)), "{:?}", rival.standing));
    assert_eq!(machine.devices()[0].facts().id, "cpu");
}
