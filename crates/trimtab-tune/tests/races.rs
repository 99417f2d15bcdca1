//! Races on scripted benches: lists of times are replayed, so every property is exact.

use proptest::prelude::*;
use std::collections::HashMap;
use trimtab_core::{Bench, Failure, FailureKind, Interference, KernelId, Nanos, Point, Sample};
use trimtab_tune::{Budget, Candidate, Event, Progress, RaceReport, Rules, StopReason, race};

/// Replays times per launch: run `i` of a kernel takes entry `i`, the last entry repeats. Times over the time-out fail.
#[derive(Default)]
struct Script {
    times_ns: Vec<Vec<u64>>,
    fails: HashMap<(u32, usize), FailureKind>,
    disturbed: HashMap<(u32, usize), Interference>,
    energy_uj: Option<u64>,
    runs: Vec<(u32, u32, Nanos)>,
}

impl Script {
    fn constant(times_ns: &[u64]) -> Script {
        Script { times_ns: times_ns.iter().map(|&ns| vec![ns]).collect(), ..Script::default() }
    }

    fn runs_of(&self, kernel: u32) -> usize {
        self.runs.iter().filter(|run| run.0 == kernel).count()
    }
}

impl Bench for Script {
    fn run(
        &mut self,
        kernel: KernelId,
        _: &Point,
        iterations: u32,
        timeout: Nanos,
    ) -> Result<Sample, Failure> {
        let nth = self.runs_of(kernel.0);
        self.runs.push((kernel.0, iterations, timeout));
        if let Some(&kind) = self.fails.get(&(kernel.0, nth)) {
            return Err(Failure::new(kind, "scripted"));
        }
        let times = &self.times_ns[kernel.0 as usize];
        let elapsed = Nanos(times[nth.min(times.len() - 1)] * u64::from(iterations));
        if elapsed > timeout {
            return Err(Failure::new(FailureKind::TimedOut, format!("over {timeout}")));
        }
        let interference = self.disturbed.get(&(kernel.0, nth)).copied();
        Ok(Sample { elapsed, iterations, interference, energy_uj: self.energy_uj, compiled_in: None })
    }
}

fn candidates(n: usize) -> Vec<Candidate> {
    (0..n).map(|i| Candidate { kernel: KernelId(i as u32), point: Point::EMPTY, expected: None }).collect()
}

fn rules() -> Rules {
    Rules { precision: Some(Nanos(50)), ..Rules::default() }
}

fn unlimited() -> Budget {
    Budget::recorded(Nanos::MAX)
}

fn run(script: &mut Script, incumbent: Option<usize>, rules: &Rules, budget: &Budget) -> RaceReport {
    let list = candidates(script.times_ns.len());
    race(script, &list, incumbent, rules, budget, &mut |_| ())
}

#[test]
fn a_clear_winner_is_found_with_few_runs_and_the_slow_are_dropped() {
    let mut script = Script::constant(&[300_000, 100_000, 900_000]);
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!((report.winner, report.stopped), (Some(1), StopReason::Certain));
    // The slowest is measured once: its warm-up is its only sample.
    assert_eq!(report.rivals[2].dropped_after, Some(1));
    assert_eq!(report.rivals[2].samples, [900_000.0]);
    assert_eq!(script.runs_of(2), 1);
    assert_eq!(report.rivals[0].dropped_after, Some(2));
    assert_eq!(report.runs, 7);
}

#[test]
fn the_warm_up_is_left_out_of_the_samples_and_the_first_may_be_slow_for_all() {
    let mut script = Script { times_ns: vec![vec![500_000, 100_000], vec![120_000]], ..Script::default() };
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!(report.winner, Some(0));
    assert_eq!(report.rivals[0].samples, [100_000.0, 100_000.0]);
    assert_eq!(report.rivals[0].spread(), Some(0.0));
}

#[test]
fn short_launches_are_batched_until_the_clock_is_good_enough() {
    // A cold first launch of 40 µs hides a launch of 100 ns: the batch grows once it is seen to be short.
    let mut script = Script { times_ns: vec![vec![40_000, 100]], ..Script::default() };
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!(report.stopped, StopReason::OnlyOne);
    assert_eq!(script.runs.iter().map(|run| run.1).collect::<Vec<_>>(), [1, 1, 100, 100]);
    assert_eq!(report.rivals[0].samples, [100.0, 100.0]);
}

