//! Problems that were never measured, decided by what others of their family teach.
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its machine has failed")]

mod scripted;

use scripted::{Script, Scripted, kernel, reference};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trimtab_core::{Basis, Constraints, Custom, Device, Nanos, Objective, Patience, Problem, Terms};
use trimtab_plan::learn::{Learned, Model, ModelChoice, ModelKind, Table};
use trimtab_plan::{Decision, ENOUGH_PROBLEMS, Planner, Reason, Settings, TermsId, TuneRequest};
use trimtab_tune::Stopwatch;
use trimtab_wisdom::{FactKey, Outcome, Stats, Wisdom};

fn problem(size: u64) -> Problem {
    Custom::new("op", &[size]).unwrap().into()
}

fn kernels() -> Vec<Script> {
    vec![kernel("small", &[(1, 9_000)]), kernel("large", &[(1, 9_000), (2, 9_500)]), reference(500_000)]
}

fn planner(device: &Arc<Scripted>, wisdom: &Arc<Wisdom>, patience: Patience) -> Planner {
    going_by(device, wisdom, patience, ModelChoice::Auto)
}

fn going_by(device: &Arc<Scripted>, wisdom: &Arc<Wisdom>, patience: Patience, model: ModelChoice) -> Planner {
    // A scripted run takes no time; a busy machine must not make it look too long.
    let budget = Nanos::from_millis(2_000);
    let settings = Settings { patience, model, budget, ..Settings::default() };
    Planner::new(vec![Arc::clone(device) as Arc<dyn Device>], Arc::clone(wisdom), settings, Terms::default())
}

/// `small` is three times as fast below a size of 1,000, `large` above.
fn times(size: u64) -> [(&'static str, &'static str, f64); 4] {
    let (small, large) = if size < 1_000 { (1.0, 3.0) } else { (3.0, 1.0) };
    let ns = size as f64 * 10.0;
    [
        ("small", "tile=1", ns * small),
        ("large", "tile=1", ns * large),
        ("large", "tile=2", ns * large * 1.01),
        ("reference", "tile=1", ns * 50.0),
    ]
}

fn record<const N: usize>(
    device: &Scripted,
    wisdom: &Wisdom,
    size: u64,
    times: [(&'static str, &'static str, f64); N],
) {
    for (name, point, ns) in times {
        let key = FactKey {
            device: device.facts().fingerprint.0.clone(),
            kernel: name.to_string(),
            version: "1".to_string(),
            problem: problem(size).to_string(),
            point: point.to_string(),
            condition: "quiet".into(),
        };
        wisdom.record(key, Outcome::Timed(Stats::single(ns)));
    }
}

fn teach(device: &Scripted, wisdom: &Wisdom, sizes: impl IntoIterator<Item = u64>) {
    sizes.into_iter().for_each(|size| record(device, wisdom, size, times(size)));
}

/// Sizes from 8 to about 130,000, none of them a power of two.
fn sizes(count: u32) -> impl Iterator<Item = u64> {
    (0..count).map(move |nth| (9.0 * (14.0 * f64::from(nth) / f64::from(count)).exp2()) as u64)
}

fn training_table(count: u32) -> (Arc<Scripted>, Arc<Wisdom>) {
    let (device, wisdom) = (Scripted::new(kernels()), Arc::new(Wisdom::in_memory()));
    teach(&device, &wisdom, sizes(count));
    (device, wisdom)
}

fn decided(planner: &Planner, size: u64) -> Arc<Decision> {
    planner.plan(&problem(size), TermsId::default()).unwrap();
    planner.decision(&problem(size), TermsId::default()).unwrap()
}

