//! Fits over made-up kernels whose truth is known.

use trimtab_core::{Basis, Bytes, DType, Flops, Matmul, Nanos, Point, Problem, Rates, Work};
use trimtab_model::{FEATURES, Fit, MAX_NEIGHBOURS, Observation, Roofline, analytic, features, roofline};

const RATES: Rates = Rates {
    barrier_ns: 0.0,
    filled_by: 0,
    flops_per_s: 100e9,
    lanes: 16,
    bytes_per_s: 10e9,
    bytes_per_s_all: 15e9,
    cached_bytes_per_s: 100e9,
    cached_up_to: Bytes(1 << 20),
    launch: Nanos(5_000),
};

#[expect(clippy::expect_used, reason = "a test's own sizes")]
fn described(n: u64) -> (Work, Roofline, [f64; FEATURES]) {
    let problem = Problem::from(Matmul::new(DType::F32, n, n, n).expect("sizes that fit"));
    let work = Work {
        flops: Flops(problem.flops()),
        bytes: problem.operand_bytes(),
        threads: 1,
        lanes: 16,
        ..Work::default()
    };
    (work, roofline(&work, 4, &RATES), features(&problem, &Point::EMPTY))
}

fn observed(n: u64, truth: impl Fn(&Roofline) -> f64) -> Observation {
    let (work, roofline, sizes) = described(n);
    Observation { work, roofline, measured_ns: truth(&roofline), sizes }
}

fn predicted(fit: &Fit, n: u64) -> f64 {
    let (work, roofline, sizes) = described(n);
    fit.predict(&work, &roofline, &sizes).time.0 as f64
}

#[test]
fn a_kernel_that_follows_the_terms_is_predicted_between_and_beyond_its_observations() {
    let truth = |r: &Roofline| 2_000.0 + 1.7 * r.flop_ns;
    let observations: Vec<_> = (4..10).map(|i| observed(1 << i, truth)).collect();
    let fit = Fit::new(&observations).unwrap();
    for n in [24, 100, 700, 2048, 4096] {
        let ratio = predicted(&fit, n) / truth(&described(n).1);
        assert!((0.98..1.02).contains(&ratio), "{n}: {ratio}");
    }
    assert!(fit.spread_log2() < 0.3);
}

#[test]
fn neighbours_correct_what_the_terms_cannot_express() {
    // Sizes above 500 fall off a cliff, as kernels without cache blocking do.
    let truth = |n: u64| if n > 500 { 4.0 } else { 1.0 };
    let sizes: Vec<u64> = (0..40).map(|i| (16.0 * 1.16f64.powi(i)) as u64).collect();
    let observations: Vec<_> =
        sizes.iter().map(|&n| observed(n, |r| truth(n) * (500.0 + 2.0 * r.flop_ns))).collect();
    let fit = Fit::new(&observations).unwrap();
    for n in [100, 300, 1500, 3000] {
        let ratio = predicted(&fit, n) / (truth(n) * (500.0 + 2.0 * described(n).1.flop_ns));
        assert!((0.8..1.25).contains(&ratio), "{n}: {ratio}");
    }
}

#[test]
fn one_observation_scales_the_analytic_estimate_and_claims_little() {
    let fit = Fit::new(&[observed(256, |r| 3.0 * r.total_ns())]).unwrap();
    let (work, roofline, sizes) = described(256);
    let estimate = fit.predict(&work, &roofline, &sizes);
    assert_eq!(estimate.basis, Basis::Fitted(1));
    assert!((estimate.time.0 as f64 / (3.0 * roofline.total_ns()) - 1.0).abs() < 0.01);
    assert!((0.3..=1.0).contains(&estimate.spread_log2), "{}", estimate.spread_log2);
    let doubled = described(512).1.total_ns() / roofline.total_ns();
    assert!((predicted(&fit, 512) / predicted(&fit, 256) / doubled - 1.0).abs() < 0.01);
}

#[test]
fn the_spread_is_the_error_of_leaving_observations_out() {
    let noise = |n: u64| if n.is_multiple_of(2) { 1.25 } else { 0.8 };
    let sizes = || (0..60).map(|i| 64 + 17 * i);
    let noisy: Vec<_> = sizes().map(|n| observed(n, |r| noise(n) * 1.5 * r.flop_ns)).collect();
    let clean: Vec<_> = sizes().map(|n| observed(n, |r| 1.5 * r.flop_ns)).collect();
    let (noisy, clean) = (Fit::new(&noisy).unwrap(), Fit::new(&clean).unwrap());
    // 1.25 is 0.32 doublings.
    assert!((0.25..0.6).contains(&noisy.spread_log2()), "{}", noisy.spread_log2());
    assert!(clean.spread_log2() < 0.12, "{}", clean.spread_log2());
}

