//! The planner on published recordings of real GPUs, where they are present: cold, and started from other devices.
#![expect(clippy::unwrap_used, reason = "a test that cannot read its recordings has failed")]

use std::path::Path;
use std::sync::Arc;
use trimtab_core::{Device, Nanos, Patience, Terms};
use trimtab_plan::{Planner, Settings, TermsId, TuneRequest};
use trimtab_replay::{Completeness, Recording, read_recordings};
use trimtab_testing::RecordedDevice;
use trimtab_wisdom::Wisdom;

fn recordings(directory: &Path) -> Vec<Recording> {
    let mut recordings = read_recordings(directory, &[]).unwrap();
    recordings.retain(|recording| recording.completeness == Completeness::Everything);
    for recording in &mut recordings {
        // The same kernel is the same on every device.
        recording.name = format!("{}.{}", recording.kernel, recording.variant);
    }
    recordings
}

/// Tunes one recording and says how near to the optimum it comes.
fn tuned(recording: &Recording, wisdom: &Arc<Wisdom>, evals: u32) -> f64 {
    let optimum = recording.optimum_ms().unwrap();
    let device = Arc::new(RecordedDevice::new(vec![recording.clone()]).unwrap());
    let problem = device.problems().next().unwrap();
    let devices = vec![device as Arc<dyn Device>];
    let planner = Planner::new(devices, Arc::clone(wisdom), Settings::default(), Terms::default());
    let budget = Nanos::from_secs_f64(1e6);
    let request = TuneRequest { evals: Some(evals), ..TuneRequest::new(Patience::Measure, budget) };
    let decision = planner.tune(&problem, TermsId::default(), &request, &mut |_| ()).unwrap();
    assert!(decision.evaluations <= evals, "{}: {}", recording.name, decision.evaluations);
    let row = recording.rows.iter().find(|row| row.point == decision.winner().unwrap().point).unwrap();
    optimum / row.outcome.mean_ms().unwrap()
}

fn median(mut shares: Vec<f64>) -> f64 {
    shares.sort_by(f64::total_cmp);
    shares[shares.len() / 2]
}

#[test]
fn the_planner_comes_near_the_optimum_of_recorded_gpus_and_nearer_with_donors() {
    let Some(directory) = trimtab_testing::data("the planner on recorded GPUs") else { return };
    let recordings = recordings(&directory);
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for recording in &recordings {
        let wisdom = Arc::new(Wisdom::in_memory());
        let alone = tuned(recording, &wisdom, 100);
        let wisdom = Arc::new(Wisdom::in_memory());
        let others = recordings.iter().filter(|other| {
            other.name == recording.name && other.device != recording.device && other.sizes == recording.sizes
        });
        let donors: Vec<f64> = others.map(|other| tuned(other, &wisdom, 200)).collect();
        eprint!("{} on {}: {alone:.3} after 100", recording.name, recording.device);
        cold.push(alone);
        if !donors.is_empty() {
            let started = tuned(recording, &wisdom, 20);
            eprint!(", {started:.3} after 20 with {} donors", donors.len());
            warm.push(started);
        }
        eprintln!();
    }
    let (cold, warm) = (median(cold), median(warm));
    eprintln!("median {cold:.4} after 100 evaluations, {warm:.4} after 20 with donors");
    assert!(cold > 0.97, "{cold:.4}");
    assert!(warm > 0.97, "{warm:.4}");
}
