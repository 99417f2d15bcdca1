//! A small recording: read, searched, replayed by a device and recorded again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use trimtab_core::{Device, FailureKind, KernelId, Nanos, Point};
use trimtab_replay::{
    Axis, Completeness, Expression, Outcome, RecordRequest, Recorded, Run, record, simulate, stats,
};
use trimtab_testing::{RecordedDevice, small_recording};
use trimtab_tune::search::{SearchSpace, strategy};
use trimtab_tune::{Budget, Rules};

/// Within 5 % of the optimum.
const NEAR: f64 = 0.95;

#[test]
fn repeats_come_in_recorded_order_and_begin_again() {
    let recording = small_recording();
    assert_eq!(recording.repeat_count(0), 2);
    let repeats: Vec<f64> = (0..3).filter_map(|repeat| recording.repeat_ms(0, repeat)).collect();
    assert_eq!(repeats, [1.8, 2.2, 1.8]);
    assert_eq!(recording.repeat_ms(11, 0), None);
    assert_eq!((recording.repeat_ms(99, 0), recording.repeat_count(99)), (None, 0));
    let without = recording.with_repeats(&[]);
    assert_eq!(without.repeat_ms(0, 5), Some(2.0));
}

#[test]
fn legal_points_are_counted_over_all_combinations() {
    let mut recording = small_recording();
    assert_eq!((recording.count_legal(), recording.optimum_ms()), (12, Some(2.0)));
    let axes = ["a".to_string(), "b".to_string()];
    recording.constraints.push(Expression::parse("a != b", &axes, &[]).unwrap());
    assert_eq!(recording.count_legal(), 9);
    recording.axes.clear();
    assert_eq!(recording.count_legal(), 0);
}

#[test]
fn repeats_are_kept_as_shares_of_the_mean_and_failures_have_none() {
    let recording = small_recording();
    let repeats: Vec<Vec<f64>> = recording
        .rows
        .iter()
        .map(|row| row.outcome.mean_ms().map_or(vec![1.0], |mean| vec![0.9 * mean, 1.1 * mean]))
        .collect();
    let again = recording.clone().with_repeats(&repeats);
    assert_eq!((again.repeat_count(10), again.repeat_count(11)), (2, 0));
    assert_eq!(again.repeat_ms(3, 1), recording.repeat_ms(3, 1));
    let without = recording.with_repeats(&[]);
    assert!((0..12).all(|row| without.repeat_count(row) == 0));
}

#[test]
fn any_set_of_points_can_be_said_to_be_all_legal_ones() {
    let whole = small_recording();
    let points: Vec<Point> = whole.rows.iter().map(|row| row.point).collect();
    let all = whole.clone().limit_to(&points);
    assert_eq!((all.constraints.len(), all.count_legal()), (0, 12));
    let mut some = whole.clone();
    some.rows = vec![whole.rows[0], whole.rows[5], whole.rows[10]];
    let some = some.limit_to(&[points[0], points[5], points[10]]);
    assert_eq!((some.count_legal(), some.completeness), (3, Completeness::Everything));
    assert_eq!(some.constraints[0].text(), "a * 5 + b in (6, 14, 22)");
    assert!(some.rows.iter().all(|row| some.is_legal(row.point.values())));
    let mut part = some.clone();
    part.rows.truncate(2);
    let part = part.limit_to(&[points[0], points[5], points[10]]);
    assert_eq!((part.count_legal(), part.completeness), (3, Completeness::Sample));
    let mut huge = some.clone();
    huge.axes = (0..3).map(|axis| Axis { name: format!("x{axis}"), values: vec![1, u32::MAX] }).collect();
    let huge = huge.limit_to(&points[..3]);
    assert_eq!((huge.constraints.len(), huge.completeness), (0, Completeness::Sample));
}

#[test]
fn a_search_is_scored_by_the_best_so_far_and_failures_cost_an_evaluation() {
    let recording = small_recording();
    let space = Arc::new(SearchSpace::new(&recording.space()));
    let mut sweep = strategy("sweep", &space, 0, &[]).unwrap();
    let run = simulate(&recording, sweep.as_mut(), 100, None);
    assert_eq!(run.fractions.len(), recording.rows.len());
    assert!(run.fractions.is_sorted() && run.after(100) == 1.0 && run.after(0) == 0.0);
    let first = run.evals_to_5pct().unwrap();
    assert!(run.after(first) >= NEAR && run.after(first - 1) < NEAR);
}

#[test]
fn noise_is_the_same_for_the_same_seed_and_scored_by_true_times() {
    let recording = small_recording();
    let space = Arc::new(SearchSpace::new(&recording.space()));
    let run = |noise| simulate(&recording, strategy("random", &space, 7, &[]).unwrap().as_mut(), 12, noise);
    assert_eq!(run(Some(1)), run(Some(1)));
    let optimum = recording.optimum_ms().unwrap();
    for fraction in run(Some(2)).fractions {
        let known = |time: f64| (optimum / time - fraction).abs() < 1e-12;
        assert!(fraction == 0.0 || recording.rows.iter().filter_map(|r| r.outcome.mean_ms()).any(known));
    }
}

