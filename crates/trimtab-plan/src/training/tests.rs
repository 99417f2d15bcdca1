//! Tables of times: what is kept, what is learned from it, and when.

use super::*;
use trimtab_tune::Stopwatch;

fn problem(size: u64) -> Problem {
    format!("matmul:f32:{size}x{size}x{size}").parse().unwrap()
}

fn rival(number: u32) -> (KernelId, Point) {
    (KernelId(number), Point::new(&[number]))
}

fn told(belief: Belief, ns: f64, at_ms: u64) -> Label {
    Label { belief, ns, noise_log2: 0.0, at_ms }
}

fn teach(training: &TrainingTables, sizes: std::ops::Range<u64>) {
    for size in sizes {
        for (number, factor) in [(0, 1.0), (1, 1.5), (2, 1.005)] {
            training.note(0, &problem(size), rival(number), told(Belief::Quiet, size as f64 * factor, 0));
        }
    }
}

#[test]
fn of_twins_one_is_picked_and_who_never_wins_is_not() {
    let told = vec![vec![0.0, 0.001, 2.0, 1.0], vec![1.0, 1.001, 2.0, 0.0], vec![0.0, 0.0, 2.0, 1.0]];
    let (picked, missed) = pick(&told, &[0, 1, 2, 3]);
    assert_eq!((picked, missed), (vec![0, 3], 0.0));
    // One measured too seldom is not picked, and what is lost without it is told.
    let (picked, missed) = pick(&told, &[0, 1, 2]);
    assert_eq!(picked, [0]);
    assert!((missed - (1.0 - 1.02f64.log2()) / 3.0).abs() < 1e-12, "{missed}");
}

#[test]
fn the_newest_problems_count_and_a_quiet_time_is_not_replaced_by_a_busy_one() {
    let mut family = Family::default();
    let most = MOST_PROBLEMS as u64;
    for size in 2..most + 50 {
        family.note(&problem(size), rival(0), told(Belief::Quiet, 1.0, 0));
        family.note(&problem(size), rival(0), told(Belief::Busy, 9.0, 0));
    }
    assert_eq!((family.seen.len(), family.places.len()), (MOST_PROBLEMS, MOST_PROBLEMS));
    assert!(!family.places.contains_key(&problem(2)) && family.places.contains_key(&problem(most + 49)));
    assert!(family.places.iter().all(|(problem, place)| family.seen[*place].problem == *problem));
    assert!(family.seen.iter().all(|seen| seen.times[&0] == told(Belief::Quiet, 1.0, 0)));
}

#[test]
fn a_problem_measured_a_week_before_the_newest_counts_half() {
    let (week, mut family) = (7 * 24 * 3600 * 1000, Family::default());
    for size in 10..40 {
        let at_ms = if size < 20 { 5 * week } else { 6 * week };
        for number in [0, 1] {
            let ns = if (size < 25) == (number == 0) { 1.0 } else { 2.0 };
            // One rival of one problem was measured again since.
            let at_ms = if (size, number) == (10, 1) { 6 * week } else { at_ms };
            family.note(&problem(size), rival(number), told(Belief::Quiet, ns, at_ms));
        }
    }
    let collected = family.table().unwrap();
    let weights: Vec<f64> = (0..collected.tied.len()).map(|row| collected.tied.weight(row)).collect();
    assert_eq!((weights[0], &weights[1..10], &weights[10..]), (0.75, &[0.5; 9][..], &[1.0; 20][..]));
    assert!((0..weights.len()).all(|row| collected.table.weight(row) == weights[row]));
    // Of something ancient a little is left.
    family.note(&problem(10), rival(0), told(Belief::Quiet, 1.0, 0));
    family.note(&problem(10), rival(1), told(Belief::Quiet, 1.0, 0));
    family.note(&problem(39), rival(1), told(Belief::Quiet, 1.0, 600 * week));
    assert_eq!(family.table().unwrap().table.weight(0), LEAST_WEIGHT);
}

