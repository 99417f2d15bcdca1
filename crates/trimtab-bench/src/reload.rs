//! A second process: opening wisdom with 10,000 facts, choosing the same plans, measuring nothing.

use crate::Printer;
use anyhow::Result;
use serde_json::json;
use trimtab::Runtime;
use trimtab::core::{Nanos, Patience, Problem};
use trimtab::plan::TuneRequest;
use trimtab::tune::{Rules, Stopwatch};
use trimtab::wisdom::{FactKey, Outcome, Stats, Wisdom};

const FACTS: usize = 10_000;
const PROBLEMS: [&str; 4] =
    ["matmul:f32:16x16x16", "matmul:f32:64x64x64", "matmul:f64:32x32x32", "matmul:f32:1x256x256"];

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let request = TuneRequest {
        rules: Rules::default(),
        ..TuneRequest::new(Patience::Measure, Nanos::from_millis(2_000))
    };
    let pass = || -> Result<(f64, f64, u32, Vec<String>)> {
        let stopwatch = Stopwatch::start();
        let rt = Runtime::builder().device("cpu").wisdom_dir(dir.path()).build()?;
        let load_ms = stopwatch.elapsed().0 as f64 / 1e6;
        let (mut runs, mut plans) = (0, Vec::new());
        let stopwatch = Stopwatch::start();
        for text in PROBLEMS {
            let problem: Problem = text.parse()?;
            let decision = rt.tune(&problem, &request, &mut |_| ())?;
            runs += decision.runs;
            plans.extend(decision.winner().map(|winner| format!("{} {}", winner.name, winner.point_name)));
        }
        Ok((load_ms, stopwatch.elapsed().0 as f64 / 1e6, runs, plans))
    };
    let first = pass()?;
    fill(dir.path())?;
    let second = pass()?;
    printer.line(&json!({
        "facts": Wisdom::open(dir.path()).len(),
        "first_measured": first.2, "second_measured": second.2,
        "second_load_ms": second.0, "second_choose_ms": second.1, "same_plans": first.3 == second.3,
    }));
    Ok(())
}

/// Fills the directory up with facts of other problems.
fn fill(dir: &std::path::Path) -> Result<()> {
    let wisdom = Wisdom::open(dir);
    let device = wisdom.all_facts().first().map(|fact| fact.key.device.clone()).unwrap_or_default();
    let missing = FACTS.saturating_sub(wisdom.len());
    for index in 0..missing {
        let key = FactKey {
            device: device.clone(),
            kernel: format!("cpu.matmul.other{}", index % 7),
            version: "1".to_string(),
            problem: format!("matmul:f32:{}x{}x{}", index + 1, index % 97 + 1, index % 89 + 1),
            point: format!("threads={},tile={}", index % 4 + 1, 1 << (index % 6)),
            condition: "quiet".into(),
        };
        wisdom.record(key, Outcome::Timed(Stats::single(1_000.0 + index as f64)));
    }
    wisdom.flush();
    Ok(())
}