#[test]
fn statistics_are_over_seeds() {
    let run = |fractions: &[f64]| Run { fractions: fractions.to_vec(), measurements: fractions.len() };
    let runs = [run(&[0.5, 0.96]), run(&[0.99, 1.0]), run(&[0.2, 0.3])];
    let first = stats(&runs, 1);
    assert_eq!((first.median_fraction, first.share_within_5pct), (0.5, 1.0 / 3.0));
    let second = stats(&runs, 2);
    assert_eq!((second.median_fraction, second.median_evals_to_5pct, second.seeds), (0.96, Some(2), 3));
    assert_eq!(stats(&[], 1).mean_fraction, 0.0);
}

fn request(evals: usize, repeats: u32) -> (RecordedDevice, RecordRequest) {
    let device = RecordedDevice::new(vec![small_recording()]).unwrap();
    let request = RecordRequest {
        kernel: KernelId(0),
        problem: device.problems().next().unwrap(),
        evals,
        repeats,
        seed: 3,
        rules: Rules { precision: Some(Nanos(0)), batch_time_min: Nanos(0), ..Rules::default() },
        crashed: Vec::new(),
        origin: "a test".to_string(),
    };
    (device, request)
}

fn of(device: &RecordedDevice, request: &RecordRequest, budget: &Budget, runs: u64) -> Recorded {
    let done = std::cell::Cell::new(0);
    let mut bench = device.bench(&request.problem, Nanos::MAX).unwrap();
    let stop = || done.get() == runs;
    record(device, bench.as_mut(), request, budget, &stop, &mut |progress| done.set(progress.runs))
}

#[test]
fn recording_a_recorded_device_gives_the_recording_again() {
    let (device, request) = request(usize::MAX, 4);
    let recorded = of(&device, &request, &Budget::unlimited(), u64::MAX);
    let before = small_recording();
    let after = &recorded.recording;
    assert!(recorded.finished && recorded.untried.is_none());
    assert_eq!((recorded.legal, recorded.wanted, after.completeness), (12, 12, Completeness::Everything));
    for (row, (a, b)) in before.rows.iter().zip(&after.rows).enumerate() {
        assert_eq!((a.point, a.outcome.mean_ms().is_some()), (b.point, b.outcome.mean_ms().is_some()));
        for repeat in 0..4 {
            let (a, b) = (before.repeat_ms(row, repeat), after.repeat_ms(row, repeat));
            assert!(a.zip(b).is_none_or(|(a, b)| (a - b).abs() < 1e-3 * a), "{a:?} {b:?}");
        }
    }
    assert_eq!(after.rows[0].compile_ms, Some(7.0));
    assert_eq!(after.rows[11].outcome, Outcome::Failed(FailureKind::Compile));
    assert_eq!((after.sizes.as_slice(), after.repeat_count(0)), (&[64, 32][..], 4));
    assert_eq!(after.name, "small__nothing__custom.small-64x32__nothing_1");
}

#[test]
fn a_sample_is_drawn_by_the_seed_and_rows_keep_the_order_of_the_space() {
    let (device, request) = request(5, 1);
    let points = |seed| {
        let request = RecordRequest { seed, ..request.clone() };
        let recording = of(&device, &request, &Budget::unlimited(), u64::MAX).recording;
        assert_eq!((recording.rows.len(), recording.completeness), (5, Completeness::Sample));
        assert_eq!(recording.count_legal(), 12);
        let points: Vec<Point> = recording.rows.iter().map(|row| row.point).collect();
        assert!(points.is_sorted());
        points
    };
    assert_eq!(points(1), points(1));
    assert_ne!(points(1), points(2));
}

#[test]
fn what_was_measured_when_it_is_stopped_is_kept() {
    let (device, request) = request(usize::MAX, 3);
    // Twelve warm-ups, one round, and five more.
    let recorded = of(&device, &request, &Budget::unlimited(), 12 + 12 + 5);
    assert!(!recorded.finished);
    assert_eq!(
        (recorded.recording.rows.len(), recorded.recording.completeness),
        (12, Completeness::Everything)
    );
    let counts: Vec<usize> = (0..12).map(|row| recorded.recording.repeat_count(row)).collect();
    assert!(counts.contains(&1) && counts.contains(&2), "{counts:?}");
    let early = of(&device, &request, &Budget::unlimited(), 12 + 3);
    assert_eq!((early.recording.completeness, early.recording.count_legal()), (Completeness::Sample, 12));
    assert!((3..=4).contains(&early.recording.rows.len()));
    let never = of(&device, &request, &Budget::recorded(Nanos(0)), u64::MAX);
    assert!(never.recording.rows.is_empty() && !never.finished);
}

#[test]
fn a_point_that_ended_a_process_is_not_run_again() {
    let (device, mut request) = request(usize::MAX, 1);
    request.crashed.push("a=1,b=2".to_string());
    let recorded = of(&device, &request, &Budget::unlimited(), u64::MAX);
    assert_eq!(recorded.recording.rows[1].outcome, Outcome::Failed(FailureKind::Crashed));
    assert!(recorded.finished);
}