#[test]
fn who_is_within_the_noise_of_the_best_is_as_fast_for_the_model_and_not_in_the_table_shown() {
    let mut family = Family::default();
    for size in 10..20 {
        let noisy = Label { noise_log2: 1.06f64.log2(), ..told(Belief::Quiet, 1.05, 0) };
        let far = Label { noise_log2: 9.0, ..told(Belief::Quiet, 1.2, 0) };
        let all = [told(Belief::Quiet, 1.0, 0), told(Belief::Quiet, 1.015, 0), noisy, far];
        // Everyone is best somewhere.
        for (number, one) in all.into_iter().enumerate() {
            let turned = (number as u32 + size as u32) % 4;
            family.note(&problem(size), rival(turned), one);
        }
    }
    let collected = family.table().unwrap();
    let row = |table: &Table| {
        let mut row: Vec<f64> = table.told(0).iter().map(|log2| log2.exp2()).collect();
        row.sort_by(f64::total_cmp);
        row
    };
    assert_eq!(row(&collected.tied)[..3], [1.0; 3]);
    assert!((row(&collected.tied)[3] - 1.2).abs() < 1e-9);
    assert!((row(&collected.table)[2] - 1.05).abs() < 1e-9);
}

#[test]
fn a_tenth_more_measurements_are_learned_by_a_thread_of_their_own() {
    let training = TrainingTables::default();
    teach(&training, 10..10 + FEWEST_ROWS as u64 - 1);
    let about = |waits: bool| training.about(0, &problem(100), waits);
    assert!(about(true).is_none());
    teach(&training, 10..50);
    let problems = || about(false).map_or(0, |trained| trained.learned.problems());
    assert_eq!(problems(), 40);
    teach(&training, 50..80);
    // The old model answers until someone has time to learn.
    assert_eq!(problems(), 40);
    training.catch_up(0, &problem(100));
    let watch = Stopwatch::start();
    while problems() != 70 {
        assert!(watch.elapsed().duration().as_secs() < 60, "never learned again");
        std::thread::yield_now();
    }
    training.clear();
    assert!(about(true).is_none());
}

#[test]
fn every_kind_of_problem_has_a_finite_number_for_each_axis() {
    for text in [
        "matmul:f64:3x0x1x5",
        "elementwise.add:f32:64x32,32",
        "reduce.sum:f32:64x1024:axis1",
        "transpose:f32:8x512x64:0.2.1",
        "custom.family:5x7",
    ] {
        let problem: Problem = text.parse().unwrap();
        let (at, axes) = (describe(&problem), axes(&problem));
        assert_eq!(at.len(), axes.names.len(), "{text}");
        assert!(axes.near > 0 && at.iter().all(|value| value.is_finite()), "{text}");
        assert_eq!(wanted(&[problem, problem]).len(), 2, "{text}");
    }
}

#[test]
fn times_of_many_families_are_bounded_and_a_family_goes_on_learning() {
    let tables = TrainingTables::default();
    let told = |ns: f64| Label { belief: Belief::Quiet, ns, noise_log2: 0.0, at_ms: 1 };
    // Each family has another name, and a problem of as many times as there are settings.
    let family = |nth: usize, size: u64| -> Problem {
        trimtab_core::Custom::new(&format!("f{nth}"), &[size]).unwrap().into()
    };
    for nth in 0..300 {
        (0..2_000).for_each(|number| tables.note(0, &family(nth, 8), rival(number), told(1.0)));
    }
    let times = || tables.times.load(Ordering::Relaxed);
    assert!((MOST_TIMES..MOST_TIMES + 2_000).contains(&times()), "{}", times());
    let counted = || tables.families.lock().unwrap().values().map(|family| family.times).sum::<usize>();
    assert_eq!(times(), counted());
    // Nobody else comes in, but who is there is still told of.
    tables.note(0, &family(1, 9), rival(1), told(1.0));
    assert!(!tables.families.lock().unwrap().values().any(|known| known.places.contains_key(&family(1, 9))));
    tables.note(0, &family(1, 8), rival(1), told(7.0));
    let seen =
        |ns: f64| tables.families.lock().unwrap().values().any(|known| known.seen[0].times[&1].ns == ns);
    assert!(seen(7.0));
    tables.leave(0);
    assert_eq!((times(), counted()), (0, 0));
}
