//! What is told is so: weights that mean something, energy that was read, transfers that were measured, times a device can reach.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Basis, Custom, Device, Nanos, Objective, Patience, Problem, Terms};
use trimtab_plan::calibration::{Calibration, DeviceTimes, Origin};
use trimtab_plan::{Class, Planner, Settings, Standing, TermsId};
use trimtab_testing::machine::Machine;
use trimtab_wisdom::{FactKey, Filter, Outcome, Stats, Wisdom};

fn problem() -> Problem {
    Custom::new("op", &[8]).unwrap().into()
}

fn planner(device: &Arc<Scripted>, wisdom: &Arc<Wisdom>, patience: Patience) -> Planner {
    let devices = vec![Arc::clone(device) as Arc<dyn Device>];
    let settings = Settings { patience, watch: false, ..Settings::default() };
    Planner::new(devices, Arc::clone(wisdom), settings, Terms::default())
}

fn three() -> Arc<Scripted> {
    let kernels = vec![kernel("slow", &[(1, 90_000)]), kernel("fast", &[(1, 20_000)]), reference(100_000)];
    Scripted::new(kernels)
}

#[test]
fn weights_that_say_nothing_make_no_terms() {
    let planner = planner(&three(), &Arc::new(Wisdom::in_memory()), Patience::Measure);
    for objective in [
        Objective { time: -1.0, ..Objective::default() },
        Objective { memory: f64::NAN, ..Objective::default() },
        Objective { time: 0.0, memory: 0.0, energy: 0.0 },
    ] {
        let told = planner.terms(&Terms { objective, ..Terms::default() }).unwrap_err().to_string();
        assert!(told.contains("from 0 up"), "{told}");
    }
}

#[test]
fn where_energy_cannot_be_read_time_decides_the_same_each_time_and_it_is_said() {
    let objective = Objective { time: 0.0, memory: 0.0, energy: 1.0 };
    for patience in [Patience::Measure, Patience::Exhaustive] {
        let planner = planner(&three(), &Arc::new(Wisdom::in_memory()), patience);
        let terms = planner.terms(&Terms { objective, ..Terms::default() }).unwrap();
        planner.plan(&problem(), terms).unwrap();
        let decision = planner.explain(&problem(), terms).unwrap();
        assert_eq!(&*decision.winner().unwrap().name, "fast");
        assert!(decision.notes().iter().any(|note| note.starts_with("energy:")), "{:?}", decision.notes());
    }
}

#[test]
fn under_a_calibration_the_transfer_told_is_the_measured_one_or_none() {
    let machine = Machine::discrete();
    let devices = machine.devices();
    let settings = Settings { patience: Patience::Estimate, ..Settings::default() };
    let planner = Planner::new(devices.clone(), Arc::new(Wisdom::in_memory()), settings, Terms::default());
    let problem: Problem = "elementwise.add:f32:1048576".parse().unwrap();
    let measured = devices[1].transfer_overhead(&problem);
    // Whole calls that take a tenth of what moving alone should, and ten times as long.
    for (share, told) in [(0.1, Nanos(0)), (10.0, measured)] {
        let mut times = DeviceTimes::new(devices[1].as_ref(), Origin::Measured);
        for (size, factor) in [(1 << 18, 0.25), (1 << 20, 1.0), (1 << 22, 4.0)] {
            (0..3).for_each(|_| times.note(Class::Elementwise, size, share * factor * measured.0 as f64));
        }
        planner.calibrate(Calibration::new(vec![None, Some(times)], 0));
        let decision = planner.explain(&problem, TermsId::default()).unwrap();
        let its = decision.rivals.iter().filter(|rival| rival.device == 1);
        let its: Vec<_> = its.filter(|rival| matches!(rival.standing, Standing::Estimated { .. })).collect();
        assert!(!its.is_empty(), "{decision:?}");
        assert!(its.iter().all(|rival| rival.transfer == told), "{share}: {:?}", its[0]);
        let call = its.iter().filter_map(|rival| rival.call_time()).min().unwrap();
        let seen = share * measured.0 as f64;
        assert!((call.0 as f64 / seen - 1.0).abs() < 0.05, "{call} of {seen}");
    }
}

#[test]
fn what_is_forgotten_of_one_kernel_is_raced_again() {
    let (device, wisdom) = (three(), Arc::new(Wisdom::in_memory()));
    planner(&device, &wisdom, Patience::Measure).plan(&problem(), TermsId::default()).unwrap();
    let again = planner(&device, &wisdom, Patience::Measure);
    again.plan(&problem(), TermsId::default()).unwrap();
    let runs = device.runs.load(Ordering::Relaxed);
    let slow = device.count("slow");
    assert!(again.forget(&Filter::kernel("slow")) > 0);
    again.plan(&problem(), TermsId::default()).unwrap();
    assert!(device.runs.load(Ordering::Relaxed) > runs, "nothing was measured");
    assert!(device.count("slow") > slow, "what was forgotten was not measured");
    assert_eq!(&*again.explain(&problem(), TermsId::default()).unwrap().winner().unwrap().name, "fast");
}

#[test]
fn a_time_no_device_can_reach_is_told_and_does_not_decide() {
    let (device, wisdom) = (three(), Arc::new(Wisdom::in_memory()));
    let fact = |kernel: &str, samples: &[f64]| {
        let key = FactKey {
            device: device.facts().fingerprint.0.clone(),
            kernel: kernel.into(),
            version: "1".into(),
            problem: problem().to_string(),
            point: "tile=1".into(),
            ..FactKey::default()
        };
        wisdom.record(key, Outcome::Timed(Stats::of(samples).unwrap()));
    };
    // A thousand bytes in a nanosecond, of a device that moves one.
    fact("slow", &[1.0, 1.0, 1.0]);
    fact("fast", &[20_000.0, 20_000.0, 20_000.0]);
    let planner = planner(&device, &wisdom, Patience::Estimate);
    planner.plan(&problem(), TermsId::default()).unwrap();
    let decision = planner.explain(&problem(), TermsId::default()).unwrap();
    assert_eq!(&*decision.winner().unwrap().name, "fast", "{decision:?}");
    let slow = decision.rivals.iter().find(|rival| &*rival.name == "slow").unwrap();
    assert_eq!(slow.implausible, Some(Nanos(1)));
    assert!(!matches!(slow.estimate().map(|e| e.basis), Some(Basis::Measured(_))), "{slow:?}");
    assert!(
        decision.notes().iter().any(|note| note.starts_with("implausible: slow")),
        "{:?}",
        decision.notes()
    );
}
