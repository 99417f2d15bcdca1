//! `trimtab stats` as a user runs it, on wisdom whose numbers are written down.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use support::Machine;
use trimtab::advanced::wisdom::{FactKey, Outcome, Stats, Wisdom};

fn record(wisdom: &Wisdom, kernel: &str, problem: &str, condition: &str, samples: &[f64]) {
    let key = FactKey {
        device: "elsewhere".into(),
        kernel: kernel.into(),
        problem: problem.into(),
        condition: condition.into(),
        ..FactKey::default()
    };
    wisdom.record(key, Outcome::Timed(Stats::of(samples).unwrap()));
}

#[test]
fn nothing_known_is_said_and_nothing_is_made_up() {
    let dir = Machine::new();
    assert!(dir.ok(&["stats"]).starts_with("nothing is known yet"));
    assert!(!dir.ok(&["stats", "--json"]).contains("-0"));
    let view = dir.lines(&["stats", "--json"]).remove(0);
    assert_eq!((view["problems"].as_u64(), view["facts"].as_u64()), (Some(0), Some(0)));
    for absent in ["speedup", "accuracy", "predicted", "explored"] {
        assert!(view[absent].is_null(), "{absent}");
    }
    assert_eq!(view["regret"].as_array().unwrap().len(), 0);
    assert_eq!(dir.run(&["stats", "--nonsense"]).code, Some(2));
}

#[test]
fn every_number_follows_from_what_was_measured() {
    let dir = Machine::new();
    {
        let wisdom = Wisdom::open(dir.path());
        let matmul = "matmul:f32:8x8x8";
        record(&wisdom, "own", matmul, "quiet", &[100.0; 3]);
        record(&wisdom, "own", matmul, "live", &[125.0; 8]);
        record(&wisdom, "own", matmul, "chosen", &[125.0; 4]);
        record(&wisdom, "other", matmul, "explored", &[100.0; 3]);
        record(&wisdom, "slow", matmul, "explored", &[225.0]);
        record(&wisdom, "sum", "reduce.sum:f32:99", "live", &[10.0; 20]);
        wisdom.flush();
    }
    let view = dir.lines(&["stats", "--json"]).remove(0);
    assert_eq!((view["problems"].as_u64(), view["facts"].as_u64()), (Some(2), Some(6)));
    assert_eq!((view["live_calls"].as_u64(), view["live_ns"].as_f64()), (Some(28), Some(1200.0)));
    assert_eq!(view["kernels"][0]["kernel"], "sum");
    let regret = &view["regret"][0];
    assert_eq!((regret["operation"].as_str(), regret["calls"].as_u64()), (Some("matmul"), Some(4)));
    assert!((regret["geomean"].as_f64().unwrap() - 1.25).abs() < 1e-9, "{regret}");
    assert!((view["accuracy"]["mape"].as_f64().unwrap() - 0.2).abs() < 1e-9, "{view}");
    assert_eq!(view["explored"]["extra_ns"].as_f64(), Some(100.0));
    let text = dir.ok(&["stats"]);
    assert!(text.contains("4 calls tried another kernel") && text.contains("1.25×"), "{text}");
    // One operation, or one device, alone.
    let reduce = dir.lines(&["stats", "--json", "--op", "reduce"]).remove(0);
    assert_eq!((reduce["problems"].as_u64(), reduce["regret"].as_array().unwrap().len()), (Some(1), 0));
    assert_eq!(dir.lines(&["stats", "--json", "--device", "cpu"])[0]["facts"].as_u64(), Some(0));
}

#[test]
fn the_speed_up_against_the_default_is_of_problems_raced_here() {
    let dir = Machine::new();
    dir.ok(&["tune", "matmul:f32:48x48x48", "--exhaustive", "--budget", "60s"]);
    let view = dir.lines(&["stats", "--json"]).remove(0);
    assert_eq!(
        (view["verdicts"].as_u64(), view["speedup"]["problems"].as_u64()),
        (Some(1), Some(1)),
        "{view}"
    );
    assert!(view["speedup"]["geomean"].as_f64().unwrap() > 0.0, "{view}");
    // Many settings of some kernel were measured: each is predicted from the others.
    let predicted = |key: &str| view["predicted"][key].as_f64().unwrap();
    assert!(predicted("compared") >= 8.0 && predicted("mape") > 0.0, "{view}");
    assert!((0.0..=1.0).contains(&predicted("covered")), "{view}");
    assert!(dir.ok(&["stats"]).contains("times predicted from other problems are off by"));
    assert!(dir.lines(&["stats", "--json", "--op", "reduce"])[0]["predicted"].is_null());
}

#[test]
fn what_could_not_be_compared_has_no_regret_and_one_sample_no_spread() {
    let dir = Machine::new();
    {
        let wisdom = Wisdom::open(dir.path());
        let matmul = "matmul:f32:8x8x8";
        record(&wisdom, "own", matmul, "quiet", &[100.0]);
        record(&wisdom, "own", matmul, "live", &[125.0; 8]);
        record(&wisdom, "own", matmul, "chosen", &[125.0; 2]);
        record(&wisdom, "other", matmul, "explored", &[400.0; 2]);
        wisdom.flush();
    }
    let view = dir.lines(&["stats", "--json"]).remove(0);
    assert_eq!(view["regret"].as_array().unwrap().len(), 0, "{view}");
    assert_eq!(
        (&view["accuracy"]["compared"], &view["accuracy"]["covered"]),
        (&1.into(), &serde_json::Value::Null)
    );
    let text = dir.ok(&["stats"]);
    assert!(!text.contains("1.00×") && !text.contains("spreads"), "{text}");
}