#[test]
fn far_from_every_observation_the_spread_grows() {
    let observations: Vec<_> = (4..8).map(|i| observed(1 << i, |r| 2.0 * r.flop_ns + 100.0)).collect();
    let fit = Fit::new(&observations).unwrap();
    let spread = |n| {
        let (work, roofline, sizes) = described(n);
        fit.predict(&work, &roofline, &sizes).spread_log2
    };
    assert!(spread(64) < spread(512) && spread(512) < spread(8192));
}

#[test]
fn larger_problems_are_not_expected_to_be_faster() {
    let observations: Vec<_> = (4..10).map(|i| observed(1 << i, |r| 900.0 + 2.0 * r.flop_ns)).collect();
    let fit = Fit::new(&observations).unwrap();
    let mut last = 0.0;
    for i in 1..14 {
        let now = predicted(&fit, 1 << i);
        assert!(now >= last, "2^{i}");
        last = now;
    }
}

#[test]
fn observations_of_small_problems_do_not_make_large_ones_free() {
    // All time is overhead: the growing terms have no visible share, and must not vanish for it.
    let observations: Vec<_> = (1..5).map(|n| observed(n, |_| 3_000.0)).collect();
    let fit = Fit::new(&observations).unwrap();
    assert!(predicted(&fit, 4096) > described(4096).1.total_ns() / 4.0);
}

#[test]
fn observations_that_make_no_sense_are_left_out_and_predictions_stay_in_bounds() {
    assert!(Fit::new(&[]).is_none());
    let mut broken = observed(64, |_| f64::NAN);
    assert!(Fit::new(&[broken, observed(64, |_| 0.0), observed(64, |_| -5.0)]).is_none());
    broken.measured_ns = 100.0;
    broken.roofline = Roofline { flop_ns: f64::NAN, byte_ns: f64::INFINITY, launch_ns: -1.0 };
    broken.sizes = [f64::NAN; FEATURES];
    let lists = [
        vec![broken],
        vec![broken; 10],
        vec![broken, observed(64, |_| 1e-3), observed(1024, |_| 1e17), observed(1, |_| 1e17), broken],
        vec![observed(64, |_| 5.0); 300],
    ];
    for list in &lists {
        let fit = Fit::new(list).unwrap();
        for (work, roofline, sizes) in
            [described(0), described(1), described(1 << 20), (broken.work, broken.roofline, broken.sizes)]
        {
            let estimate = fit.predict(&work, &roofline, &sizes);
            assert!(estimate.time >= Nanos(1) && estimate.time < Nanos::MAX, "{estimate:?}");
            assert!(estimate.spread_log2 > 0.0 && estimate.spread_log2 <= 2.0, "{estimate:?}");
        }
    }
}

#[test]
fn more_observations_than_are_kept_still_count_and_the_fit_is_the_same_twice() {
    let truth = |r: &Roofline| 700.0 + 1.3 * r.flop_ns;
    let observations: Vec<_> = (0..3 * MAX_NEIGHBOURS as u64).map(|i| observed(16 + i, truth)).collect();
    let fit = Fit::new(&observations).unwrap();
    assert_eq!(fit.observations(), 3 * MAX_NEIGHBOURS as u32);
    assert_eq!(fit, Fit::new(&observations).unwrap());
    assert!((predicted(&fit, 20) / truth(&described(20).1) - 1.0).abs() < 0.02);
}

#[test]
fn a_fit_of_the_truth_beats_the_analytic_estimate() {
    let truth = |r: &Roofline| 1_500.0 + 5.0 * r.flop_ns;
    let observations: Vec<_> = [16, 64, 256, 1024].iter().map(|&n| observed(n, truth)).collect();
    let fit = Fit::new(&observations).unwrap();
    for n in [32, 128, 512, 2048] {
        let (work, roofline, _) = described(n);
        let error = |ns: f64| (ns / truth(&roofline)).log2().abs();
        assert!(error(predicted(&fit, n)) < 0.1 && error(analytic(&work, 4, &RATES).time.0 as f64) > 1.0);
    }
}