#[test]
fn a_coarse_clock_gets_longer_batches_within_the_limit() {
    let coarse = Rules { precision: Some(Nanos(1_000_000)), ..Rules::default() };
    let mut script = Script::constant(&[1_000]);
    run(&mut script, None, &coarse, &unlimited());
    assert_eq!(script.runs.last().map(|run| run.1), Some(20_000));
}

#[test]
fn ties_keep_the_incumbent_and_without_one_the_first() {
    let mut script = Script::constant(&[101_500, 100_000, 101_000]);
    let report = run(&mut script, Some(2), &rules(), &unlimited());
    assert_eq!((report.winner, report.stopped), (Some(2), StopReason::WithinIndifference));
    assert_eq!(script.runs[0].0, 2, "the incumbent runs first");
    let report = run(&mut Script::constant(&[101_500, 100_000, 101_000]), None, &rules(), &unlimited());
    assert_eq!(report.winner, Some(0));
}

#[test]
fn a_race_ends_when_the_leader_is_good_enough() {
    let budget = unlimited().good_enough(0.8);
    budget.aim(Some(80_000.0));
    let mut script = Script::constant(&[110_000, 100_000, 105_000]);
    let report = run(&mut script, None, &rules(), &budget);
    // One warm-up and one sample each.
    assert_eq!((report.winner, report.stopped, report.runs), (Some(1), StopReason::GoodEnough, 6));
    budget.aim(Some(79_000.0));
    let report = run(&mut Script::constant(&[110_000, 100_000, 105_000]), None, &rules(), &budget);
    assert_eq!((report.winner, report.stopped), (Some(1), StopReason::Certain));
}

#[test]
fn an_incumbent_that_is_clearly_slower_loses() {
    let report = run(&mut Script::constant(&[110_000, 100_000]), Some(0), &rules(), &unlimited());
    assert_eq!((report.winner, report.stopped), (Some(1), StopReason::Certain));
}

#[test]
fn a_disturbed_sample_is_measured_again_and_forgotten() {
    let mut script = Script { times_ns: vec![vec![50_000, 90_000, 50_000]], ..Script::default() };
    script.disturbed.insert((0, 1), Interference::Preempted);
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!(report.rivals[0].samples, [50_000.0, 50_000.0]);
    assert_eq!((report.rivals[0].interfered, report.runs), (0, 4));
}

#[test]
fn on_a_machine_that_is_always_busy_disturbed_samples_are_recorded_and_counted() {
    let mut script = Script::constant(&[50_000, 80_000]);
    for kernel in 0..2 {
        for nth in 0..100 {
            script.disturbed.insert((kernel, nth), Interference::Stolen);
        }
    }
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!(report.winner, Some(0));
    assert_eq!(report.rivals[0].interfered, report.rivals[0].samples.len() as u32);
    assert!(report.runs <= 2 * (1 + rules().max_remeasures + 2));
}

#[test]
fn a_pre_empted_warm_up_does_not_drop_a_rival() {
    let mut script = Script { times_ns: vec![vec![150_000], vec![4_000_000, 100_000]], ..Script::default() };
    script.disturbed.insert((1, 0), Interference::Preempted);
    assert_eq!(run(&mut script, None, &rules(), &unlimited()).winner, Some(1));
}

#[test]
fn a_failed_candidate_is_recorded_and_the_race_goes_on() {
    let mut script = Script::constant(&[100_000, 150_000]);
    script.fails.insert((0, 0), FailureKind::Wrong);
    let report = run(&mut script, Some(0), &rules(), &unlimited());
    assert_eq!((report.winner, report.stopped), (Some(1), StopReason::OnlyOne));
    assert_eq!(report.rivals[0].failure.as_ref().map(|f| f.kind), Some(FailureKind::Wrong));
    assert_eq!(script.runs_of(0), 1);
}

#[test]
fn when_the_best_fails_late_those_dropped_because_of_it_are_back() {
    let mut script = Script::constant(&[100_000, 900_000]);
    script.fails.insert((0, 2), FailureKind::Launch);
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!(report.winner, Some(1));
    assert_eq!(report.rivals[1].dropped_after, None);
    assert_eq!(report.rivals[1].samples.len(), 2);
}

