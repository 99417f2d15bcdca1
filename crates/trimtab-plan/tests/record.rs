//! The record of a decision: what is explained is what decided, event by event, and nothing is added behind anybody's back.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Script, Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Custom, Device, FailureKind, LaunchError, Patience, Problem, Terms};
use trimtab_plan::{Decision, Event, Planner, Reason, Settings, Standing, TermsId};
use trimtab_wisdom::Wisdom;

const TERMS: fn() -> TermsId = TermsId::default;

fn problem() -> Problem {
    Custom::new("op", &[8]).unwrap().into()
}

fn usual() -> Vec<Script> {
    vec![
        kernel("slow", &[(1, 50_000), (2, 40_000)]),
        kernel("fast", &[(1, 9_000), (2, 3_000)]),
        Script { fails: Some(FailureKind::Launch), ..kernel("broken", &[(1, 10)]) },
        reference(500_000),
    ]
}

fn planner(devices: &[&Arc<Scripted>], wisdom: &Arc<Wisdom>, patience: Patience) -> Planner {
    let devices = devices.iter().map(|&device| Arc::clone(device) as Arc<dyn Device>).collect();
    let settings = Settings { patience, ..Settings::default() };
    Planner::new(devices, Arc::clone(wisdom), settings, Terms::default())
}

fn json(decision: &Decision) -> String {
    serde_json::to_string(decision).unwrap()
}

