//! Live resize on made-up curves: it finds what is better, stays within its bound of changes, and never swings.
#![expect(clippy::unwrap_used, reason = "a value that is not of its ladder has failed the test")]

use proptest::prelude::*;
use trimtab_core::{Nanos, RandomNumbers};
use trimtab_tune::{Margins, Observed, Resize};

/// How throughput scatters around a curve.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Evenly by this share, up and down.
    even: f64,
    /// This share of launches is disturbed: up to four times slower.
    tails: f64,
}

impl Noise {
    fn of(&self, random: &mut RandomNumbers) -> f64 {
        let even = 1.0 + self.even * (2.0 * random.unit() - 1.0);
        let tail = if random.unit() < self.tails { 1.0 + 3.0 * random.unit() } else { 1.0 };
        even / tail
    }
}

fn launch(throughput: f64) -> Observed {
    Observed { work: 1e9, busy: Nanos((1e9 / throughput * 1e3) as u64), idle: Nanos(0) }
}

fn ladder(rungs: usize) -> Vec<u32> {
    (0..rungs as u32).map(|rung| 8 << rung).collect()
}

/// Runs a controller against a curve; every value it had, in the order it had them.
fn run(
    resize: &mut Resize,
    curve: &[f64],
    noise: Noise,
    random: &mut RandomNumbers,
    launches: usize,
) -> Vec<u32> {
    let values = ladder(curve.len());
    let (mut had, before) = (vec![resize.value()], resize.changes() as usize);
    for _ in 0..launches {
        let at = position(&values, resize);
        let change = resize.observe(launch(curve[at] * noise.of(random)));
        if let Some(value) = change {
            assert_eq!(value, resize.value());
            had.push(value);
        }
    }
    assert_eq!(had.len() - 1, resize.changes() as usize - before);
    had
}

fn swings(had: &[u32]) -> bool {
    had.windows(4).any(|four| four[0] == four[2] && four[1] == four[3])
}

/// A curve with one or two peaks over a ladder.
fn curve(rungs: usize, peaks: usize, slope: f64, random: &mut RandomNumbers) -> Vec<f64> {
    let at: Vec<(f64, f64)> =
        (0..peaks).map(|_| (random.unit() * (rungs - 1) as f64, 0.5 + random.unit())).collect();
    (0..rungs)
        .map(|rung| {
            let height = |&(peak, height): &(f64, f64)| height * (-slope * (rung as f64 - peak).abs()).exp2();
            at.iter().map(height).fold(0.0, f64::max)
        })
        .collect()
}

/// The best a search from `start` can reach: beyond a quarter of the throughput it does not go.
fn reachable(curve: &[f64], start: usize) -> f64 {
    let is_shallow = |rung: &usize| curve[*rung] >= curve[start] / 3.8;
    let above = (start + 1..curve.len()).take_while(is_shallow);
    let below = (0..start).rev().take_while(is_shallow);
    above.chain(below).chain([start]).map(|rung| curve[rung]).fold(0.0, f64::max)
}

fn position(values: &[u32], resize: &Resize) -> usize {
    values.iter().position(|value| *value == resize.value()).unwrap()
}

const NONE: Noise = Noise { even: 0.0, tails: 0.0 };

#[test]
fn a_default_that_is_twice_as_slow_is_left_within_8_launches_wherever_the_better_value_is() {
    for rungs in 2..=6 {
        for start in 0..rungs {
            for best in (0..rungs).filter(|best| *best != start) {
                // Flat, with a shallow dip towards the better value, and with another that is a little better.
                for beside in [1.0, 0.8, 0.6, 1.2] {
                    let mut curve = vec![beside; rungs];
                    (curve[start], curve[best]) = (1.0, 2.0);
                    let values = ladder(rungs);
                    let mut resize = Resize::new(&values, values[start], Margins::default());
                    run(&mut resize, &curve, NONE, &mut RandomNumbers::new(1), 8);
                    assert_eq!(resize.value(), values[best], "{rungs} {start} {best} {beside}");
                    run(&mut resize, &curve, NONE, &mut RandomNumbers::new(1), 200);
                    assert!(resize.settled() && resize.value() == values[best]);
                    assert_eq!(resize.gain(), (values[start], 2.0));
                }
            }
        }
    }
}

#[test]
fn in_a_long_ladder_a_wide_peak_is_found_by_halving_the_steps() {
    for (rungs, start, peak) in [(16, 0, 11), (16, 15, 3), (64, 0, 40), (64, 63, 22), (64, 31, 50)] {
        let curve: Vec<f64> =
            (0..rungs).map(|rung: usize| 1.0 / (1.0 + 0.1 * rung.abs_diff(peak) as f64)).collect();
        let values: Vec<u32> = (1..=rungs as u32).collect();
        let mut resize = Resize::new(&values, values[start], Margins::default());
        for _ in 0..100 {
            resize.observe(launch(curve[position(&values, &resize)]));
        }
        assert!(curve[position(&values, &resize)] >= 0.9, "{rungs} {start} {peak}: {}", resize.value());
        assert!(resize.changes() <= 32, "{}", resize.changes());
    }
}

