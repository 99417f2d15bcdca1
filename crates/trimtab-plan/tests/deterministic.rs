//! Mode `off`: the same wisdom gives the same plans, bit for bit, whatever calls take and however often it is started.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Custom, Device, Nanos, Patience, Problem, Terms};
use trimtab_plan::{Plan, Planner, Settings, TermsId};
use trimtab_wisdom::{Fact, FactKey, Outcome, Stats, Verdict, Wisdom};

fn problem(size: u64) -> Problem {
    Custom::new("op", &[size]).unwrap().into()
}

fn key(device: &Scripted, kernel: &str, tile: u32, size: u64, condition: &str) -> FactKey {
    FactKey {
        device: device.facts().fingerprint.0.clone(),
        kernel: kernel.to_string(),
        version: "1".to_string(),
        problem: problem(size).to_string(),
        point: format!("tile={tile}"),
        condition: condition.into(),
    }
}

fn device() -> Arc<Scripted> {
    let wide = kernel("wide", &[(1, 30_000), (2, 20_000), (4, 10_000)]);
    Scripted::new(vec![wide, kernel("other", &[(1, 15_000)]), reference(90_000)])
}

/// Races, cut-short ones, live calls of other modes, and problems nobody knows anything of.
fn training_table(device: &Arc<Scripted>, wisdom: &Arc<Wisdom>) {
    for size in 10..60 {
        for (name, tile, ns) in
            [("wide", 1, 3.0), ("wide", 4, 1.0), ("other", 1, 0.8 + (size % 7) as f64 / 10.0)]
        {
            let condition = ["quiet", "busy", "live"][size as usize % 3];
            let stats = Stats::of(&[ns * size as f64, ns * size as f64 * 1.4]).unwrap();
            wisdom.record(key(device, name, tile, size, condition), Outcome::Timed(stats));
        }
    }
    let devices = vec![Arc::clone(device) as Arc<dyn Device>];
    let planner = Planner::new(devices, Arc::clone(wisdom), Settings::default(), Terms::default());
    for size in 100..110 {
        planner.plan(&problem(size), TermsId::default()).unwrap();
    }
}

fn off(device: &Arc<Scripted>, wisdom: &Arc<Wisdom>) -> Planner {
    let settings = Settings { patience: Patience::Off, ..Settings::default() };
    Planner::new(vec![Arc::clone(device) as Arc<dyn Device>], Arc::clone(wisdom), settings, Terms::default())
}

fn sizes() -> impl Iterator<Item = u64> {
    (10..60).chain(100..110).chain(1_000..1_010)
}

fn plans(planner: &Planner) -> Vec<Plan> {
    sizes().map(|size| planner.plan(&problem(size), TermsId::default()).unwrap()).collect()
}

fn remembered(wisdom: &Wisdom) -> (Vec<Fact>, Vec<Verdict>) {
    (wisdom.all_facts(), wisdom.verdicts())
}

#[test]
fn the_same_wisdom_gives_the_same_plans_with_live_calls_between_and_after_every_start() {
    let dir = tempfile::tempdir().unwrap();
    let device = device();
    training_table(&device, &Arc::new(Wisdom::open(dir.path())));
    let wisdom = Arc::new(Wisdom::open(dir.path()));
    let (first, before) = (plans(&off(&device, &wisdom)), remembered(&wisdom));
    assert!(first.iter().any(|plan| plan.kernel.0 == 1) && first.iter().any(|plan| plan.kernel.0 == 0));
    drop(wisdom);
    let runs = device.runs.load(Ordering::Relaxed);
    for start in 1..4u64 {
        let wisdom = Arc::new(Wisdom::open(dir.path()));
        let planner = off(&device, &wisdom);
        assert_eq!(plans(&planner), first, "start {start}");
        // Everything that could make another mode think again: slower, faster, erratic.
        for round in 0..300u64 {
            for size in sizes() {
                let plan = *planner.for_call(&problem(size), TermsId::default()).unwrap().1;
                let ns =
                    1_000 * (1 + (size * 31 + round * 17 * start) % 97) * if round > 150 { 40 } else { 1 };
                planner.report(&plan, Nanos(ns));
            }
            planner.drain();
        }
        assert_eq!(plans(&planner), first, "start {start}");
        let stats = planner.stats();
        assert!(stats.timed > 0 && (stats.changed, stats.noticed, stats.ledger.explored) == (0, 0, 0));
        drop(planner);
        assert!(remembered(&wisdom) == before, "start {start}");
    }
    assert_eq!(device.runs.load(Ordering::Relaxed), runs);
}
