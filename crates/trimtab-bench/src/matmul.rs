//! The tuned choice against every rival, size by size: f32 from 1 to 2048, skinny ones included.

use crate::Printer;
use crate::judge::{judge, round};
use anyhow::Result;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use trimtab::Runtime;
use trimtab::TuneRequest;
use trimtab::advanced::tune::{Rules, geomean};
use trimtab::{Nanos, Patience, Problem};

pub(crate) const SIZES: [(u64, u64, u64); 34] = [
    (1, 1, 1),
    (2, 2, 2),
    (4, 4, 4),
    (8, 8, 8),
    (16, 16, 16),
    (24, 24, 24),
    (32, 32, 32),
    (48, 48, 48),
    (64, 64, 64),
    (96, 96, 96),
    (100, 100, 100),
    (128, 128, 128),
    (192, 192, 192),
    (256, 256, 256),
    (384, 384, 384),
    (512, 512, 512),
    (768, 768, 768),
    (1024, 1024, 1024),
    (1536, 1536, 1536),
    (2048, 2048, 2048),
    (1, 1024, 1024),
    (1024, 1, 1024),
    (1, 2048, 64),
    (2048, 1, 64),
    (1024, 1024, 1),
    (4, 1024, 1024),
    (1024, 4, 1024),
    (16, 2048, 128),
    (2048, 16, 128),
    (8, 8, 2048),
    (64, 64, 2048),
    (7, 300, 50),
    (127, 129, 131),
    (500, 3, 500),
];
/// Time for tuning one problem, and for comparing its rivals.
const TUNE_BUDGET: Nanos = Nanos::from_millis(12_000);
const COMPARE_BUDGET: Nanos = Nanos::from_millis(30_000);
/// Interleaved rounds of the comparison; the minimum counts.
const ROUNDS: u32 = 20;

/// How rivals are compared.
pub(crate) fn judging() -> Rules {
    Rules { min_samples: ROUNDS, max_samples: ROUNDS, ..Rules::thorough() }
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let rt = Runtime::builder().device("cpu").wisdom_in_memory().build()?;
    let request = TuneRequest::new(Patience::Measure, TUNE_BUDGET);
    let rules = judging();
    let mut ratios = Vec::new();
    let mut rivals: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (m, n, k) in SIZES {
        let problem: Problem = format!("matmul:f32:{m}x{n}x{k}").parse()?;
        let verdict = judge(&rt, &problem, &request, &rules, COMPARE_BUDGET)?;
        ratios.push(verdict.vs_best);
        let mut ns = Map::new();
        for (name, time) in &verdict.timed {
            ns.insert(name.clone(), json!(round(*time)));
            rivals.entry(name.clone()).or_default().push(verdict.best / time);
        }
        let (kernel, point) = verdict.chosen;
        printer.line(&json!({
            "problem": problem.to_string(), "ns": Value::Object(ns), "chosen": kernel, "point": point,
            "vs_best": verdict.vs_best,
        }));
    }
    // A rival used alone must take every problem; one that declines some cannot stand alone.
    let alone = rivals.iter().filter(|(_, all)| all.len() == SIZES.len());
    let best_single = alone
        .filter_map(|(name, all)| geomean(all).map(|mean| (name.clone(), mean)))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let (single, single_mean) = best_single.unwrap_or_default();
    printer.line(&json!({
        "problems": SIZES.len(),
        "geomean_vs_best": geomean(&ratios),
        "worst_vs_best": ratios.iter().copied().fold(f64::INFINITY, f64::min),
        "best_single_rival": single,
        "best_single_rival_vs_best": single_mean,
    }));
    Ok(())
}
