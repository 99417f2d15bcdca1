//! `trimtab tune`: measures problems within one budget and shows what was chosen and what that gained.

use super::{default_rival, is_unknown, measured};
use crate::args::{Global, Tune};
use crate::failure::{FAILED, bad_input};
use crate::output::{Table, axes, counted, time, times};
use crate::progress::Bar;
use crate::representative::{self, is_of};
use crate::session::Session;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use trimtab::core::{Nanos, Operation, Patience, Problem};
use trimtab::plan::{Decision, Event, Standing, StrategyName, TuneRequest};
use trimtab::tune::{Budget, geomean};

/// Arithmetic and bytes a nanosecond an ordinary machine does; only used to put cheap problems first.
const TYPICAL_FLOPS_PER_NS: f64 = 50.0;
const TYPICAL_BYTES_PER_NS: f64 = 10.0;

/// What to tune and how.
pub struct Request {
    problems: Vec<Problem>,
    representative: bool,
    /// How; its budget is that of all together.
    each: TuneRequest,
}

/// What is asked for each problem.
pub(super) fn each(args: &Tune, patience: Patience) -> TuneRequest {
    let (strategy, evals, good_enough) = (args.strategy, args.evals, args.good_enough);
    TuneRequest { strategy, evals, good_enough, ..TuneRequest::new(patience, args.budget) }
}

impl Request {
    pub fn read(args: &Tune, global: &Global) -> Result<Request> {
        let named = super::problems(&args.problems)?;
        let representative = named.is_empty();
        let problems = if representative { chosen_set(&args.op)? } else { named };
        let asked = global.tune.map_or(Patience::Measure, |mode| mode.patience);
        let patience = if args.exhaustive { Patience::Exhaustive } else { asked };
        let search = args.strategy.is_some() || args.evals.is_some() || args.good_enough.is_some();
        if search && patience != Patience::Measure {
            let what = "--strategy, --evals and --good-enough are about measuring some of the settings";
            return Err(bad_input(format!("{what}; leave out --tune {patience}")));
        }
        Ok(Request { problems, representative, each: each(args, patience) })
    }
}

