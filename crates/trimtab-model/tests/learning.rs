//! Models on real times: 600 matrix products by ten variants, measured by `cargo xtask bench regret --shapes 600 --save`.

#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

use trimtab_core::{DType, Matmul, Problem, RandomNumbers};
use trimtab_model::learn::{
    Axes, ENOUGH_LOSS, FIRST, Learned, Model, ModelChoice, ModelKind, SLOWEST_LOG2, Table, axes, k_centre,
    next, relative, shape,
};

const SEED: u64 = 1;

struct Times {
    variants: Vec<&'static str>,
    sizes: Vec<[u64; 3]>,
    ns: Vec<Vec<f64>>,
    table: Table,
}

fn product(sizes: [u64; 3]) -> Problem {
    Problem::Matmul(Matmul::new(DType::F32, sizes[0], sizes[1], sizes[2]).unwrap())
}

fn times() -> Times {
    let text = include_str!("data/matmul_times.csv");
    let mut lines = text.lines();
    let variants: Vec<&str> = lines.next().unwrap().split(',').skip(3).collect();
    let mut times = Times {
        table: Table::new(axes(&product([1; 3])), variants.len()),
        variants,
        sizes: Vec::new(),
        ns: Vec::new(),
    };
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let [m, n, k] = [0, 1, 2].map(|at: usize| cells[at].parse().unwrap());
        let ns: Vec<f64> = cells[3..].iter().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
        assert!(times.table.push(&shape(&product([m, n, k])), &ns, 1.0));
        times.sizes.push([m, n, k]);
        times.ns.push(ns);
    }
    times
}

/// (expected, actual) losses in doublings on rows.
fn losses(times: &Times, learned: &Learned, rows: &[usize]) -> Vec<(f64, f64)> {
    let mut buffers = learned.buffers();
    let loss = |&row: &usize| {
        let told = times.table.told(row);
        let choice =
            learned.choose(times.table.at(row), |rival| !told[rival].is_nan(), &mut buffers).unwrap();
        let best = times.ns[row].iter().copied().fold(f64::INFINITY, f64::min);
        (choice.expected_log2, (times.ns[row][choice.rival] / best).log2())
    };
    rows.iter().map(loss).collect()
}

fn geomean(losses: &[(f64, f64)]) -> f64 {
    (losses.iter().map(|loss| loss.1).sum::<f64>() / losses.len() as f64).exp2()
}

/// Learned from `count` random rows and judged on the others, over several draws.
fn judged(times: &Times, kind: ModelKind, count: usize, draws: u64) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    for draw in 0..draws {
        let order = RandomNumbers::new(draw).order(times.table.len());
        let (measured, others) = order.split_at(count);
        let learned = Learned::fit(kind, &times.table.part(measured), draw).unwrap();
        all.extend(losses(times, &learned, others));
    }
    all
}

#[test]
fn the_default_loses_little_on_shapes_it_has_not_seen() {
    let times = times();
    for (count, most) in [(100, 1.06), (200, 1.04)] {
        let mut all = judged(&times, ModelKind::Default, count, 4);
        let mean = geomean(&all);
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        let p95 = all[all.len() * 95 / 100].1.exp2();
        assert!(mean <= most && p95 <= 1.30, "after {count}: {mean} {p95}");
    }
}

#[test]
fn every_kind_beats_the_best_single_variant_by_far() {
    let times = times();
    let always = |variant: &usize| times.ns.iter().all(|ns| ns[*variant].is_finite());
    let lost = |variant: usize| {
        let rows = (0..times.table.len()).map(|row| {
            let best = times.ns[row].iter().copied().fold(f64::INFINITY, f64::min);
            (0.0, (times.ns[row][variant] / best).log2())
        });
        geomean(&rows.collect::<Vec<_>>())
    };
    let single = (0..times.variants.len()).filter(always).map(lost).fold(f64::INFINITY, f64::min);
    for kind in ModelKind::ALL {
        let mean = geomean(&judged(&times, kind, 150, 1));
        assert!(mean - 1.0 < 0.25 * (single - 1.0), "{}: {mean}, best single {single}", kind.name());
    }
}

