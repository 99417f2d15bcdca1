//! One file per command; here only which one runs, and what several of them look up.

mod active;
mod bench;
mod calibrate;
mod devices;
mod explain;
#[cfg(test)]
mod golden;
mod manual;
mod models;
mod quarantine;
mod record;
mod recording;
mod report;
mod run;
mod selftest;
mod simulate;
mod stats;
mod study;
mod tune;
mod wisdom;

use crate::args::{Cli, Command, problem};
use crate::interrupt::would_say;
use crate::output::{Output, Speed, axes, printable};
use crate::session::Session;
use crate::{Form, Question};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab::Runtime;
use trimtab::advanced::core::{Basis, Condition, Estimate, Problem};
use trimtab::advanced::plan::{Decision, Rival};
use trimtab::advanced::wisdom::{Fact, Outcome};

pub use study::tune_kernel::{CHILD as KERNEL_WORKER, limits as kernel_limits};

/// Conditions of facts in the order they are believed; the planner's order.
const CONDITIONS: [Condition; 3] = [Condition::Quiet, Condition::Busy, Condition::Live];

/// Runs what was asked for. `program` are the words that start this command.
pub fn run(cli: Cli, program: &[String]) -> Result<ExitCode> {
    // Texts are read before the machine is probed: a wrong one costs nothing.
    let Some(command) = cli.command else { return manual::first(&cli.global) };
    match command {
        Command::Completions(args) => manual::completions(&cli.global, &args),
        Command::Man(args) => manual::man(&cli.global, &args),
        Command::Devices(args) => devices::run(&Session::measuring(&cli.global)?, args.verbose),
        Command::Tune(args) if args.active => active::command(&args, &cli.global),
        Command::Calibrate(args) => {
            let session = Session::start(&cli.global)?;
            // What a dry run measures is measured on a copy: nothing of it is remembered.
            let aside =
                (args.dry_run && args.from.is_none()).then(|| session.aside(&cli.global)).transpose()?;
            calibrate::run(aside.as_ref().unwrap_or(&session), &args)
        }
        Command::CalibrateShapes(args) => active::command(&args, &cli.global),
        Command::Tune(args) => {
            let plan = tune::Request::read(&args, &cli.global)?;
            tune::run(&Session::naming(&args.named, &cli.global)?, &plan)
        }
        Command::Explain(args) => {
            let problem = problem(&args.problem)?;
            explain::run(&Session::naming(&args.named, &cli.global)?, &problem, args.all)
        }
        Command::Bench(args) => {
            let problems = problems(&args.problems)?;
            would_say("nothing is kept; `trimtab tune` measures and remembers".to_string());
            bench::run(&Session::start(&cli.global)?, &problems, &args)
        }
        Command::Record(args) => {
            let problems = problems(&args.problems)?;
            record::run(&Session::start(&cli.global)?, &problems, &args)
        }
        Command::Recording(command) => recording::run(&cli.global, &command),
        Command::Simulate(args) => simulate::run(&cli.global, &args),
        Command::Stats(args) => stats::run(&cli.global, &args),
        Command::Report(args) => report::run(&cli.global, &args),
        Command::Models(args) => {
            would_say("models are fitted anew each time, nothing of them is kept".to_string());
            models::run(&Session::start(&cli.global)?, &args)
        }
        Command::Wisdom(command) => wisdom::run(&cli.global, &command),
        Command::SelfTest(args) => {
            would_say("what is printed counts, nothing else is kept".to_string());
            selftest::run(&Session::start(&cli.global)?, &args)
        }
        Command::TuneAny(args) => study::tune_command::run(&cli.global, &args),
        Command::TuneKernel(args) => study::tune_kernel::run(&cli.global, &args, program),
        Command::KernelWorker => study::tune_kernel::child(),
        Command::AskTell(args) => study::ask_tell::run(&cli.global, &args),
        Command::Best(args) => study::best::run(&cli.global, &args),
        Command::Study(command) => study::run(&cli.global, &command),
        Command::Run(args) => {
            let problem = problem(&args.problem)?;
            run::run(&Session::naming(&args.named, &cli.global)?, &problem)
        }
    }
}

/// Answers a question about a runtime that is at work.
pub fn answer(runtime: &Runtime, question: &Question, form: Form) -> Result<String> {
    let session = Session::over(runtime, form == Form::Json);
    match question {
        Question::Explain { problem: text, all } => explain::run(&session, &problem(text)?, *all)?,
        Question::Devices => devices::run(&session, true)?,
        Question::Report => return report::over(&session, form == Form::Page),
    };
    Ok(session.out.take())
}

fn problems(texts: &[String]) -> Result<Vec<Problem>> {
    Ok(texts.iter().map(|text| problem(text)).collect::<Result<_, _>>()?)
}