#[test]
fn a_problem_between_measured_ones_is_not_measured_and_nothing_is_written() {
    let (device, wisdom) = training_table(60);
    let (facts, verdicts) = (wisdom.len(), wisdom.verdicts().len());
    let planner = planner(&device, &wisdom, Patience::Measure);
    for (size, expected) in [(50, "small"), (100_000, "large")] {
        let decision = decided(&planner, size);
        assert_eq!(decision.reason, Reason::Learned, "{size}: {:?}", decision.notes());
        assert_eq!(&*decision.winner().unwrap().name, expected);
        assert!(decision.expected_loss.unwrap() <= 0.02, "{:?}", decision.expected_loss);
        let estimate = decision.winner().unwrap().estimate().unwrap();
        assert!(matches!(estimate.basis, Basis::Learned(n) if n >= 50), "{estimate:?}");
        // At the level of the fits, which are rough here: the scripted machine counts the same work for every size.
        let ratio = estimate.time.0 as f64 / (size as f64 * 10.0);
        assert!((0.25..4.0).contains(&ratio), "{size}: {estimate:?}");
    }
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
    planner.drain();
    assert_eq!((wisdom.len(), wisdom.verdicts().len()), (facts, verdicts));
}

#[test]
fn the_same_wisdom_gives_the_same_learned_plans() {
    let (device, wisdom) = training_table(60);
    let plans = |patience: Patience| -> Vec<String> {
        let planner = planner(&device, &wisdom, patience);
        planner.learn_now(&problem(50));
        let of = |size| {
            let decision = decided(&planner, size);
            let winner = decision.winner().unwrap();
            format!("{} {} {:?}", winner.name, winner.point_name, decision.expected_loss)
        };
        [13, 77, 420, 3_000, 99_999].map(of).to_vec()
    };
    assert_eq!(plans(Patience::Estimate), plans(Patience::Estimate));
}

#[test]
fn too_few_problems_or_sizes_far_from_all_of_them_are_measured_as_before() {
    let (device, wisdom) = training_table(ENOUGH_PROBLEMS as u32 - 1);
    assert_eq!(decided(&planner(&device, &wisdom, Patience::Measure), 50).reason, Reason::Raced);
    let (device, wisdom) = training_table(60);
    let far = decided(&planner(&device, &wisdom, Patience::Measure), 1 << 30);
    assert_ne!(far.reason, Reason::Learned);
}

#[test]
fn a_kernel_nobody_has_measured_is_raced_not_passed_over() {
    let (_, wisdom) = training_table(60);
    let mut more = kernels();
    more.insert(0, kernel("new", &[(1, 100)]));
    let device = Scripted::new(more);
    let decision = decided(&planner(&device, &wisdom, Patience::Measure), 300);
    assert_eq!((decision.reason, &*decision.winner().unwrap().name), (Reason::Raced, "new"));
}

#[test]
fn where_the_model_is_not_sure_its_best_are_raced_and_tuning_races_all() {
    let (device, wisdom) = training_table(0);
    // Which is faster follows no rule a model could find.
    for (nth, size) in sizes(60).enumerate() {
        let (small, large) = if nth * nth % 7 < 3 { (1.0, 1.8) } else { (1.8, 1.0) };
        let factors = [("small", "tile=1", small), ("large", "tile=1", large), ("reference", "tile=1", 60.0)];
        let times = factors.map(|(name, point, factor)| (name, point, size as f64 * 10.0 * factor));
        record(&device, &wisdom, size, times);
    }
    let planner = planner(&device, &wisdom, Patience::Measure);
    let decision = decided(&planner, 5_000);
    assert_eq!(decision.reason, Reason::Raced);
    assert!(!decision.complete && decision.notes().iter().any(|note| note.contains("only the 2 rivals")));
    assert_eq!(device.count("reference"), 0);
    let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(10_000));
    let tuned = planner.tune(&problem(5_000), TermsId::default(), &request, &mut |_| ()).unwrap();
    assert!(tuned.complete && tuned.expected_loss.is_some(), "{:?}", tuned.notes());
    assert!(tuned.rivals.iter().all(|rival| rival.estimate().is_some()));
}