#[test]
fn the_expected_loss_is_near_the_actual_one_where_it_is_small_and_where_it_is_large() {
    let times = times();
    for count in [100, 200] {
        // Most losses are small; with a few draws the mean of a fifth is at the mercy of the few large ones.
        let mut all = judged(&times, ModelKind::Default, count, 60);
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        for fifth in 0..5 {
            let part = &all[fifth * all.len() / 5..(fifth + 1) * all.len() / 5];
            let mean = |of: fn(&(f64, f64)) -> f64| part.iter().map(of).sum::<f64>() / part.len() as f64;
            let (expected, actual) = (mean(|loss| loss.0), mean(|loss| loss.1));
            // Below a third of a per cent both are as good as nothing.
            let ratio = (expected + 0.005) / (actual + 0.005);
            assert!(
                (1.0 / 1.5..1.5).contains(&ratio),
                "after {count}, fifth {fifth}: expected {expected}, was {actual}"
            );
        }
    }
}

#[test]
fn one_decade_beyond_what_was_measured_is_still_chosen_well() {
    let times = times();
    let work = |row: &usize| times.sizes[*row].iter().map(|size| *size as f64).product::<f64>();
    let rows: Vec<usize> = (0..times.table.len()).collect();
    let mut all = Vec::new();
    for edge in [1e7, 1e8] {
        let measured: Vec<usize> = rows.iter().copied().filter(|row| work(row) <= edge).collect();
        let beyond: Vec<usize> =
            rows.iter().copied().filter(|row| work(row) > edge && work(row) <= 10.0 * edge).collect();
        let learned = Learned::fit(ModelKind::Default, &times.table.part(&measured), SEED).unwrap();
        all.extend(losses(&times, &learned, &beyond));
    }
    assert!(all.len() > 40 && geomean(&all) <= 1.08, "{} {}", all.len(), geomean(&all));
}

#[test]
fn the_same_table_and_seed_give_the_same_predictions_bit_for_bit() {
    let times = times();
    let part = times.table.part(&(0..80).collect::<Vec<_>>());
    for kind in ModelKind::ALL {
        let predict = || {
            let mut model = kind.make(SEED);
            model.fit(&part);
            let mut seen = Vec::new();
            let mut opinions = vec![0.0; model.members() * part.rivals()];
            for row in 100..140 {
                let (mut log2, mut spread) = (vec![0.0; part.rivals()], vec![0.0; part.rivals()]);
                model.predict(times.table.at(row), &mut log2, &mut spread, &mut opinions);
                assert!(
                    log2.iter().all(|value| (0.0..=SLOWEST_LOG2).contains(value)),
                    "{} {log2:?}",
                    kind.name()
                );
                assert!(spread.iter().all(|value| *value >= 0.0 && value.is_finite()), "{}", kind.name());
                seen.extend(log2.iter().chain(&spread).chain(&opinions).map(|value| value.to_bits()));
            }
            seen
        };
        assert_eq!(predict(), predict(), "{}", kind.name());
        assert_eq!(kind.make(SEED).name(), kind.name());
    }
}

#[test]
fn every_kind_says_what_a_choice_rests_on() {
    let times = times();
    for kind in ModelKind::ALL {
        let mut model = kind.make(SEED);
        model.fit(&times.table);
        let at = shape(&product([500, 300, 200]));
        let (mut log2, mut spread) = (vec![0.0; times.variants.len()], vec![0.0; times.variants.len()]);
        model.predict(&at, &mut log2, &mut spread, &mut []);
        let chosen = (0..log2.len()).min_by(|&a, &b| log2[a].total_cmp(&log2[b])).unwrap();
        let told = model.explain(&at, &times.variants).join("\n");
        assert!(told.contains(times.variants[chosen]), "{}: {told}", kind.name());
    }
}

#[test]
fn what_is_observed_counts_at_once_where_the_model_says_so() {
    let times = times();
    let part = times.table.part(&(0..100).collect::<Vec<_>>());
    let at = shape(&product([700, 700, 700]));
    // The rival that is slowest there turns out to be by far the fastest.
    let mut ns = vec![800.0; part.rivals()];
    ns[8] = 100.0;
    let mut told = vec![0.0; part.rivals()];
    assert!(relative(&ns, &mut told));
    let mut counted = Vec::new();
    for kind in ModelKind::ALL {
        let mut model = kind.make(SEED);
        model.fit(&part);
        let predict = |model: &dyn Model| {
            let (mut log2, mut spread) = (vec![0.0; part.rivals()], vec![0.0; part.rivals()]);
            model.predict(&at, &mut log2, &mut spread, &mut []);
            log2[8]
        };
        let before = predict(model.as_ref());
        if model.observe(&at, &told, 1.0) {
            assert!(predict(model.as_ref()) < before, "{}", kind.name());
            counted.push(kind);
        } else {
            assert_eq!(predict(model.as_ref()), before, "{}", kind.name());
        }
    }
    assert_eq!(counted, [ModelKind::Default, ModelKind::Linear, ModelKind::Nearest]);
}

