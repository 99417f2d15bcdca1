//! A problem tuned, and its rivals compared in turns: what the tuned choice and every kernel at its best point take.

use anyhow::Result;
use std::collections::BTreeMap;
use trimtab::Runtime;
use trimtab::advanced::plan::{Rival, TuneRequest};
use trimtab::advanced::tune::{Raced, Rules};
use trimtab::{Nanos, Problem};

/// What was found of a problem.
pub(crate) struct Verdict {
    /// The tuned kernel and its settings.
    pub(crate) chosen: (String, String),
    /// The speed of the tuned choice relative to the best rival's: one if it is that.
    pub(crate) vs_best: f64,
    /// Nanoseconds of the best rival.
    pub(crate) best: f64,
    /// Nanoseconds of every kernel that was timed, at its best point.
    pub(crate) timed: BTreeMap<String, f64>,
    /// Nanoseconds that kernels are expected to take that were too far behind to be timed.
    pub(crate) hopeless: BTreeMap<String, f64>,
}

/// Tunes the problem as the command does, then times every kernel at its best point, interleaved.
pub(crate) fn judge(
    rt: &Runtime,
    problem: &Problem,
    request: &TuneRequest,
    rules: &Rules,
    budget: Nanos,
) -> Result<Verdict> {
    rt.tune(problem, request, &mut |_| ())?;
    let result = rt.compare(problem, rules, budget, false, &mut |_| ())?;
    let time = |row: &(Rival, Raced)| row.1.min().unwrap_or(f64::INFINITY);
    let timed: BTreeMap<String, f64> =
        result.rows.iter().map(|row| (row.0.name.to_string(), time(row))).collect();
    let known = rt.planner().survey(rt.explain(problem)?.as_ref());
    let expected = known.best_per_kernel().into_iter().filter_map(|rival| {
        let is_timed = timed.contains_key(rival.name.as_ref());
        let estimate = rival.estimate().filter(|_| !is_timed)?;
        Some((rival.name.to_string(), estimate.time.0 as f64))
    });
    let hopeless = expected.collect();
    let best = result.rows.first().map_or(f64::NAN, time);
    let chosen = result.chosen.and_then(|index| result.rows.get(index));
    // The tuned choice may be what could not be timed: then it counts with what tuning knows of it.
    let winner = known.winner();
    let expected =
        || winner.and_then(Rival::estimate).map_or(f64::INFINITY, |estimate| estimate.time.0 as f64);
    let name = |rival: &Rival| (rival.name.to_string(), rival.point_name.to_string());
    Ok(Verdict {
        vs_best: (best / chosen.map_or_else(expected, time)).min(1.0),
        chosen: chosen.map(|row| &row.0).or(winner).map(name).unwrap_or_default(),
        best,
        timed,
        hopeless,
    })
}

/// So many of them, evenly chosen; all without a number.
pub(crate) fn evenly<T: Clone>(all: &[T], count: Option<usize>) -> Vec<T> {
    let count = count.unwrap_or(all.len()).min(all.len());
    (0..count).filter_map(|nth| all.get((2 * nth + 1) * all.len() / (2 * count))).cloned().collect()
}

/// To a tenth of a nanosecond.
pub(crate) fn round(ns: f64) -> f64 {
    (ns * 10.0).round() / 10.0
}
