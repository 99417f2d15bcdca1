//! What the first calls of a problem nobody has measured lose, while live calls go on learning within their budget.

use crate::Printer;
use crate::regret::Judged;
use crate::times::Times;
use anyhow::{Result, bail};
use serde_json::json;
use trimtab::advanced::core::RandomNumbers;
use trimtab_model::learn::{Learned, Ledger, ModelKind, PROBLEM_SHARE, PROCESS_SHARE, Policy};

/// Problems the prior is learned from.
const MEASURED: usize = 100;
/// Calls of each problem, and where the mean slowdown is told.
const TOLD_AT: [usize; 3] = [10, 100, 1000];
/// Random ways of choosing which shapes are measured, and unseen problems of each.
const SPLITS: u64 = 10;
const UNSEEN: usize = 100;
/// A call takes up to this share longer than its best, evenly; one in so many is disturbed and takes up to so many times as long.
const NOISE: f64 = 0.2;
const DISTURBED_ONE_IN: usize = 25;
const DISTURBED: f64 = 3.0;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let judged = Judged::new(&Times::get(&printer.options)?)?;
    if judged.table.len() < MEASURED + 20 {
        bail!("{} shapes are too few: {} are needed", judged.table.len(), MEASURED + 20);
    }
    for exploring in [true, false] {
        let mut sums = [(0.0, 0.0); TOLD_AT.len()];
        let (mut process, mut worst_problem, mut worst_process) = (Ledger::default(), 0.0f64, 0.0f64);
        let (mut calls, mut owing, mut most_owed) = (0u64, 0u64, 0.0f64);
        for split in 0..SPLITS {
            let order = RandomNumbers::new(split).order(judged.table.len());
            let (measured, others) = order.split_at(MEASURED);
            let Some(learned) = Learned::fit(ModelKind::Default, &judged.table.part(measured), split) else {
                continue;
            };
            let mut buffers = learned.buffers();
            let mut dice = RandomNumbers::new(split);
            let mut ledger = Ledger::default();
            for &row in others.iter().take(UNSEEN) {
                let ns = &judged.times[row];
                let best = ns.iter().copied().fold(f64::INFINITY, f64::min);
                learned.choose(judged.table.at(row), |rival| ns[rival].is_finite(), &mut buffers);
                let barred = |(log2, ns): (&f64, &f64)| if ns.is_finite() { *log2 } else { f64::NAN };
                let prior: Vec<f64> = buffers.log2.iter().zip(ns).map(barred).collect();
                let Some(mut policy) = Policy::new(&prior, learned.error_log2(), exploring, split) else {
                    continue;
                };
                let mut slowdowns = 0.0;
                for call in 1..=TOLD_AT[TOLD_AT.len() - 1] {
                    let pick = policy.pick_held(&mut ledger);
                    // As the planner does in the background for small problems.
                    if let Some(rival) = policy.unknown() {
                        policy.checked(rival, ns[rival]);
                    }
                    slowdowns += ns[pick.rival] / best;
                    let disturbed = dice.below(DISTURBED_ONE_IN) == 0;
                    let factor = 1.0 + dice.unit() * if disturbed { DISTURBED - 1.0 } else { NOISE };
                    policy.ran(pick, ns[pick.rival] * factor, &mut ledger);
                    // A call that broke its bound is owed until later ones have earned it back.
                    let owed =
                        f64::max(policy.ledger().owed_ns(PROBLEM_SHARE), ledger.owed_ns(PROCESS_SHARE));
                    calls += 1;
                    owing += u64::from(owed > 0.0);
                    if let Some(expected_ns) = pick.explores {
                        most_owed = most_owed.max(owed / (ns[pick.rival] * factor - expected_ns).max(1e-9));
                    }
                    if let Some(told) = TOLD_AT.iter().position(|calls| *calls == call) {
                        sums[told].0 += slowdowns / call as f64;
                        sums[told].1 += 1.0;
                    }
                }
                worst_problem = worst_problem.max(policy.ledger().share());
                worst_process = worst_process.max(ledger.share());
            }
            process.total_ns += ledger.total_ns;
            process.explored_ns += ledger.explored_ns;
            process.explored += ledger.explored;
        }
        let mean = |told: usize| sums[told].0 / f64::max(sums[told].1, 1.0);
        printer.line(&json!({
            "exploring": exploring, "measured": MEASURED, "problems": sums[0].1,
            "mean_slowdown_10": mean(0), "mean_slowdown_100": mean(1), "mean_slowdown_1000": mean(2),
            "explored_share": process.share(), "explored_calls": process.explored,
            "calls_while_owing": owing as f64 / calls.max(1) as f64, "most_owed_explored_calls": most_owed,
            "worst_problem_share": worst_problem, "worst_process_share": worst_process,
        }));
    }
    Ok(())
}