#[test]
fn linear_updates_end_where_a_fit_of_all_rows_does() {
    let times = times();
    let mut whole = ModelKind::Linear.make(SEED);
    whole.fit(&times.table);
    let mut grown = ModelKind::Linear.make(SEED);
    grown.fit(&times.table.part(&(0..150).collect::<Vec<_>>()));
    for row in 150..times.table.len() {
        assert!(grown.observe(times.table.at(row), times.table.told(row), 1.0));
    }
    for row in 0..times.table.len() {
        let predict = |model: &dyn Model| {
            let (mut log2, mut spread) = (vec![0.0; times.variants.len()], vec![0.0; times.variants.len()]);
            model.predict(times.table.at(row), &mut log2, &mut spread, &mut []);
            log2
        };
        for (a, b) in predict(whole.as_ref()).iter().zip(predict(grown.as_ref())) {
            // The same sums; only the scale in which coefficients are held to zero is that of the first rows.
            assert!((a - b).abs() < 0.15, "{a} {b}");
        }
    }
}

#[test]
fn rows_that_count_little_say_little() {
    let axes = Axes { names: vec!["log2 m".to_string()], near: 1 };
    let mut table = Table::new(axes, 2);
    for step in 0..40 {
        // Old measurements say the second is twice as slow, fresh ones the first.
        let (ns, weight) = if step % 2 == 0 { ([100.0, 200.0], 0.01) } else { ([200.0, 100.0], 1.0) };
        assert!(table.push(&[f64::from(step / 2)], &ns, weight));
    }
    for kind in [
        ModelKind::Default,
        ModelKind::Linear,
        ModelKind::Tree,
        ModelKind::Extra,
        ModelKind::Nearest,
        ModelKind::Mlp,
    ] {
        let mut model = kind.make(SEED);
        model.fit(&table);
        let (mut log2, mut spread) = ([0.0; 2], [0.0; 2]);
        model.predict(&[7.0], &mut log2, &mut spread, &mut []);
        assert!(log2[1] + 0.5 < log2[0], "{}: {log2:?}", kind.name());
    }
}

/// A model of the caller's own: always the same.
struct Stubborn;

impl Model for Stubborn {
    fn name(&self) -> &'static str {
        "stubborn"
    }

    fn fit(&mut self, _: &Table) {}

    fn predict(&self, _: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
        log2.fill(1.0);
        log2[2] = 0.0;
        spread.fill(0.5);
    }

    fn explain(&self, _: &[f64], rivals: &[&str]) -> Vec<String> {
        vec![format!("{} is what I always take", rivals[2])]
    }
}

#[test]
fn a_model_of_the_callers_own_is_judged_like_the_others() {
    let times = times();
    let part = times.table.part(&(0..100).collect::<Vec<_>>());
    let own = Learned::with(&|_| Box::new(Stubborn), &part, SEED).unwrap();
    let default = Learned::fit(ModelKind::Default, &part, SEED).unwrap();
    assert!(own.regret() > 1.2 && default.regret() < 1.1, "{} {}", own.regret(), default.regret());
    let mut buffers = own.buffers();
    let choice = own.choose(part.at(0), |_| true, &mut buffers).unwrap();
    assert!(choice.rival == 2 && choice.expected_loss() > 0.05, "{choice:?}");
}

#[test]
fn auto_takes_the_kind_with_the_least_cross_validated_loss_and_the_same_one_again() {
    let times = times();
    let mut taken = Vec::new();
    for rows in [0..30, 30..90, 100..300] {
        let part = times.table.part(&rows.collect::<Vec<_>>());
        let judged = ModelKind::ALL.map(|kind| Learned::fit(kind, &part, SEED).unwrap());
        let least = judged.iter().min_by(|a, b| a.regret().total_cmp(&b.regret())).unwrap();
        let again = || ModelChoice::Auto.learn(&part, SEED).unwrap();
        let (one, other) = (again(), again());
        assert_eq!((one.model().name(), one.losses()), (least.model().name(), least.losses()));
        assert_eq!((one.model().name(), one.losses()), (other.model().name(), other.losses()));
        assert!(one.regret_p95() >= one.regret() && one.losses().len() == part.len());
        taken.push(one.model().name());
    }
    // Were it always the default, nothing would be shown.
    assert!(taken.iter().any(|name| *name != "default"), "{taken:?}");
}