#[test]
fn mode_off_other_objectives_and_tuning_do_not_go_by_the_model() {
    let (device, wisdom) = training_table(60);
    let off = decided(&planner(&device, &wisdom, Patience::Off), 50);
    assert_eq!((off.reason, off.expected_loss), (Reason::DefaultOrder, None));
    let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(10_000));
    let by_tuning = planner(&device, &wisdom, Patience::Measure)
        .tune(&problem(51), TermsId::default(), &request, &mut |_| ())
        .unwrap();
    assert_eq!(by_tuning.reason, Reason::Raced);
    let weighed = Terms {
        objective: Objective { time: 1.0, memory: 0.5, ..Objective::default() },
        constraints: Constraints::default(),
    };
    let settings = Settings { patience: Patience::Measure, ..Settings::default() };
    let planner = Planner::new(vec![device as Arc<dyn Device>], wisdom, settings, weighed);
    assert_eq!(decided(&planner, 52).reason, Reason::Raced);
}

#[test]
fn an_explanation_foresees_the_learned_choice_and_says_what_it_rests_on() {
    let (device, wisdom) = training_table(60);
    let planner = planner(&device, &wisdom, Patience::Measure);
    planner.learn_now(&problem(50));
    let foreseen = planner.explain(&problem(50), TermsId::default()).unwrap();
    let decision = decided(&planner, 50);
    let after = planner.explain(&problem(50), TermsId::default()).unwrap();
    for explained in [&foreseen, &after] {
        assert_eq!(explained.reason, Reason::Learned);
        assert_eq!(explained.winner().unwrap().name, decision.winner().unwrap().name);
        assert_eq!(explained.expected_loss, decision.expected_loss);
        let grounds = planner.grounds(explained);
        assert!(grounds[0].contains("60 problems of this family"), "{grounds:?}");
    }
    assert_eq!(device.runs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_choice_that_fails_its_check_is_not_taken() {
    let (_, wisdom) = training_table(60);
    let mut lying = kernels();
    lying[0].lies_at = Some(1);
    let device = Scripted::new(lying);
    let decision = decided(&planner(&device, &wisdom, Patience::Measure), 50);
    assert_eq!(&*decision.winner().unwrap().name, "large");
}

/// Times of three kernels that cross where sizes grow, and one setting that is a twin.
fn smooth_ns(name: &str, tile: u32, problem: &Problem) -> f64 {
    let Problem::Custom(custom) = problem else { return f64::NAN };
    let [rows, columns] = *custom.sizes() else { return f64::NAN };
    let (rows, columns) = (rows as f64, columns as f64);
    let work = rows * columns;
    match name {
        "small" => 2_000.0 + 4.0 * work,
        "large" => 60_000.0 + 1.0 * work + if tile == 2 { 0.004 * work } else { 0.0 },
        "tall" => 10_000.0 + 1.6 * work + 900.0 * columns,
        _ => 20_000.0 + 90.0 * work,
    }
}

/// The same as a busy machine measures it: up to six per cent longer.
fn noisy_ns(name: &str, tile: u32, problem: &Problem, run: u32) -> f64 {
    let chance = f64::from(run.wrapping_mul(2_654_435_761) >> 8) / f64::from(1u32 << 24);
    smooth_ns(name, tile, problem) * (1.0 + 0.06 * chance)
}

#[test]
fn most_problems_never_seen_are_answered_without_measuring_for_next_to_no_loss() {
    let all = vec![
        kernel("small", &[(1, 1)]),
        kernel("large", &[(1, 1), (2, 1)]),
        kernel("tall", &[(1, 1)]),
        reference(1),
    ];
    let device = Scripted::smooth(all, noisy_ns);
    let planner = planner(&device, &Arc::new(Wisdom::in_memory()), Patience::Measure);
    let drawn = |nth: u64| {
        // Two sizes between 8 and 4,096 that follow no grid.
        let part = |by: u64| ((nth * by + 7) % 1_009) as f64 / 1_009.0;
        let size = |part: f64| (3.0 + 9.0 * part).exp2() as u64;
        Problem::from(Custom::new("op", &[size(part(613)), size(part(397))]).unwrap())
    };
    let request = TuneRequest::new(Patience::Measure, Nanos::from_millis(60_000));
    for nth in 0..60 {
        planner.tune(&drawn(nth), TermsId::default(), &request, &mut |_| ()).unwrap();
    }
    planner.learn_now(&drawn(0));
    let runs = device.runs.load(Ordering::Relaxed);
    let (mut learned, mut lost, mut expected) = (0, 0.0, 0.0);
    for nth in 60..100 {
        let problem = drawn(nth);
        planner.plan(&problem, TermsId::default()).unwrap();
        let decision = planner.decision(&problem, TermsId::default()).unwrap();
        if decision.reason == Reason::Learned {
            let ns = |name: &str, tile| smooth_ns(name, tile, &problem);
            let best =
                [("small", 1), ("large", 1), ("large", 2), ("tall", 1)].map(|(name, tile)| ns(name, tile));
            let winner = decision.winner().unwrap();
            let own = ns(&winner.name, winner.point.values()[0]);
            learned += 1;
            lost += own / best.into_iter().fold(f64::INFINITY, f64::min) - 1.0;
            expected += decision.expected_loss.unwrap();
        }
    }
    let (lost, expected) = (lost / f64::from(learned), expected / f64::from(learned));
    assert!(learned >= 20 && lost <= 0.02, "{learned} of 40 learned, {lost} lost, {expected} expected");
    assert!(expected <= 0.02 && device.runs.load(Ordering::Relaxed) > runs || learned == 40);
}

#[test]
fn a_rival_that_declines_a_problem_or_has_no_such_setting_does_not_take_it() {
    let (_, wisdom) = training_table(60);
    let of = |kernels: Vec<Script>| {
        let device = Scripted::new(kernels);
        let planner = planner(&device, &wisdom, Patience::Measure);
        let [training_table] = &planner.training_tables(1)[..] else { panic!("one family") };
        assert!(training_table.learn().is_some_and(|learned| learned.problems() == 60));
        let takes = planner.takes(training_table, &problem(77));
        let mut named: Vec<(String, bool)> = training_table.rivals.iter().cloned().zip(takes).collect();
        named.sort();
        named
    };
    let told = |small: bool, large: bool| {
        vec![("large@tile=1".to_string(), large), ("small@tile=1".to_string(), small)]
    };
    assert_eq!(of(kernels()), told(true, true));
    let mut fewer = kernels();
    fewer[0].declines = Some("not today");
    assert_eq!(of(fewer), told(false, true));
    let mut fewer = kernels();
    fewer[1].points = vec![(2, 1), (3, 1)];
    assert_eq!(of(fewer), told(true, false));
}

/// Takes the rival that was slowest in the mean: nobody else would.
#[derive(Default)]
struct Contrary {
    slowest: usize,
    panics: bool,
}

impl Model for Contrary {
    fn name(&self) -> &'static str {
        "contrary"
    }

    fn fit(&mut self, table: &Table) {
        assert!(!self.panics, "a model that cannot be fitted");
        let sum = |rival: usize| (0..table.len()).map(|row| table.told(row)[rival]).sum::<f64>();
        self.slowest = (0..table.rivals()).max_by(|&a, &b| sum(a).total_cmp(&sum(b))).unwrap();
    }

    fn predict(&self, _: &[f64], log2: &mut [f64], spread: &mut [f64], _: &mut [f64]) {
        log2.fill(1.0);
        spread.fill(0.1);
        log2[self.slowest] = 0.0;
    }

    fn explain(&self, _: &[f64], rivals: &[&str]) -> Vec<String> {
        vec![format!("{} was slowest", rivals[self.slowest])]
    }
}

#[test]
fn a_model_of_the_users_own_decides_once_the_background_has_fitted_it() {
    // Of these sizes most are small, so that `large` is the slowest in the mean.
    let (device, wisdom) = (Scripted::new(kernels()), Arc::new(Wisdom::in_memory()));
    teach(&device, &wisdom, (0..60).map(|nth| 20 + 20 * nth));
    let own = ModelChoice::custom(|_| Box::new(Contrary::default()));
    let planner = going_by(&device, &wisdom, Patience::Estimate, own);
    let first = decided(&planner, 51);
    assert_eq!((first.reason, &*first.winner().unwrap().name), (Reason::Learned, "small"));
    let says =
        |size: u64| planner.grounds(&planner.explain(&problem(size), TermsId::default()).unwrap()).join("\n");
    let watch = Stopwatch::start();
    while !says(52).contains("model `contrary`") {
        assert!(watch.elapsed().duration().as_secs() < 60, "never fitted: {}", says(52));
        std::thread::yield_now();
    }
    let decision = decided(&planner, 53);
    assert_eq!((decision.reason, &*decision.winner().unwrap().name), (Reason::Learned, "large"));
    assert!(
        says(53).contains("large@tile=1 was slowest") && says(53).contains("cross-validated"),
        "{}",
        says(53)
    );
}

#[test]
fn a_model_that_panics_is_survived_by_the_default() {
    let (device, wisdom) = training_table(60);
    let own = ModelChoice::custom(|_| Box::new(Contrary { panics: true, slowest: 0 }));
    let planner = going_by(&device, &wisdom, Patience::Estimate, own);
    assert_eq!(decided(&planner, 50).reason, Reason::Learned);
    planner.learn_now(&problem(51));
    let decision = decided(&planner, 52);
    assert_eq!((decision.reason, &*decision.winner().unwrap().name), (Reason::Learned, "small"));
}

#[test]
fn auto_goes_by_the_kind_that_loses_least_and_a_named_kind_is_obeyed() {
    let (device, wisdom) = training_table(0);
    // Every other hundred is for the other kernel: a tree finds some of the edges, and a smooth function none.
    for nth in 0..60u64 {
        let size = 20 + 37 * nth + nth * nth % 7;
        let as_if = if (size / 100) % 2 == 1 { 10 } else { 10_000 };
        let times = times(as_if).map(|(name, point, ns)| (name, point, ns * size as f64 / as_if as f64));
        record(&device, &wisdom, size, times);
    }
    let planner = |model: ModelChoice| {
        let planner = going_by(&device, &wisdom, Patience::Estimate, model);
        planner.learn_now(&problem(50));
        planner
    };
    let auto = planner(ModelChoice::Auto);
    let [training_table] = &auto.training_tables(1)[..] else { panic!("one family") };
    let judged: Vec<Learned> =
        ModelKind::ALL.into_iter().filter_map(|kind| training_table.judge(kind)).collect();
    let used = &judged[training_table.in_use(&judged).unwrap()];
    assert!(judged.iter().all(|other| used.regret() <= other.regret()), "{used:?}");
    assert!(judged[0].regret() > used.regret(), "{used:?}: the default is as good");
    let says = |planner: &Planner| {
        planner.grounds(&planner.explain(&problem(50), TermsId::default()).unwrap())[0].clone()
    };
    let said = says(&auto);
    assert!(said.starts_with(&format!("model `{}`: 60 problems", used.model().name())), "{said}");
    assert_eq!(says(&planner(ModelChoice::Auto)), said);
    for kind in [ModelKind::Default, ModelKind::Svm, ModelKind::Mlp] {
        let said = says(&planner(ModelChoice::Kind(kind)));
        assert!(said.starts_with(&format!("model `{}`", kind.name())), "{said}");
    }
}