#[test]
fn on_any_stationary_curve_and_noise_it_ends_near_the_best_searches_once_and_never_swings() {
    // (even noise, disturbed launches, how many of a thousand searches may end more than 10 % below the best)
    for (even, tails, off) in
        [(0.0, 0.0, 0), (0.03, 0.0, 0), (0.02, 0.1, 10), (0.1, 0.1, 10), (0.2, 0.0, 10), (0.2, 0.1, 10)]
    {
        let mut random = RandomNumbers::new(11);
        let mut missed = 0;
        for case in 0..1_000 {
            let rungs = 2 + (random.unit() * 9.0) as usize;
            let slope = random.unit() * 0.9;
            let curve = curve(rungs, 1 + case % 2, slope, &mut random);
            let start = (random.unit() * rungs as f64) as usize;
            let values = ladder(rungs);
            let mut resize = Resize::new(&values, values[start], Margins::default());
            let had = run(&mut resize, &curve, Noise { even, tails }, &mut random, 1_500);
            let told = format!("{even} {tails}: from {start} {had:?} over {curve:.2?}");
            assert!(resize.settled() && resize.searches() == 1, "{told}");
            assert!(resize.changes() as usize <= 2 * rungs + 2, "{told}");
            assert!(!swings(&had), "{told}");
            missed += usize::from(curve[position(&values, &resize)] < 0.9 * reachable(&curve, start));
        }
        assert!(missed <= off, "{even} {tails}: {missed} of 1000 ended more than 10 % below the best");
    }
}

#[test]
fn a_machine_that_becomes_slower_as_a_whole_keeps_its_value() {
    let curve = [1.0, 1.6, 2.0, 1.5, 1.0];
    let values = ladder(5);
    for even in [0.0, 0.1] {
        let (mut random, noise) = (RandomNumbers::new(3), Noise { even, tails: 0.05 });
        let mut resize = Resize::new(&values, values[0], Margins::default());
        run(&mut resize, &curve, noise, &mut random, 1_000);
        assert_eq!(resize.value(), values[2]);
        let changes = resize.changes();
        // A little slower is no reason to doubt it.
        run(&mut resize, &curve.map(|level| level / 1.15), noise, &mut random, 1_000);
        assert_eq!(resize.changes(), changes);
        // Half as fast is: it looks around once and comes back.
        run(&mut resize, &curve.map(|level| level / 2.3), noise, &mut random, 2_000);
        assert!(resize.settled() && resize.value() == values[2], "{}", resize.why());
        assert!(resize.changes() - changes <= 10 && resize.searches() == 2, "{}", resize.changes());
    }
}

#[test]
fn a_best_value_that_moves_is_followed_once() {
    let values = ladder(5);
    for even in [0.0, 0.1] {
        let (mut random, noise) = (RandomNumbers::new(5), Noise { even, tails: 0.05 });
        let mut resize = Resize::new(&values, values[0], Margins::default());
        run(&mut resize, &[1.0, 1.6, 2.0, 1.5, 1.0], noise, &mut random, 1_000);
        let had = run(&mut resize, &[2.0, 1.5, 1.0, 0.9, 0.8], noise, &mut random, 3_000);
        assert!(resize.settled() && resize.value() == values[0], "{}", resize.why());
        assert!(resize.searches() == 2 && had.len() <= 2 * values.len() + 1, "{had:?}");
        assert_eq!(resize.gain().0, values[2]);
    }
}

#[test]
fn a_load_that_comes_and_goes_changes_it_less_and_less_often() {
    let values = ladder(4);
    let loads = [[1.0, 1.4, 2.0, 1.6], [2.0, 1.4, 0.9, 0.7]];
    for period in [5, 40, 100, 400] {
        let mut random = RandomNumbers::new(9);
        let mut resize = Resize::new(&values, values[0], Margins::default());
        let launches = 40_000;
        for round in 0..launches / period {
            run(&mut resize, &loads[round % 2], Noise { even: 0.05, tails: 0.02 }, &mut random, period);
        }
        // A dwell of 32 that doubles fits 10 times into 40,000 launches.
        assert!(resize.searches() <= 11, "{period}: {}", resize.searches());
        assert!(resize.changes() as usize <= 2 * values.len() * 11, "{period}: {}", resize.changes());
    }
}

#[test]
fn with_much_idle_time_growing_is_tried_first_and_else_what_helps() {
    let values = ladder(5);
    let tried = |idle: u64, curve: [f64; 5]| {
        let mut resize = Resize::new(&values, values[2], Margins::default());
        let mut tried = Vec::new();
        while tried.len() < 4 {
            let seen = launch(curve[position(&values, &resize)]);
            tried.extend(resize.observe(Observed { idle: Nanos(seen.busy.0 * idle), ..seen }));
        }
        tried
    };
    assert_eq!(tried(1, [1.2, 1.1, 1.0, 0.9, 0.8]), [values[3], values[4], values[1], values[0]]);
    assert_eq!(tried(0, [1.2, 1.1, 1.0, 0.9, 0.8]), [values[3], values[1], values[0], values[4]]);
    assert_eq!(tried(0, [0.8, 0.9, 1.0, 1.1, 1.2]), [values[3], values[4], values[1], values[0]]);
}