fn chosen_set(operations: &[String]) -> Result<Vec<Problem>> {
    let all = representative::problems();
    for operation in operations {
        if !all.iter().any(|problem| is_of(&problem.to_string(), operation)) {
            let known = Operation::ALL.iter().filter(|&&op| op != Operation::Custom).map(|op| op.name());
            let known: Vec<&str> = known.collect();
            let hint = "or one of them with its function, such as reduce.sum; name other problems in full";
            return Err(bad_input(format!("--op {operation}: use one of {}; {hint}", known.join(", "))));
        }
    }
    let wanted = |problem: &Problem| {
        operations.is_empty() || operations.iter().any(|operation| is_of(&problem.to_string(), operation))
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// One problem's outcome.
#[derive(Serialize)]
pub(super) struct Tuned {
    problem: String,
    device: String,
    kernel: String,
    point: BTreeMap<String, u32>,
    /// Time of one launch of the plan's kernel.
    ns: Option<f64>,
    /// How many times faster than the default, where both were measured.
    vs_default: Option<f64>,
    /// Timed runs made now.
    measured: u32,
    /// What searched the settings; absent where all that matter were raced.
    strategy: Option<&'static str>,
    /// Settings measured now.
    evaluations: u32,
    /// Legal settings of all kernels that take the problem.
    space: usize,
    complete: bool,
    reason: &'static str,
    /// What the choice is expected to lose against the best of all, as a share, where that can be said.
    expected_loss: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    /// Those of them that what is shown of all problems together says too.
    #[serde(skip)]
    told: Vec<String>,
    #[serde(skip)]
    point_name: String,
}

pub fn run(session: &Session, request: &Request) -> Result<ExitCode> {
    let runtime = &session.runtime;
    let has_kernels = |problem: &Problem| {
        runtime.planned().any(|(_, d)| d.kernels().iter().any(|info| info.operation == problem.operation()))
    };
    let mut order: Vec<usize> = (0..request.problems.len()).collect();
    if request.representative {
        order.retain(|&index| has_kernels(&request.problems[index]));
        // What the small ones leave of the budget helps the large.
        order.sort_by(|&a, &b| rough_ns(&request.problems[a]).total_cmp(&rough_ns(&request.problems[b])));
    }
    if order.is_empty() {
        return Err(bad_input(
            "no device here has a kernel for that operation; `trimtab devices` lists the kernels",
        ));
    }
    let budget = Budget::time(request.each.budget);
    let bar = Bar::new(order.len());
    let mut results: Vec<(usize, Tuned)> = Vec::new();
    let mut failures: Vec<(String, String)> = Vec::new();
    for (done, &index) in order.iter().enumerate() {
        let problem = &request.problems[index];
        let share = Nanos(budget.left().0 / (order.len() - done) as u64);
        let ask = TuneRequest { budget: share, ..request.each.clone() };
        match runtime.tune(problem, &ask, &mut |progress| bar.show(problem, progress)) {
            Ok(decision) => {
                let tuned = tuned(session, &decision);
                if session.out.is_json() {
                    bar.around(|| session.out.object(&tuned))?;
                }
                results.push((index, tuned));
            }
            // One bad problem must not cost the others their results.
            Err(error) => failures.push((problem.to_string(), error.to_string())),
        }
        bar.around(|| session.keep());
        bar.next();
    }
    drop(bar);
    results.sort_by_key(|(index, _)| *index);
    let results: Vec<Tuned> = results.into_iter().map(|(_, tuned)| tuned).collect();
    if !session.out.is_json() {
        show(session, &results, budget.spent())?;
    }
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for (problem, error) in &failures {
        crate::session::warn(&format!("{problem} was not tuned: {error}"));
    }
    Ok(ExitCode::from(FAILED))
}

fn rough_ns(problem: &Problem) -> f64 {
    problem.flops() as f64 / TYPICAL_FLOPS_PER_NS + problem.operand_bytes().0 as f64 / TYPICAL_BYTES_PER_NS
}

pub(super) fn tuned(session: &Session, decision: &Decision) -> Tuned {
    let runtime = &session.runtime;
    let winner = decision.winner();
    let times = winner.map(|winner| measured(runtime, &decision.problem, winner)).unwrap_or_default();
    // A remembered plan leaves the others unconsidered: only real failures are out.
    let default = default_rival(runtime, decision, |rival| match &rival.standing {
        Standing::Declined(_)
        | Standing::Excluded(_)
        | Standing::Quarantined(_)
        | Standing::Dominated(_)
        | Standing::Overruled(_) => true,
        Standing::Estimated { .. } | Standing::Unconsidered => false,
    });
    let default = default.and_then(|index| decision.rivals.get(index));
    let default_times =
        default.map(|default| measured(runtime, &decision.problem, default)).unwrap_or_default();
    let estimate = winner.and_then(|winner| winner.estimate()).filter(|estimate| !is_unknown(estimate));
    let ns = first(&times).or(estimate.map(|estimate| estimate.time.0 as f64));
    let is_told = |event: &&Event| matches!(event, Event::BudgetEnded { .. } | Event::Searched { .. });
    let told = decision.events.iter().filter(is_told);
    Tuned {
        problem: decision.problem.to_string(),
        device: winner.map(|winner| winner.device_id.to_string()).unwrap_or_default(),
        kernel: winner.map(|winner| winner.name.to_string()).unwrap_or_default(),
        point: winner.map(|winner| axes(&winner.point_name)).unwrap_or_default(),
        ns,
        vs_default: ratio(&default_times, &times),
        measured: decision.runs,
        strategy: decision.strategy().map(StrategyName::name),
        evaluations: decision.evaluations,
        space: decision.space(),
        complete: decision.complete,
        reason: decision.reason.name(),
        expected_loss: decision.expected_loss,
        notes: decision.notes(),
        told: told.filter_map(Event::note).collect(),
        point_name: winner.map(|winner| winner.point_name.clone()).unwrap_or_default(),
    }
}

fn first(times: &[Option<f64>]) -> Option<f64> {
    times.iter().copied().flatten().next()
}

/// Times under the same condition compare; failing that, the most believable of each.
fn ratio(default: &[Option<f64>], chosen: &[Option<f64>]) -> Option<f64> {
    let both = default.iter().zip(chosen).find_map(|(default, chosen)| default.zip(*chosen));
    let (default, chosen) = both.or_else(|| first(default).zip(first(chosen)))?;
    (chosen > 0.0).then_some(default / chosen)
}

fn show(session: &Session, results: &[Tuned], spent: Nanos) -> Result<()> {
    let reason = |tuned: &Tuned| match tuned.complete {
        true => tuned.reason.to_string(),
        false => format!("{}, cut short", tuned.reason),
    };
    let table = Table::of(results)
        .column("problem", |tuned| tuned.problem.clone())
        .column("kernel", |tuned| tuned.kernel.clone())
        .column("point", |tuned| tuned.point_name.clone())
        .column(">time", |tuned| tuned.ns.map(time).unwrap_or_default())
        .column(">vs default", |tuned| tuned.vs_default.map(times).unwrap_or_default())
        .column(">points", |tuned| format!("{}/{}", tuned.evaluations, tuned.space))
        .column(">runs", |tuned| tuned.measured.to_string())
        .column("reason", reason)
        .table();
    let out = &session.out;
    out.table_if_any(&table)?;
    let runs: u32 = results.iter().map(|tuned| tuned.measured).sum();
    let gains: Vec<f64> = results.iter().filter_map(|tuned| tuned.vs_default).collect();
    let problems = |count: usize| counted(count, "problem");
    let gain = match geomean(&gains) {
        Some(gain) => {
            format!("{} as fast as the default (geometric mean of {})", times(gain), problems(gains.len()))
        }
        None => "no default was measured to compare with".to_string(),
    };
    let effort = match runs {
        0 => format!("nothing measured in {spent}"),
        runs => format!("{runs} timed runs in {spent}"),
    };
    out.line(format!("{}, {effort}: {gain}", problems(results.len())))?;
    let is_searched = |tuned: &&Tuned| tuned.strategy.is_some() && tuned.evaluations > 0;
    let searched: Vec<&Tuned> = results.iter().filter(is_searched).collect();
    if !searched.is_empty() {
        let mut names: Vec<&str> = searched.iter().filter_map(|tuned| tuned.strategy).collect();
        names.sort_unstable();
        names.dedup();
        let points: u32 = searched.iter().map(|tuned| tuned.evaluations).sum();
        let space: usize = searched.iter().map(|tuned| tuned.space).sum();
        let (of, names) = (problems(searched.len()), names.join(", "));
        out.line(format!("settings of {of} searched by {names}: {points} of {space} points measured"))?;
    }
    let cut = results.iter().filter(|tuned| !tuned.complete && tuned.measured > 0).count();
    if cut > 0 {
        out.line(format!("{} cut short by the budget: give more with --budget to finish", problems(cut)))?;
    }
    let mut notes: Vec<&String> = Vec::new();
    for tuned in results {
        for note in tuned.notes.iter().filter(|note| !tuned.told.contains(note)) {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    for note in notes {
        out.line(format!("note: {note}"))?;
    }
    out.line(session.wisdom_place())
}