#[test]
fn a_model_is_chosen_by_its_name_and_an_unknown_one_lists_the_names() {
    let part = times().table.part(&(0..40).collect::<Vec<_>>());
    for kind in ModelKind::ALL {
        let choice: ModelChoice = kind.name().to_ascii_uppercase().parse().unwrap();
        assert!(matches!(choice, ModelChoice::Kind(named) if named == kind), "{choice:?}");
        let learned = choice.learn(&part, SEED).unwrap();
        assert_eq!(learned.model().name(), kind.name());
    }
    assert!(matches!("auto".parse(), Ok(ModelChoice::Auto)));
    let error = "clever".parse::<ModelChoice>().unwrap_err().to_string();
    assert!(error.contains("`clever`") && error.contains("auto, default, linear, tree, forest"), "{error}");
    let own = ModelChoice::custom(|_| Box::new(Stubborn));
    assert_eq!(own.learn(&part, SEED).unwrap().model().name(), "stubborn");
}

#[test]
fn only_what_may_run_is_chosen_and_too_few_problems_give_no_model() {
    let times = times();
    let learned = Learned::fit(ModelKind::Default, &times.table, SEED).unwrap();
    let mut buffers = learned.buffers();
    for rival in 0..times.variants.len() {
        assert_eq!(learned.choose(times.table.at(0), |at| at == rival, &mut buffers).unwrap().rival, rival);
    }
    assert!(learned.choose(times.table.at(0), |_| false, &mut buffers).is_none());
    assert!(Learned::fit(ModelKind::Default, &times.table.part(&[0, 1, 2]), SEED).is_none());
}

#[test]
fn covering_rows_lie_farther_apart_than_random_ones() {
    let times = times();
    let distance = |a: usize, b: usize| -> f64 {
        times.table.at(a).iter().zip(times.table.at(b)).take(3).map(|(a, b)| (a - b).powi(2)).sum()
    };
    let closest = |rows: &[usize]| {
        let pairs = rows.iter().flat_map(|&a| rows.iter().map(move |&b| (a, b))).filter(|(a, b)| a != b);
        pairs.map(|(a, b)| distance(a, b)).fold(f64::INFINITY, f64::min)
    };
    let covering = k_centre(&times.table, &[], 30);
    assert_eq!(covering.len(), 30);
    assert!(closest(&covering) > 4.0 * closest(&RandomNumbers::new(1).order(times.table.len())[..30]));
    // What is taken already is not taken again.
    let more = k_centre(&times.table, &covering, 300);
    assert_eq!(more.len(), 300);
    assert!(more.iter().all(|row| !covering.contains(row)));
}

#[test]
fn measuring_where_the_model_doubts_is_worth_more_than_measuring_anywhere() {
    let times = times();
    let (mut active, mut random) = (0.0, 0.0);
    for seed in 0..3 {
        let wanted_rows = &RandomNumbers::new(seed).order(times.table.len())[..300];
        let mut wanted = Table::new(times.table.axes().clone(), times.variants.len());
        wanted_rows.iter().for_each(|&row| assert!(wanted.want(times.table.at(row))));
        let takes = |row: usize, rival: usize| times.ns[wanted_rows[row]][rival].is_finite();
        let learn = |measured: &[usize]| {
            let rows: Vec<usize> = measured.iter().map(|&row| wanted_rows[row]).collect();
            Learned::fit(ModelKind::Default, &times.table.part(&rows), seed)
        };
        // Lost over all wanted problems, where those that were measured are known.
        let lost = |measured: &[usize]| {
            let others: Vec<usize> =
                (0..wanted.len()).filter(|row| !measured.contains(row)).map(|row| wanted_rows[row]).collect();
            losses(&times, &learn(measured).unwrap(), &others).iter().map(|loss| loss.1).sum::<f64>()
        };
        let mut measured: Vec<usize> = Vec::new();
        let mut learned: Option<Learned> = None;
        while measured.len() < 100 {
            let next = next(&wanted, &measured, learned.as_ref(), takes, 8);
            assert_eq!(next.expected_loss.is_some(), measured.len() >= FIRST);
            assert!(!next.rows.is_empty() && next.rows.len() <= 8, "{next:?}");
            assert!(next.rows.iter().all(|row| !measured.contains(row)));
            measured.extend(next.rows);
            learned = learn(&measured);
        }
        active += lost(&measured);
        random += lost(&(0..measured.len()).collect::<Vec<_>>());
    }
    assert!(active < 0.75 * random, "{active} against {random}");
}