#[test]
fn what_is_far_worse_ends_the_way_in_its_direction() {
    let values = ladder(6);
    let mut resize = Resize::new(&values, values[2], Margins::default());
    let had = run(&mut resize, &[1.1, 1.2, 1.0, 0.2, 0.1, 0.05], NONE, &mut RandomNumbers::new(1), 300);
    assert!(!had.contains(&values[4]) && !had.contains(&values[5]), "{had:?}");
    assert_eq!(resize.value(), values[1]);
}

#[test]
fn slow_first_launches_at_a_value_are_not_held_against_it() {
    let values = ladder(4);
    let curve = [1.0, 1.2, 1.5, 1.1];
    let mut resize = Resize::new(&values, values[0], Margins::default());
    let mut is_first = true;
    for _ in 0..60 {
        let level = curve[position(&values, &resize)] * if is_first { 0.6 } else { 1.0 };
        is_first = resize.observe(launch(level)).is_some();
    }
    assert_eq!(resize.value(), values[2], "{}", resize.why());
}

#[test]
fn floor_ceiling_and_refused_values_are_kept_to() {
    let values = ladder(6);
    let margins = Margins { floor: values[1], ceiling: values[4], ..Margins::default() };
    let mut resize = Resize::new(&values, values[0], margins);
    assert_eq!(resize.value(), values[1]);
    let mut refused = false;
    for _ in 0..200 {
        // The larger the better, but one cannot be used.
        if let Some(value) = resize.observe(launch(f64::from(resize.value()))) {
            assert!(!refused || value != values[4]);
            if value == values[4] {
                assert!(resize.refuse() < values[4]);
                refused = true;
            }
        }
        assert!((values[1]..=values[4]).contains(&resize.value()));
    }
    assert!(refused && resize.value() == values[3], "{}", resize.why());
}

#[test]
fn a_single_value_never_changes_and_no_value_is_the_start() {
    for ladder in [&[64][..], &[64, 64], &[]] {
        let mut resize = Resize::new(ladder, 64, Margins::default());
        for _ in 0..100 {
            assert_eq!(resize.observe(launch(1.0)), None);
        }
        assert!(resize.value() == 64 && resize.settled() && resize.changes() == 0);
        assert_eq!(resize.refuse(), 64);
    }
}

#[test]
fn what_is_no_throughput_is_ignored() {
    let values = ladder(3);
    let mut resize = Resize::new(&values, values[0], Margins::default());
    for (work, busy) in
        [(0.0, 5), (f64::NAN, 5), (f64::INFINITY, 5), (-1.0, 5), (1.0, 0), (f64::NEG_INFINITY, 0)]
    {
        for _ in 0..100 {
            let seen = Observed { work, busy: Nanos(busy), idle: Nanos(u64::MAX) };
            assert_eq!(resize.observe(seen), None, "{work} {busy}");
        }
    }
    assert!(!resize.settled() && resize.changes() == 0);
}

#[test]
fn it_says_why() {
    let values = ladder(3);
    let mut resize = Resize::new(&values, values[0], Margins::default());
    assert_eq!(resize.why(), "8: measured before others are tried");
    run(&mut resize, &[1.0, 2.0, 1.5], NONE, &mut RandomNumbers::new(1), 100);
    assert_eq!(resize.why(), "16: 2.0× the throughput of 8; doubted when throughput shifts for 32 launches");
    let mut resize = Resize::new(&values, values[1], Margins::default());
    run(&mut resize, &[1.0, 2.0, 1.5], NONE, &mut RandomNumbers::new(1), 100);
    assert_eq!(resize.why(), "16: nothing is clearly better; doubted when throughput shifts for 32 launches");
}

proptest! {
    #[test]
    fn whatever_is_observed_the_value_is_of_the_ladder_and_the_same_again(
        ladder in proptest::collection::vec(0u32..5_000, 0..20),
        start in 0u32..6_000,
        enter in prop_oneof![Just(f64::NAN), Just(-1.0), 1.0..3.0],
        dwell in 0u32..100,
        seen in proptest::collection::vec((prop_oneof![Just(f64::NAN), Just(0.0), 1e-300..1e300], 0u64..1_000_000), 0..600),
        refuse in 1usize..50,
    ) {
        let margins = Margins { enter, dwell, floor: 10, ceiling: 4_000, ..Margins::default() };
        let run = || {
            let mut resize = Resize::new(&ladder, start, margins);
            let mut had = vec![resize.value()];
            for (nth, &(work, busy)) in seen.iter().enumerate() {
                let change = resize.observe(Observed { work, busy: Nanos(busy), idle: Nanos(busy / 2) });
                if change.is_some() && nth % refuse == 0 {
                    resize.refuse();
                }
                had.push(resize.value());
            }
            had
        };
        let had = run();
        for value in &had {
            prop_assert!(ladder.contains(value) || had.iter().all(|other| other == value), "{value}");
            prop_assert!((10..=4_000).contains(value));
        }
        prop_assert_eq!(had, run());
    }
}
