//! `trimtab stats`: how much is known, what is used, and how good choices and predictions were. Measures nothing.

use super::{default_rival, measured};
use crate::args::{Global, Stats};
use crate::output::{Output, counted, percent, time, times};
use crate::representative::is_of;
use crate::session::{Deviceless, Here};
use crate::table::Table;
use anyhow::Result;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use trimtab::Runtime;
use trimtab::advanced::core::{Condition, Operation, Problem};
use trimtab::advanced::plan::regret::{self, Accuracy, COVERED_SPREADS, Regret, Used};
use trimtab::advanced::wisdom::{Fact, Outcome, Verdict};

/// Kernels shown as text; JSON has all.
const KERNELS_SHOWN: usize = 10;
/// Standard errors on each side of a mean in its 95 % confidence interval.
const SPREADS_95: f64 = 1.96;

/// Everything; what is not known is null or an empty list.
#[derive(Serialize)]
pub(super) struct StatsView {
    pub problems: usize,
    pub facts: usize,
    pub failures: usize,
    pub verdicts: usize,
    pub live_calls: u64,
    pub live_ns: f64,
    pub kernels: Vec<Used>,
    pub speedup: Option<SpeedupView>,
    pub regret: Vec<Regret>,
    /// Times measured ahead against live calls, and times predicted from other problems against measured ones.
    pub accuracy: Option<Accuracy>,
    pub predicted: Option<Accuracy>,
    pub explored: Option<ExploredView>,
    /// Kernels on problems that were found to take longer or shorter than before.
    pub drifted: usize,
}

/// The winners of races against the default, which mode `off` without wisdom would run.
#[derive(Serialize)]
pub(super) struct SpeedupView {
    pub problems: usize,
    pub geomean: f64,
    pub most: f64,
    pub operations: Vec<OperationSpeedup>,
}

/// The same of one operation.
#[derive(Serialize)]
pub(super) struct OperationSpeedup {
    pub operation: String,
    pub problems: usize,
    pub geomean: f64,
    /// The mean's 95 % confidence interval over problems, as if their logarithms were normal; none of one problem.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl OperationSpeedup {
    fn of(operation: &str, logs: &[f64]) -> OperationSpeedup {
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let spread = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let aside = (logs.len() > 1).then(|| SPREADS_95 * (spread / count).sqrt());
        OperationSpeedup {
            operation: operation.to_string(),
            problems: logs.len(),
            geomean: mean.exp(),
            low: aside.map(|aside| (mean - aside).exp()),
            high: aside.map(|aside| (mean + aside).exp()),
        }
    }
}

#[derive(Serialize)]
pub(super) struct ExploredView {
    pub calls: u64,
    pub extra_ns: f64,
    pub share: Option<f64>,
}

pub fn run(global: &Global, args: &Stats) -> Result<ExitCode> {
    let kept = Deviceless::open(global);
    let (facts, verdicts) = (kept.wisdom.all_facts(), kept.wisdom.verdicts());
    let devices = facts.iter().map(|fact| fact.key.device.as_str());
    let devices = devices.chain(verdicts.iter().map(|verdict| verdict.device.as_str()));
    // What the default is and what fits expect, kernels say: they are asked only if something was measured here. What a short name means, devices say.
    let here = if global.device.is_some() { Here::Anybody } else { Here::of(devices) };
    let runtime = here.open(global)?;
    let pinned = global.device.is_some();
    let view = of(facts, verdicts, runtime.as_ref(), pinned, args.op.as_deref());
    kept.out.either(&view, || show(&kept.out, &view))?;
    Ok(ExitCode::SUCCESS)
}

/// Of a runtime's wisdom.
pub(super) fn view(runtime: &Runtime, pinned: bool) -> StatsView {
    of(runtime.wisdom().all_facts(), runtime.wisdom().verdicts(), Some(runtime), pinned, None)
}

fn of(
    mut facts: Vec<Fact>,
    mut verdicts: Vec<Verdict>,
    runtime: Option<&Runtime>,
    pinned: bool,
    operation: Option<&str>,
) -> StatsView {
    let of = |problem: &str| operation.is_none_or(|operation| is_of(problem, operation));
    let devices = runtime.into_iter().flat_map(Runtime::devices);
    let own: Vec<&str> = devices.map(|device| device.facts().fingerprint.0.as_str()).collect();
    // Without --device, machines that are gone or were imported are told of too.
    facts.retain(|fact| of(&fact.key.problem) && (!pinned || own.contains(&fact.key.device.as_str())));
    let machine = runtime.map(|runtime| runtime.planner().machine()).unwrap_or_default();
    verdicts.retain(|verdict| of(&verdict.problem) && (!pinned || verdict.device == machine));
    let here = verdicts.iter().filter(|verdict| verdict.device == machine);
    let raced: BTreeSet<&str> = here.map(|verdict| verdict.problem.as_str()).collect();
    let problems: BTreeSet<&str> = facts.iter().map(|fact| fact.key.problem.as_str()).collect();
    let asked = |of: Operation| {
        operation.is_none_or(|wanted| wanted.split('.').next().is_some_and(|name| name == of.name()))
    };
    let used = regret::used(&facts);
    StatsView {
        problems: problems.len(),
        failures: facts.iter().filter(|fact| matches!(fact.outcome, Outcome::Failed { .. })).count(),
        verdicts: verdicts.len(),
        live_calls: used.iter().map(|used| used.calls).sum(),
        // Not `sum`: of nothing that is -0.
        live_ns: used.iter().fold(0.0, |sum, used| sum + used.ns),
        kernels: used,
        speedup: runtime.and_then(|runtime| speedup(runtime, &raced)),
        regret: regret::regrets(&facts),
        accuracy: regret::accuracy(&facts),
        predicted: runtime.and_then(|runtime| runtime.planner().foretold(&asked)),
        explored: regret::explored(&facts).map(|spent| ExploredView {
            calls: spent.calls,
            extra_ns: spent.extra_ns,
            share: (spent.live_ns > 0.0).then(|| spent.extra_ns / spent.live_ns),
        }),
        drifted: facts.iter().filter(|fact| fact.key.condition == Condition::Drifted).count(),
        facts: facts.len(),
    }
}