#[test]
fn measuring_ends_when_little_is_left_to_lose() {
    // One rival is always twice as fast: after the first rows there is nothing to learn.
    let mut table = Table::new(axes(&product([1; 3])), 2);
    let mut dice = RandomNumbers::new(1);
    while table.len() < 60 {
        let [m, n, k] = [0; 3].map(|_: i32| 4 + dice.below(1000) as u64);
        table.push(&shape(&product([m, n, k])), &[100.0, 200.0], 1.0);
    }
    let measured = next(&table, &[], None, |_, _| true, 100).rows;
    assert_eq!(measured.len(), FIRST);
    let learned = Learned::fit(ModelKind::Default, &table.part(&measured), SEED).unwrap();
    let done = next(&table, &measured, Some(&learned), |_, _| true, 10);
    assert!(done.rows.is_empty() && done.expected_loss.is_some_and(|loss| loss < ENOUGH_LOSS), "{done:?}");
}

#[test]
fn no_model_expects_to_lose_more_than_the_slowest_rival_does() {
    let mut dice = RandomNumbers::new(3);
    // Twenty problems, and sixty rivals of which nobody can tell who is fast.
    let axes = Axes { names: vec!["size".to_string()], near: 1 };
    let mut table = Table::new(axes, 60);
    for _ in 0..20 {
        let ns: Vec<f64> = (0..60).map(|_| 1e3 * (2.0 * dice.unit()).exp2()).collect();
        assert!(table.push(&[10.0 * dice.unit()], &ns, 1.0));
    }
    for kind in ModelKind::ALL {
        let learned = Learned::fit(kind, &table, SEED).unwrap();
        for at in [0.0, 5.0, 1e3] {
            let choice = learned.choose(&[at], |_| true, &mut learned.buffers()).unwrap();
            let (loss, most) = (choice.expected_loss(), 3.0);
            assert!((0.0..=most).contains(&loss), "{}: {loss} at {at}", kind.name());
        }
    }
}

/// A table anybody could come by: few or many rows, missing times, sizes that are all the same, times that differ a millionfold.
fn any_table(dice: &mut RandomNumbers) -> Table {
    let (width, rivals, rows) = (1 + dice.below(4), 1 + dice.below(12), 5 + dice.below(28));
    let names = (0..width).map(|axis| format!("axis {axis}")).collect();
    let mut table = Table::new(Axes { names, near: 1 + dice.below(width) }, rivals);
    let (apart, missing, spans) = ([0.0, 0.5, 4.0, 20.0][dice.below(4)], dice.unit(), 30.0 * dice.unit());
    while table.len() < rows {
        let at: Vec<f64> = (0..width).map(|axis| if axis == 2 { 7.0 } else { spans * dice.unit() }).collect();
        let time = |dice: &mut RandomNumbers| match dice.unit() < 0.5 * missing {
            true => f64::NAN,
            false => 1e3 * (apart * dice.unit()).exp2(),
        };
        let ns: Vec<f64> = (0..rivals).map(|_| time(dice)).collect();
        table.push(&at, &ns, [1.0, 1e-3, 1.0][dice.below(3)]);
    }
    table
}

#[test]
fn whatever_was_measured_every_kind_expects_a_loss_between_none_and_the_worst_that_was_seen() {
    let mut dice = RandomNumbers::new(8);
    let mut chosen = vec![0; ModelKind::ALL.len()];
    for round in 0..20 {
        let table = any_table(&mut dice);
        let told = (0..table.len()).flat_map(|row| table.told(row)).filter(|log2| !log2.is_nan());
        let most = told.fold(0.0f64, |most, log2| most.max(*log2)).exp2() - 1.0;
        for (kind, chosen) in ModelKind::ALL.into_iter().zip(&mut chosen) {
            let Some(learned) = Learned::fit(kind, &table, round) else { continue };
            assert!(learned.error_log2().is_finite() && learned.regret().is_finite(), "{}", kind.name());
            let mut buffers = learned.buffers();
            // Where it was measured, between, and as far away as numbers go.
            let far = [0.0, -1e3, 1e3, 1e12, -1e12, 1e300].map(|at| vec![at; table.width()]);
            let near = (0..table.len()).map(|row| table.at(row).to_vec());
            for at in near.chain(far) {
                let Some(choice) = learned.choose(&at, |_| true, &mut buffers) else { continue };
                let loss = choice.expected_loss();
                assert!(
                    (0.0..=most + 1e-9).contains(&loss),
                    "{} {round}: {loss} of {most} at {at:?}",
                    kind.name()
                );
                assert!(buffers.log2[choice.rival].is_finite(), "{} {round} at {at:?}", kind.name());
                *chosen += 1;
            }
        }
    }
    // Nobody gets away with choosing nothing.
    assert!(chosen.iter().all(|&count| count > 200), "{chosen:?}");
}
