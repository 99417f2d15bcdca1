//! What was measured on a device holds for that device, whoever else is there.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Device, Nanos, Patience, Problem, Terms};
use trimtab_plan::{Decision, Planner, Settings, TermsId, TuneRequest};
use trimtab_wisdom::Wisdom;

fn problem() -> Problem {
    trimtab_core::Custom::new("op", &[8]).unwrap().into()
}

fn planner(devices: &[&Arc<Scripted>], wisdom: &Arc<Wisdom>) -> Planner {
    let devices = devices.iter().map(|&device| Arc::clone(device) as Arc<dyn Device>).collect();
    Planner::new(devices, Arc::clone(wisdom), Settings::default(), Terms::default())
}

fn host() -> Arc<Scripted> {
    Scripted::new(vec![kernel("slow", &[(1, 10_000)]), kernel("fast", &[(1, 5_000)]), reference(900_000)])
}

fn gpu() -> Arc<Scripted> {
    Scripted::gpu("gpu0", vec![kernel("wide", &[(1, 9_000)]), kernel("narrow", &[(1, 2_000)])], 500, false)
}

fn decided(planner: &Planner) -> Arc<Decision> {
    planner.plan(&problem(), TermsId::default()).unwrap();
    planner.explain(&problem(), TermsId::default()).unwrap()
}

fn told(decision: &Decision) -> String {
    format!("{} ({})", decision.winner().unwrap().name, decision.reason.name())
}

fn runs(devices: &[&Arc<Scripted>]) -> Vec<u32> {
    devices.iter().map(|device| device.runs.load(Ordering::Relaxed)).collect()
}

#[test]
fn what_two_devices_were_tuned_for_is_in_force_for_each_of_them_alone() {
    let (wisdom, host, gpu) = (Arc::new(Wisdom::in_memory()), host(), gpu());
    let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(1000));
    let both = planner(&[&host, &gpu], &wisdom);
    both.tune(&problem(), TermsId::default(), &request, &mut |_| ()).unwrap();
    let tuned = runs(&[&host, &gpu]);
    let explained = planner(&[&host], &wisdom).explain(&problem(), TermsId::default()).unwrap();
    assert_eq!(told(&explained), "fast (remembered)");
    assert_eq!(told(&decided(&planner(&[&host], &wisdom))), "fast (remembered)");
    assert_eq!(told(&decided(&planner(&[&gpu], &wisdom))), "narrow (remembered)");
    let on = both.terms_on(&Terms::default(), 1).unwrap();
    both.plan(&problem(), on).unwrap();
    assert_eq!(told(&both.explain(&problem(), on).unwrap()), "narrow (remembered)");
    assert_eq!(runs(&[&host, &gpu]), tuned, "nothing is measured again");
}

#[test]
fn what_each_was_tuned_for_alone_decides_between_them() {
    let (wisdom, host, gpu) = (Arc::new(Wisdom::in_memory()), host(), gpu());
    decided(&planner(&[&host], &wisdom));
    let alone = runs(&[&host, &gpu]);
    let both = decided(&planner(&[&host, &gpu], &wisdom));
    assert_eq!(told(&both), "narrow (raced)");
    assert_eq!(runs(&[&host]), alone[..1], "the processor is not raced again");
    assert!(runs(&[&gpu])[0] > 0);

    let wisdom = Arc::new(Wisdom::in_memory());
    decided(&planner(&[&host], &wisdom));
    decided(&planner(&[&gpu], &wisdom));
    let apart = runs(&[&host, &gpu]);
    let foreseen = planner(&[&host, &gpu], &wisdom).explain(&problem(), TermsId::default()).unwrap();
    assert_eq!(told(&foreseen), "narrow (remembered)");
    assert_eq!(told(&decided(&planner(&[&host, &gpu], &wisdom))), "narrow (remembered)");
    assert_eq!(runs(&[&host, &gpu]), apart);
}

#[test]
fn a_new_kernel_on_one_device_challenges_that_device_alone() {
    let (wisdom, host, gpu) = (Arc::new(Wisdom::in_memory()), host(), gpu());
    decided(&planner(&[&host, &gpu], &wisdom));
    let before = runs(&[&host, &gpu]);
    let more =
        vec![kernel("wide", &[(1, 9_000)]), kernel("narrow", &[(1, 2_000)]), kernel("new", &[(1, 1_000)])];
    let newer = Scripted::gpu("gpu0", more, 500, false);
    assert_eq!(told(&decided(&planner(&[&host, &newer], &wisdom))), "new (raced)");
    assert_eq!(runs(&[&host]), before[..1]);
}