#[test]
fn when_all_fail_there_is_no_winner() {
    let mut script = Script::constant(&[1, 1]);
    script.fails.insert((0, 0), FailureKind::Compile);
    script.fails.insert((1, 0), FailureKind::Crashed);
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!((report.winner, report.stopped), (None, StopReason::AllFailed));
    let report = run(&mut Script::default(), None, &rules(), &unlimited());
    assert_eq!((report.winner, report.stopped), (None, StopReason::NoCandidates));
}

#[test]
fn a_candidate_expected_to_be_hopeless_is_not_started() {
    let mut script = Script::constant(&[100_000, 100_000]);
    let mut list = candidates(2);
    list[0].expected = Some(Nanos(100_000));
    list[1].expected = Some(Nanos(401_000));
    let report = race(&mut script, &list, None, &rules(), &unlimited(), &mut |_| ());
    assert_eq!(script.runs_of(1), 0);
    assert_eq!((report.rivals[1].dropped_after, report.rivals[1].samples.len()), (Some(0), 0));
}

#[test]
fn candidates_start_in_the_order_of_their_expected_time() {
    let mut list = candidates(3);
    list[1].expected = Some(Nanos(90));
    list[2].expected = Some(Nanos(50));
    let mut script = Script::constant(&[100_000, 100_000, 100_000]);
    race(&mut script, &list, None, &rules(), &unlimited(), &mut |_| ());
    assert_eq!(script.runs[..3].iter().map(|run| run.0).collect::<Vec<_>>(), [2, 1, 0]);
}

#[test]
fn a_run_that_never_ends_is_given_up_at_the_time_out_and_recorded() {
    let mut script = Script::constant(&[100_000, u64::from(u32::MAX) * 1_000_000]);
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!(report.winner, Some(0));
    assert_eq!(report.rivals[1].failure.as_ref().map(|f| f.kind), Some(FailureKind::TimedOut));
}

#[test]
fn later_runs_get_a_time_out_near_the_best() {
    let mut script = Script::constant(&[10_000_000, 12_000_000]);
    run(&mut script, None, &rules(), &unlimited());
    assert_eq!(script.runs[0].2, rules().timeout);
    assert!(script.runs[2..].iter().all(|run| run.2 == Nanos(200_000_000)), "{:?}", script.runs);
}

#[test]
fn a_first_run_cut_off_by_a_short_budget_is_no_failure() {
    let budget = Budget::recorded(Nanos::from_millis(5));
    let mut script = Script::constant(&[100_000_000]);
    let report = run(&mut script, None, &rules(), &budget);
    assert_eq!((report.winner, report.stopped), (None, StopReason::BudgetSpent));
    assert_eq!((report.rivals[0].failure.clone(), report.rivals[0].dropped_after), (None, Some(0)));
}

#[test]
fn a_budget_of_evaluations_limits_the_candidates_started() {
    let budget = unlimited().evaluations(2);
    let mut script = Script::constant(&[300_000, 200_000, 100_000]);
    let report = run(&mut script, None, &rules(), &budget);
    assert_eq!((report.winner, script.runs_of(2)), (Some(1), 0));
}

#[test]
fn a_race_stopped_by_its_budget_still_names_the_best_so_far() {
    let budget = Budget::recorded(Nanos(450_000));
    let report = run(&mut Script::constant(&[200_000, 150_000]), None, &rules(), &budget);
    assert_eq!((report.winner, report.stopped), (Some(1), StopReason::BudgetSpent));
    assert_eq!(report.rivals[0].samples, [200_000.0], "a warm-up counts when it is all there is");
}

#[test]
fn a_thorough_race_gives_everyone_the_same_rounds() {
    let thorough = Rules { precision: Some(Nanos(50)), ..Rules::thorough() };
    let mut script = Script::constant(&[100_000, 900_000]);
    let report = run(&mut script, None, &thorough, &unlimited());
    assert!(report.rivals.iter().all(|rival| rival.samples.len() == 10 && rival.dropped_after.is_none()));
}

#[test]
fn energy_is_reported_per_launch() {
    let mut script = Script { energy_uj: Some(500), ..Script::constant(&[1_000]) };
    let report = run(&mut script, None, &rules(), &unlimited());
    assert_eq!(report.rivals[0].energy_uj, Some(50.0), "batches of ten launches");
}