/// The rival that mode `off` with no wisdom would run: the first kernel in order of preference at its first point, passing
/// over those that are `out`. The rivals may be in any order.
fn default_rival(runtime: &Runtime, decision: &Decision, out: impl Fn(&Rival) -> bool) -> Option<usize> {
    let open = || decision.rivals.iter().enumerate().filter(|(_, rival)| !out(rival));
    let (_, first) = open().min_by_key(|(_, rival)| (rival.device, rival.kernel))?;
    let space = runtime.devices().get(first.device as usize)?.space(first.kernel, &decision.problem);
    let place = |rival: &Rival| space.points().iter().position(|point| *point == rival.point);
    let same = open().filter(|(_, rival)| (rival.device, rival.kernel) == (first.device, first.kernel));
    same.min_by_key(|(_, rival)| place(rival)).map(|(index, _)| index)
}

/// What was measured of a rival on a problem, by condition.
fn measured(runtime: &Runtime, problem: &Problem, rival: &Rival) -> [Option<f64>; CONDITIONS.len()] {
    let device = runtime.devices().get(rival.device as usize);
    let fingerprint = device.map(|device| device.facts().fingerprint.0.clone()).unwrap_or_default();
    let facts = runtime.wisdom().facts(&fingerprint, &problem.to_string());
    let is_its = |fact: &&Fact| {
        fact.key.kernel == *rival.name
            && fact.key.version == *rival.version.0
            && fact.key.point == rival.point_name
    };
    // What its device cannot be that fast at was measured nowhere.
    let its: Vec<&Fact> = facts.iter().filter(is_its).filter(|_| rival.implausible.is_none()).collect();
    CONDITIONS.map(|condition| {
        its.iter().find_map(|fact| match &fact.outcome {
            Outcome::Timed(stats) if fact.key.condition == condition => Some(stats.min_ns),
            _ => None,
        })
    })
}

/// The device's short name and model.
fn device_name(runtime: &Runtime, rival: &Rival) -> String {
    let device = runtime.devices().get(rival.device as usize);
    let name = device.map(|device| device.facts().name.clone()).unwrap_or_default();
    if name.is_empty() { rival.device_id.to_string() } else { format!("{} ({name})", rival.device_id) }
}

/// Says something of a plan by name.
fn field(out: &Output, name: &str, text: impl AsRef<str>) -> Result<()> {
    out.line(format!("{name:<9} {}", printable(text.as_ref())))
}

/// Says which plan a problem has.
fn plan_fields(session: &Session, problem: &Problem, plan: &Rival) -> Result<()> {
    let out = &session.out;
    field(out, "problem", problem.to_string())?;
    field(out, "device", device_name(&session.runtime, plan))?;
    field(out, "kernel", format!("{} ({}, version {})", plan.name, plan.class.name(), plan.version))?;
    field(out, "point", if plan.point_name == "-" { "no settings" } else { &plan.point_name })
}

/// An estimate as JSON.
#[derive(Serialize)]
struct EstimateView {
    ns: u64,
    basis: &'static str,
    /// Samples it rests on; none for an analytic one.
    n: Option<u32>,
    /// Absent where there is none: of a single sample, and of what nothing is known of.
    spread_log2: Option<f64>,
}

impl From<Estimate> for EstimateView {
    fn from(estimate: Estimate) -> EstimateView {
        let n = match estimate.basis {
            Basis::Measured(n) | Basis::Fitted(n) | Basis::Learned(n) => Some(n),
            Basis::Analytic => None,
        };
        let basis = estimate.basis.name();
        EstimateView { ns: estimate.time.0, basis, n, spread_log2: estimate.known_spread() }
    }
}

/// A kernel at a point as JSON, with what else there is to say.
fn kernel_view(rival: &Rival, more: Value) -> Value {
    let (kernel, class) = (rival.name.to_string(), rival.class.name());
    let point = axes(&rival.point_name);
    let mut view =
        json!({ "kernel": kernel, "point": point, "version": rival.version.to_string(), "class": class });
    if let (Some(view), Value::Object(more)) = (view.as_object_mut(), more) {
        view.extend(more);
    }
    view
}

/// Moving operands and result and submitting the work, as JSON: nothing on the processor, and absent where only the time of whole
/// calls is known, or nobody had to ask.
fn transfer_view(runtime: &Runtime, rival: &Rival) -> Option<u64> {
    let device = runtime.devices().get(rival.device as usize);
    let moves_nothing = device.is_some_and(|device| device.facts().habits.host_memory);
    Some(rival.transfer.0).filter(|ns| *ns > 0 || moves_nothing)
}

/// Adds a speed under the name of its unit, where there is one.
fn add_speed(view: &mut Value, speed: Option<Speed>) {
    if let Some(Speed { value, unit }) = speed {
        view[if unit == "GFLOP/s" { "gflops" } else { "gb_per_s" }] = json!(value);
    }
}

/// Whether the estimate says nothing: the default of mode `off` has none.
fn is_unknown(estimate: &Estimate) -> bool {
    !estimate.spread_log2.is_finite()
}

/// Whether anything was measured of this very problem.
fn any_measured(decision: &Decision) -> bool {
    decision
        .rivals
        .iter()
        .any(|rival| matches!(rival.estimate(), Some(Estimate { basis: Basis::Measured(_), .. })))
}