/// The winner of every race on this machine against the default, where both were measured on it in the same condition.
fn speedup(runtime: &Runtime, raced: &BTreeSet<&str>) -> Option<SpeedupView> {
    let ratio = |text: &&str| {
        let problem = Problem::parse(text).ok()?;
        let decision = runtime.planner().survey(runtime.explain(&problem).ok()?.as_ref());
        let default =
            decision.rivals.get(default_rival(runtime, &decision, |rival| rival.estimate().is_none())?)?;
        let (old, new) =
            (measured(runtime, &problem, default), measured(runtime, &problem, decision.winner()?));
        let ratio = old.iter().zip(&new).find_map(|(old, new)| Some((*old)? / (*new)?))?;
        (ratio > 0.0 && ratio.is_finite()).then_some(ratio)
    };
    let mut logs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for text in raced {
        let operation = text.split([':', '.']).next().unwrap_or(text);
        logs.entry(operation).or_default().extend(ratio(text).map(f64::ln));
    }
    logs.retain(|_, logs| !logs.is_empty());
    let all: Vec<f64> = logs.values().flatten().copied().collect();
    let most = all.iter().copied().reduce(f64::max)?.exp();
    let operations = logs.iter().map(|(operation, logs)| OperationSpeedup::of(operation, logs)).collect();
    Some(SpeedupView {
        problems: all.len(),
        geomean: OperationSpeedup::of("", &all).geomean,
        most,
        operations,
    })
}

/// As text.
pub(super) fn show(out: &Output, view: &StatsView) -> Result<()> {
    if view.facts == 0 && view.verdicts == 0 {
        return out.line("nothing is known yet; `trimtab tune` measures what is typical");
    }
    out.line(format!(
        "{}, {} ({}), {} decided",
        counted(view.problems, "problem"),
        counted(view.facts, "fact"),
        counted(view.failures, "failure"),
        counted(view.verdicts, "race")
    ))?;
    if let Some(speedup) = &view.speedup {
        out.line(format!(
            "speed-up against the default: {} (geometric mean of {} problems), at most {}",
            times(speedup.geomean),
            speedup.problems,
            times(speedup.most)
        ))?;
    }
    if view.live_calls > 0 {
        out.line(format!("{} live calls timed, {} in all", view.live_calls, time(view.live_ns)))?;
    }
    let compared = [
        (&view.accuracy, "times measured ahead", "live calls"),
        (&view.predicted, "times predicted from other problems", "measured ones"),
    ];
    for (accuracy, what, from) in compared {
        let Some(Accuracy { compared, mape, covered }) = accuracy else { continue };
        let covered =
            covered.map(|covered| format!(", {} within {COVERED_SPREADS} spreads", percent(covered)));
        let (off, covered) = (percent(*mape), covered.unwrap_or_default());
        out.line(format!("{what} are off by {off} from {from} ({compared} compared){covered}"))?;
    }
    if let Some(explored) = &view.explored {
        let share = explored
            .share
            .map_or(String::new(), |share| format!(", {} of the time of timed calls", percent(share)));
        out.line(format!(
            "{} calls tried another kernel and took {} longer{share}",
            explored.calls,
            time(explored.extra_ns)
        ))?;
    }
    if view.drifted > 0 {
        out.line(format!("{} kernels on problems changed their time and were measured again", view.drifted))?;
    }
    if !view.regret.is_empty() {
        out.apart("what was chosen against the best that calls tried beside it:")?;
        out.table(&regrets(view))?;
    }
    if !view.kernels.is_empty() {
        let table = Table::of(&view.kernels[..view.kernels.len().min(KERNELS_SHOWN)])
            .column("most used kernels", |used| used.kernel.clone())
            .column(">calls", |used| used.calls.to_string())
            .column(">mean", |used| time(used.ns / used.calls.max(1) as f64))
            .column("device", |used| used.device.clone())
            .table();
        out.line("")?;
        out.table(&table)?;
    }
    Ok(())
}

/// What was chosen against the best that calls tried beside it.
pub(super) fn regrets(view: &StatsView) -> Table {
    Table::of(&view.regret)
        .column("operation", |regret| regret.operation.clone())
        .column(">problems", |regret| regret.problems.to_string())
        .column(">calls", |regret| regret.calls.to_string())
        .column(">regret", |regret| times(regret.geomean))
        .column(">p95", |regret| times(regret.p95))
        .column("device", |regret| regret.device.clone())
        .table()
}