#[test]
fn every_first_run_is_announced_before_it_begins() {
    let mut events = Vec::new();
    let mut script = Script::constant(&[100_000, 950_000]);
    let list = candidates(2);
    let mut note = |progress: &Progress| events.push((progress.event, progress.candidate));
    race(&mut script, &list, None, &rules(), &unlimited(), &mut note);
    use Event::{Dropped, Ran, Starting};
    let seen = [(Starting, 0), (Ran, 0), (Starting, 1), (Ran, 1), (Dropped, 1), (Ran, 0), (Ran, 0)];
    assert_eq!(events, seen);
}

/// Times from 20 ns to 100 ms, spread evenly over the orders of magnitude.
fn time_ns() -> impl Strategy<Value = u64> {
    (20.0f64.log2()..1e8f64.log2()).prop_map(|log2| log2.exp2() as u64)
}

proptest! {
    #[test]
    fn without_noise_the_winner_is_within_the_indifference_of_the_best(
        times in prop::collection::vec(time_ns(), 1..12),
        incumbent in prop::option::of(0usize..12),
    ) {
        let report = run(&mut Script::constant(&times), incumbent, &rules(), &unlimited());
        let best = *times.iter().min().unwrap() as f64;
        let winner = report.winner.unwrap();
        prop_assert!(times[winner] as f64 <= best * 1.02 + 1e-9);
        if let Some(incumbent) = incumbent.filter(|&i| i < times.len() && times[i] as f64 <= best * 1.02) {
            prop_assert_eq!(winner, incumbent);
        }
    }

    #[test]
    fn a_ten_second_candidate_runs_once_at_most_when_anything_is_four_times_faster(
        times in prop::collection::vec(time_ns(), 1..6),
        position in 0usize..6,
        incumbent in prop::option::of(0usize..6),
    ) {
        let mut times = times;
        let position = position.min(times.len());
        times.insert(position, 10_000_000_000);
        let mut script = Script::constant(&times);
        run(&mut script, incumbent, &rules(), &unlimited());
        prop_assert!(script.runs_of(position as u32) <= 1);
    }

    #[test]
    fn the_budget_is_overdrawn_by_one_run_at_most(
        times in prop::collection::vec(time_ns(), 1..8),
        limit in 1_000u64..1_000_000_000,
    ) {
        let budget = Budget::recorded(Nanos(limit));
        let mut script = Script::constant(&times);
        let report = run(&mut script, None, &rules(), &budget);
        let longest = script.runs.iter().map(|run| times[run.0 as usize] * u64::from(run.1)).max().unwrap_or(0);
        prop_assert!(report.spent.0 <= limit + longest);
        prop_assert_eq!(report.runs as usize, script.runs.len());
        for (_, _, timeout) in &script.runs {
            prop_assert!(timeout.0 <= limit);
        }
    }

    #[test]
    fn any_script_ends_the_same_way_twice_and_never_crowns_a_failure(
        times in prop::collection::vec(prop::collection::vec(time_ns(), 1..6), 1..6),
        fails in prop::collection::vec((0u32..6, 0usize..4), 0..4),
        disturbed in prop::collection::vec((0u32..6, 0usize..8), 0..12),
        limit in 1_000u64..10_000_000_000,
        dropping in any::<bool>(),
    ) {
        let script = || Script {
            times_ns: times.clone(),
            fails: fails.iter().map(|&key| (key, FailureKind::Wrong)).collect(),
            disturbed: disturbed.iter().map(|&key| (key, Interference::Preempted)).collect(),
            ..Script::default()
        };
        let rules = Rules { dropping, ..rules() };
        let first = run(&mut script(), None, &rules, &Budget::recorded(Nanos(limit)));
        let second = run(&mut script(), None, &rules, &Budget::recorded(Nanos(limit)));
        prop_assert_eq!(&first, &second);
        prop_assert_eq!(first.rivals.len(), times.len());
        for (index, rival) in first.rivals.iter().enumerate() {
            prop_assert_eq!(rival.candidate, index);
            prop_assert!(rival.samples.len() <= rules.max_samples as usize);
            prop_assert!(rival.interfered as usize <= rival.samples.len());
        }
        if let Some(winner) = first.winner {
            prop_assert!(first.rivals[winner].failure.is_none());
            prop_assert!(!first.rivals[winner].samples.is_empty());
        }
    }
}
