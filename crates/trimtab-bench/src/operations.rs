//! Every operation over many problems: the tuned choice against the best rival, and against the best single kernel used for all of them.
//!
//! A kernel used alone meets problems that it declines. There it counts as the reference, which answers whatever nobody else does; `where_taken`
//! leaves those problems out. A kernel that the comparison found too far behind to time counts with the time it is expected to take.

use crate::Printer;
use crate::judge::{Verdict, evenly, judge, round};
use anyhow::{Result, bail};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trimtab::Runtime;
use trimtab::TuneRequest;
use trimtab::advanced::core::{Nanos, Operation, Patience, Problem, VariantClass};
use trimtab::advanced::tune::{Rules, geomean};

/// The problems, one a line.
const PROBLEMS: &str = include_str!("operations.txt");
/// Time for tuning one problem, and for comparing its rivals.
const TUNE_BUDGET: Nanos = Nanos::from_millis(1_500);
const COMPARE_BUDGET: Nanos = Nanos::from_millis(1_500);
/// Interleaved rounds of the comparison; the minimum counts.
const ROUNDS: u32 = 15;

/// The problems of each operation, in the order of the list.
fn problems() -> Result<Vec<(Operation, Vec<Problem>)>> {
    let mut all: Vec<(Operation, Vec<Problem>)> = Vec::new();
    for line in PROBLEMS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let problem: Problem = line.parse()?;
        let operation = problem.operation();
        match all.iter_mut().find(|(known, _)| *known == operation) {
            Some((_, list)) => list.push(problem),
            None => all.push((operation, vec![problem])),
        }
    }
    Ok(all)
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let mut all = problems()?;
    if let Some(wanted) = &printer.options.operation {
        let names: Vec<&str> = all.iter().map(|(operation, _)| operation.name()).collect();
        if !names.contains(&wanted.as_str()) {
            bail!("there are no problems of `{wanted}`; there are some of {}", names.join(", "));
        }
        all.retain(|(operation, _)| operation.name() == wanted);
    }
    let rt = Runtime::builder().device("cpu").wisdom_in_memory().build()?;
    for (operation, problems) in all {
        let problems = evenly(&problems, printer.options.shapes);
        let mut verdicts = Vec::new();
        for (nth, problem) in problems.iter().enumerate() {
            eprintln!("{} {} of {}: {problem}", operation.name(), nth + 1, problems.len());
            let request = TuneRequest::new(Patience::Measure, TUNE_BUDGET);
            let rules = Rules { min_samples: ROUNDS, max_samples: ROUNDS, ..Rules::thorough() };
            let verdict = judge(&rt, problem, &request, &rules, COMPARE_BUDGET)?;
            printer.line(&line(operation, problem, &verdict));
            verdicts.push(verdict);
        }
        printer.line(&summary(operation, &reference(&rt, operation), &verdicts));
    }
    Ok(())
}

/// The name of the kernel that takes every problem of an operation.
fn reference(rt: &Runtime, operation: Operation) -> String {
    let mut kernels = rt.planned().flat_map(|(_, device)| device.kernels());
    let found = kernels.find(|info| info.operation == operation && info.class == VariantClass::Reference);
    found.map(|info| info.name.to_string()).unwrap_or_default()
}

fn line(operation: Operation, problem: &Problem, verdict: &Verdict) -> Value {
    let ns: Map<String, Value> =
        verdict.timed.iter().map(|(name, ns)| (name.clone(), json!(round(*ns)))).collect();
    let (kernel, point) = &verdict.chosen;
    json!({
        "operation": operation.name(), "problem": problem.to_string(), "ns": ns, "chosen": kernel, "point": point,
        "vs_best": verdict.vs_best,
    })
}

/// How one kernel does alone: geometric means of how many times longer than the tuned choice it takes, over all and where it takes the problem.
fn alone(name: &str, reference: &str, verdicts: &[Verdict]) -> Option<(f64, f64, usize)> {
    let (mut all, mut taken) = (Vec::new(), Vec::new());
    for verdict in verdicts {
        let tuned = verdict.best / verdict.vs_best;
        let time = |name: &str| verdict.timed.get(name).or_else(|| verdict.hopeless.get(name)).copied();
        let own = time(name).map(|ns| ns / tuned);
        taken.extend(own);
        all.extend(own.or_else(|| time(reference).map(|ns| ns / tuned)));
    }
    Some((geomean(&all)?, geomean(&taken)?, taken.len()))
}

fn summary(operation: Operation, reference: &str, verdicts: &[Verdict]) -> Value {
    let ratios: Vec<f64> = verdicts.iter().map(|verdict| verdict.vs_best).collect();
    let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for verdict in verdicts {
        names.extend(verdict.timed.keys().chain(verdict.hopeless.keys()).map(String::as_str));
        let least = verdict.timed.iter().min_by(|a, b| a.1.total_cmp(b.1));
        least.into_iter().for_each(|(name, _)| *wins.entry(name).or_default() += 1);
    }
    names.iter().for_each(|name| *wins.entry(name).or_default() += 0);
    let singles = names.iter().filter_map(|name| Some((*name, alone(name, reference, verdicts)?)));
    let best = singles.min_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let tuned = geomean(&ratios);
    json!({
        "operation": operation.name(), "problems": verdicts.len(),
        "tuned_vs_best": tuned, "worst_vs_best": ratios.iter().copied().reduce(f64::min),
        "best_single": best.map(|best| best.0),
        "best_single_vs_best": best.and_then(|best| Some(tuned? / best.1.0)),
        "tuned_vs_single": best.map(|best| best.1.0),
        "tuned_vs_single_where_taken": best.map(|best| best.1.1), "taken": best.map(|best| best.1.2),
        "wins": wins,
    })
}
