//! A second process: opening wisdom with 100,000 facts, using what is remembered for the first time, choosing the same plans, measuring nothing.

use crate::Printer;
use anyhow::{Context, Result};
use serde_json::json;
use trimtab::advanced::tune::{Rules, Stopwatch};
use trimtab::advanced::wisdom::{FactKey, Outcome, Stats, Wisdom};
use trimtab::{Axis, Nanos, Patience, Problem, Runtime, Tensor, TuneRequest};

/// Facts, where `--shapes` does not say how many.
const FACTS: usize = 100_000;
/// What is remembered and used.
const PROBLEMS: [&str; 12] = [
    "matmul:f32:16x16x16",
    "matmul:f32:64x64x64",
    "matmul:f64:32x32x32",
    "matmul:f32:1x256x256",
    "matmul:f32:100x50x30",
    "elementwise.add:f32:1000",
    "elementwise.exp:f64:5000",
    "reduce.sum:f32:64x1024:axis1",
    "reduce.max:f32:5000",
    "transpose:f32:64x64",
    "rows.softmax:f32:64x100",
    "fused.relu(add(@,c)):f32:32x64x48:n,n,columns",
];
/// Rounds whose medians are shown: each opens the directory anew.
const ROUNDS: usize = 9;

/// What one opening of the directory came to.
struct Pass {
    load_ms: f64,
    /// Microseconds of the first plan of each problem.
    plans_us: Vec<f64>,
    expression_ms: f64,
    runs: u32,
    plans: Vec<String>,
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let facts = printer.options.shapes.unwrap_or(FACTS);
    let request = TuneRequest {
        rules: Rules::default(),
        ..TuneRequest::new(Patience::Measure, Nanos::from_millis(2_000))
    };
    let pass = || -> Result<Pass> {
        let stopwatch = Stopwatch::start();
        let rt = Runtime::builder().device("cpu").wisdom_dir(dir.path()).build()?;
        let load_ms = stopwatch.elapsed().0 as f64 / 1e6;
        let mut pass = Pass { load_ms, plans_us: Vec::new(), expression_ms: 0.0, runs: 0, plans: Vec::new() };
        for text in PROBLEMS {
            let problem: Problem = text.parse()?;
            let stopwatch = Stopwatch::start();
            let plan = rt.plan(&problem);
            pass.plans_us.push(stopwatch.elapsed().0 as f64 / 1e3);
            plan?;
            let decision = rt.tune(&problem, &request, &mut |_| ())?;
            pass.runs += decision.runs;
            pass.plans
                .extend(decision.winner().map(|winner| format!("{} {}", winner.name, winner.point_name)));
        }
        let x = Tensor::from_fn(&[32, 784], |at| (at % 7) as f32)?;
        let (weights, bias) = (Tensor::full(&[784, 256], 0.5f32)?, Tensor::full(&[256], 1.0f32)?);
        let stopwatch = Stopwatch::start();
        let value = (rt.lazy(&x).matmul(&weights) + &bias).relu().sum(Axis::One(1)).exp();
        std::hint::black_box(value.eval()?);
        pass.expression_ms = stopwatch.elapsed().0 as f64 / 1e6;
        Ok(pass)
    };
    let first = pass()?;
    fill(dir.path(), facts)?;
    let again = (0..ROUNDS).map(|_| pass()).collect::<Result<Vec<Pass>>>()?;
    let plans: Vec<f64> = again.iter().flat_map(|pass| pass.plans_us.iter().copied()).collect();
    printer.line(&json!({
        "facts": Wisdom::open(dir.path()).len(),
        "first_measured": first.runs,
        "again_measured": again.iter().map(|pass| pass.runs).max(),
        "same_plans": again.iter().all(|pass| pass.plans == first.plans),
        "load_ms": median(again.iter().map(|pass| pass.load_ms).collect())?,
        "first_use_us": median(plans.clone())?,
        "slowest_first_use_us": plans.iter().copied().fold(0.0, f64::max),
        "new_expression_ms": first.expression_ms,
        "first_expression_ms": median(again.iter().map(|pass| pass.expression_ms).collect())?,
    }));
    Ok(())
}

fn median(mut values: Vec<f64>) -> Result<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().context("a median of nothing")
}

/// Fills the directory up with facts of other problems.
fn fill(dir: &std::path::Path, facts: usize) -> Result<()> {
    let wisdom = Wisdom::open(dir);
    let device = wisdom.all_facts().first().map(|fact| fact.key.device.clone()).unwrap_or_default();
    let missing = facts.saturating_sub(wisdom.len());
    for index in 0..missing {
        let key = FactKey {
            device: device.clone(),
            kernel: format!("cpu.matmul.other{}", index % 7),
            version: "1".to_string(),
            problem: format!("matmul:f32:{}x{}x{}", index % 9_973 + 1, index % 97 + 1, index % 89 + 1),
            point: format!("threads={},tile={}", index % 4 + 1, 1 << (index % 6)),
            condition: "quiet".into(),
        };
        wisdom.record(key, Outcome::Timed(Stats::single(1_000.0 + index as f64)));
    }
    wisdom.flush();
    Ok(())
}