/// The names of a record's events.
fn events(decision: &Decision) -> Vec<String> {
    let value = serde_json::to_value(decision).unwrap();
    let name = |event: &serde_json::Value| event["event"].as_str().unwrap().to_string();
    value["events"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn explaining_after_a_call_shows_the_very_record_that_decided_it() {
    for patience in [Patience::Off, Patience::Estimate, Patience::Measure] {
        let device = Scripted::new(usual());
        let wisdom = Arc::new(Wisdom::in_memory());
        for _ in 0..2 {
            let planner = planner(&[&device], &wisdom, patience);
            let (_, made) = planner.decide(&problem(), TERMS()).unwrap();
            let (made, before) = (made.clone().unwrap(), json(&made.unwrap()));
            let explained = planner.explain(&problem(), TERMS()).unwrap();
            assert!(Arc::ptr_eq(&made, &explained), "{patience}");
            // Neither looking at how rivals stand now nor explaining again changes it.
            planner.survey(&explained);
            planner.drain();
            let again = planner.explain(&problem(), TERMS()).unwrap();
            assert!(Arc::ptr_eq(&again, &planner.decision(&problem(), TERMS()).unwrap()), "{patience}");
            assert_eq!(json(&again), before, "{patience}");
        }
    }
}

#[test]
fn each_stage_says_what_it_did() {
    let device = Scripted::new(usual());
    let wisdom = Arc::new(Wisdom::in_memory());
    let raced = planner(&[&device], &wisdom, Patience::Measure);
    raced.plan(&problem(), TERMS()).unwrap();
    let record = raced.explain(&problem(), TERMS()).unwrap();
    let told: Vec<String> = events(&record).into_iter().filter(|event| event != "failed").collect();
    assert_eq!(told, ["enumerated", "measuring", "raced", "raced", "settled", "closed"]);
    // Whoever is out because it failed, an event says so.
    let failed = |at: usize| {
        record.events.iter().any(|event| matches!(event, Event::Failed { rival, .. } if *rival == at))
    };
    for (at, rival) in record.rivals.iter().enumerate() {
        assert_eq!(failed(at), matches!(rival.standing, Standing::Quarantined(_)), "{rival:?}");
    }
    assert!((0..record.rivals.len()).any(failed));
    let runs: u32 = record
        .events
        .iter()
        .map(|event| match event {
            Event::Raced { runs, .. } => *runs,
            _ => 0,
        })
        .sum();
    assert!(runs > 0 && record.runs == runs);
    let recalled = planner(&[&device], &wisdom, Patience::Measure);
    recalled.plan(&problem(), TERMS()).unwrap();
    assert_eq!(events(&recalled.explain(&problem(), TERMS()).unwrap()), ["enumerated", "recalled", "closed"]);
    let estimated = planner(&[&device], &Arc::new(Wisdom::in_memory()), Patience::Estimate);
    estimated.plan(&problem(), TERMS()).unwrap();
    let record = estimated.explain(&problem(), TERMS()).unwrap();
    assert_eq!(events(&record), ["enumerated", "settled", "closed"]);
    let gpu = Scripted::gpu("gpu0", vec![kernel("kernel", &[(1, 1)])], 50_000, false);
    let both = planner(&[&device, &gpu], &Arc::new(Wisdom::in_memory()), Patience::Measure);
    both.plan(&problem(), TERMS()).unwrap();
    let dominated = |event: &Event| matches!(event, Event::Dominated { device, .. } if device == "gpu0");
    assert!(both.explain(&problem(), TERMS()).unwrap().events.iter().any(dominated));
}

#[test]
fn without_a_plan_the_same_stages_say_what_a_call_would_begin_with_and_run_nothing() {
    let device = Scripted::new(usual());
    let wisdom = Arc::new(Wisdom::in_memory());
    let first = planner(&[&device], &wisdom, Patience::Measure);
    let foreseen = first.explain(&problem(), TERMS()).unwrap();
    assert_eq!(events(&foreseen), ["enumerated", "foreseen", "settled", "closed"]);
    assert_eq!((foreseen.reason, foreseen.runs, foreseen.complete), (Reason::Estimated, 0, false));
    assert!(first.decision(&problem(), TERMS()).is_none() && first.known(&problem(), TERMS()).is_none());
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
    let plan = first.plan(&problem(), TERMS()).unwrap();
    // In the next process: what is remembered, as a call would find it.
    let next = planner(&[&device], &wisdom, Patience::Measure);
    let foreseen = next.explain(&problem(), TERMS()).unwrap();
    assert_eq!(events(&foreseen), ["enumerated", "recalled", "closed"]);
    let winner = foreseen.winner().unwrap();
    assert_eq!((winner.kernel, winner.point), (plan.kernel, plan.point));
    // With a new rival the call would measure again, and the record says so.
    let mut more = usual();
    more.insert(0, kernel("new", &[(1, 5)]));
    let device = Scripted::new(more);
    let challenged = planner(&[&device], &wisdom, Patience::Measure).explain(&problem(), TERMS()).unwrap();
    assert_eq!(events(&challenged), ["enumerated", "challenged", "recalled", "closed"]);
    assert!(challenged.notes()[0].contains("the next call measures again"), "{:?}", challenged.notes());
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_survey_tells_how_everybody_stands_now_and_leaves_the_choice() {
    let device = Scripted::new(usual());
    let wisdom = Arc::new(Wisdom::in_memory());
    planner(&[&device], &wisdom, Patience::Measure).plan(&problem(), TERMS()).unwrap();
    let planner = planner(&[&device], &wisdom, Patience::Measure);
    planner.plan(&problem(), TERMS()).unwrap();
    let record = planner.explain(&problem(), TERMS()).unwrap();
    assert!(record.is_narrow());
    let survey = planner.survey(&record);
    assert_eq!((survey.chosen, survey.reason, survey.runs), (record.chosen, Reason::Remembered, 0));
    assert_eq!(survey.events.split_last().unwrap(), (&Event::Surveyed, &record.events[..]));
    for rival in &survey.rivals {
        match &*rival.name {
            "broken" => assert!(matches!(rival.standing, Standing::Quarantined(_)), "{:?}", rival.standing),
            name => assert!(rival.estimate().is_some(), "{name}"),
        }
    }
    assert!(survey.ranked()[0].name.starts_with("fast") && survey.best_per_kernel().len() == 4);
}

#[test]
fn a_launch_that_fails_adds_to_the_record_what_happened_and_who_answers() {
    let device = Scripted::new(usual());
    let planner = planner(&[&device], &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let plan = planner.plan(&problem(), TERMS()).unwrap();
    let before = planner.explain(&problem(), TERMS()).unwrap();
    let next = planner.failed(&problem(), TERMS(), &plan, &LaunchError::Kernel("boom".into())).unwrap();
    let after = planner.explain(&problem(), TERMS()).unwrap();
    assert_eq!((after.reason, after.plan().unwrap().kernel), (Reason::NextBest, next.kernel));
    assert_eq!(after.events[..before.events.len()], before.events);
    let added = &after.events[before.events.len()..];
    assert!(matches!(&added[0], Event::Failed { failure, .. } if failure.contains("boom")), "{added:?}");
    assert!(matches!(added[1], Event::Settled { reason: Reason::NextBest, .. }), "{added:?}");
}
