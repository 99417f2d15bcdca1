//! `trimtab tune`: measures problems within one budget and shows what was chosen and what that gained.

use super::{default_rival, is_unknown, measured};
use crate::args::{Global, Tune};
use crate::failure::{FAILED, bad_input};
use crate::interrupt;
use crate::output::{axes, counted, time, times};
use crate::progress::{Bar, HowLong};
use crate::representative::{self, is_of};
use crate::session::Session;
use crate::table::Table;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;
use trimtab::advanced::core::{Bytes, Device, Nanos, Operation, Patience, Problem};
use trimtab::advanced::operands::making_takes;
use trimtab::advanced::plan::{Decision, Event, Standing, StrategyName, TuneRequest};
use trimtab::advanced::tune::{Budget, geomean};

/// Arithmetic and bytes a nanosecond an ordinary machine does; only used to put cheap problems first and to share the budget.
const TYPICAL_FLOPS_PER_NS: f64 = 50.0;
const TYPICAL_BYTES_PER_NS: f64 = 10.0;

/// What a race takes whatever its problem: checks, the first runs of a few hundred settings.
const RACE_NS: f64 = 100e6;
/// Runs of the problem that a race makes, slow rivals and warm-up included.
const RACE_RUNS: f64 = 40.0;
/// How much longer than now the command takes that finishes what is left.
const FINISHING: f64 = 4.0;
/// Problems named one by one when some are left.
const LEFT_SHOWN: usize = 5;

/// What to tune and how.
pub struct Request {
    problems: Vec<Problem>,
    representative: bool,
    /// The words that ask for the same again, without the problems and the budget; none where they cannot be told.
    again: Option<Vec<String>>,
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
        let again = again(args, global);
        Ok(Request { problems, representative, again, each: each(args, patience) })
    }
}

/// The options of this command as words.
fn again(args: &Tune, global: &Global) -> Option<Vec<String>> {
    // What these say is not kept as it was written.
    if !args.named.kernels.is_empty() || args.named.isolate.is_some() || global.tune.is_some() {
        return None;
    }
    let mut words: Vec<String> = ["trimtab", "tune"].map(String::from).to_vec();
    let mut add = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [name.to_string(), value]))
    };
    args.op.iter().for_each(|op| add("--op", Some(op.clone())));
    add("--strategy", args.strategy.map(|strategy| strategy.name().to_string()));
    add("--evals", args.evals.map(|evals| evals.to_string()));
    add("--good-enough", args.good_enough.map(|share| share.to_string()));
    add("--device", global.device.clone());
    add("--threads", global.threads.map(|threads| threads.to_string()));
    add("--tolerance", global.tolerance.map(|tolerance| tolerance.0.to_string()));
    add("--wisdom-dir", global.wisdom_dir.as_ref().map(|dir| dir.display().to_string()));
    words.extend(args.exhaustive.then(|| "--exhaustive".to_string()));
    Some(words)
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:,=+@%-".contains(c);
    if word.chars().all(plain) && !word.is_empty() {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
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
    /// The problem, where the budget ended before its race did.
    #[serde(skip)]
    left: Option<Problem>,
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
    let what = format!("tuning {}", counted(order.len(), "problem"));
    let bar = Bar::announced(
        order.len(),
        &what,
        HowLong::AtMost(request.each.budget),
        "what is tuned is kept at once",
    );
    let mut results: Vec<(usize, Tuned)> = Vec::new();
    let mut failures: Vec<(String, String)> = Vec::new();
    for (done, &index) in order.iter().enumerate() {
        let (problem, all) = (&request.problems[index], order.len());
        let place = session.wisdom_place();
        interrupt::would_say(format!(
            "{done} of {all} problems are tuned, {place}; the same command goes on there"
        ));
        let share = share(budget.left(), order[done..].iter().map(|&index| &request.problems[index]));
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
        show(session, request, &results, budget.spent())?;
    }
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for (problem, error) in &failures {
        crate::session::warn(&format!("{problem} was not tuned: {error}"));
    }
    Ok(ExitCode::from(FAILED))
}

/// What the first of these gets of what is left: as much as a race of it needs among all their needs. With equal shares a product of 2048 by
/// 2048 got a quarter of a second, less than one run of its slowest rival, and small ones more than they could use.
fn share<'a>(left: Nanos, problems: impl Iterator<Item = &'a Problem>) -> Nanos {
    let needs: Vec<f64> = problems.map(need_ns).collect();
    let all: f64 = needs.iter().sum();
    let first = needs.first().copied().unwrap_or(0.0);
    if all > 0.0 { Nanos((left.0 as f64 * first / all) as u64) } else { left }
}

fn need_ns(problem: &Problem) -> f64 {
    RACE_NS + making_takes(problem).0 as f64 + RACE_RUNS * rough_ns(problem)
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
    let cut = decision.events.iter().any(|event| matches!(event, Event::BudgetEnded { .. }));
    // Nobody was measured: for want of time, unless it is memory that wants.
    let not = |event: &Event| matches!(event, Event::NotMeasured { .. } | Event::Untried { .. });
    let needed = Bytes(decision.problem.operand_bytes().0.saturating_mul(2));
    let fits = runtime.cpu().state().memory_free.is_none_or(|free| needed <= free);
    let unmeasured = decision.runs == 0 && fits && decision.events.iter().any(not);
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
        left: (cut || unmeasured).then_some(decision.problem),
    }
}

fn first(times: &[Option<f64>]) -> Option<f64> {
    times.iter().copied().flatten().next()
}

/// Times under the same condition compare, others do not: a default on a busy machine would make any choice look good.
fn ratio(default: &[Option<f64>], chosen: &[Option<f64>]) -> Option<f64> {
    let both = default.iter().zip(chosen).find_map(|(default, chosen)| default.zip(*chosen));
    both.filter(|(_, chosen)| *chosen > 0.0).map(|(default, chosen)| default / chosen)
}

fn show(session: &Session, request: &Request, results: &[Tuned], spent: Nanos) -> Result<()> {
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
    out.summary(format!("{}, {effort}: {gain}", problems(results.len())))?;
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
    let left: Vec<&Problem> = results.iter().filter_map(|tuned| tuned.left.as_ref()).collect();
    if !left.is_empty() {
        let none = results.iter().filter(|tuned| tuned.left.is_some() && tuned.measured == 0).count();
        let unmeasured =
            if none > 0 { format!(", {none} of them not measured at all") } else { String::new() };
        out.line(format!("the budget cut {} short{unmeasured}: {}", problems(left.len()), named(&left)))?;
        // Not broken: it is to be copied.
        out.verbatim(format!("finish with: {}", finishing(request, &left)))?;
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

/// The first of them by name, and how many more there are.
fn named(left: &[&Problem]) -> String {
    let mut names: Vec<String> = left.iter().take(LEFT_SHOWN).map(|problem| problem.to_string()).collect();
    names.extend((left.len() > LEFT_SHOWN).then(|| format!("and {} more", left.len() - LEFT_SHOWN)));
    names.join(", ")
}

/// The command that races what is left to its end.
fn finishing(request: &Request, left: &[&Problem]) -> String {
    let all: f64 = request.problems.iter().map(need_ns).sum();
    let needed: f64 = left.iter().map(|problem| need_ns(problem)).sum();
    // At least what it had, and then some: it was not enough.
    let had = request.each.budget.0 as f64 * needed / all.max(1.0);
    let budget = budget_words(FINISHING * needed.max(had));
    let Some(words) = &request.again else { return format!("the same command and --budget {budget}") };
    // What is tuned is not measured again, so the whole set may be asked for.
    let few = left.len() <= LEFT_SHOWN || !request.representative;
    let named: Vec<String> =
        if few { left.iter().map(|problem| problem.to_string()).collect() } else { Vec::new() };
    // Where problems are named, --op has nothing to say.
    let mut words: Vec<&String> = words.iter().collect();
    while let Some(at) = words.iter().position(|word| *word == "--op").filter(|_| few) {
        words.drain(at..(at + 2).min(words.len()));
    }
    let words: Vec<String> = words.into_iter().chain(&named).map(|word| quoted(word)).collect();
    format!("{} --budget {budget}", words.join(" "))
}

/// A time as --budget reads it, rounded up: whole tens of seconds, then whole minutes.
fn budget_words(ns: f64) -> String {
    let tens = (ns / 10e9).ceil().max(1.0) as u64 * 10;
    if tens <= 120 { format!("{tens}s") } else { format!("{}m", tens.div_ceil(60)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab::parse_duration;

    fn problem(text: &str) -> Problem {
        text.parse().unwrap()
    }

    #[test]
    fn large_problems_get_what_a_race_of_them_takes_and_small_ones_are_not_forgotten() {
        let all = representative::problems();
        let mut order: Vec<&Problem> = all.iter().collect();
        order.sort_by(|a, b| rough_ns(a).total_cmp(&rough_ns(b)));
        let mut left = Nanos(30_000_000_000);
        let mut shares = Vec::new();
        for at in 0..order.len() {
            let share = share(left, order[at..].iter().copied());
            shares.push(share);
            left = Nanos(left.0 - share.0);
        }
        assert!(left.0 < 1_000_000, "everything is given away: {left}");
        let of = |text: &str| shares[order.iter().position(|other| **other == problem(text)).unwrap()];
        let (large, small) = (of("matmul:f32:2048x2048x2048"), of("matmul:f32:1x1x1"));
        assert!(large.0 > 3_000_000_000, "{large} for some ten runs of 0.3 s each");
        assert!(small.0 > 10_000_000, "{small}");
    }

    #[test]
    fn only_times_under_the_same_condition_are_compared() {
        assert_eq!(ratio(&[Some(8.0), Some(90.0), None], &[Some(4.0), None, Some(1.0)]), Some(2.0));
        assert_eq!(ratio(&[None, Some(90.0), None], &[Some(4.0), None, Some(1.0)]), None);
    }

    #[test]
    fn the_command_that_finishes_is_one_a_shell_and_the_parser_read() {
        let request = |again: Option<Vec<String>>, representative| Request {
            problems: vec![
                problem("matmul:f32:8x8x8"),
                problem("fused.relu(add(@,c)):f32:256x256x256:n,n,columns"),
            ],
            representative,
            again,
            each: TuneRequest::new(Patience::Measure, Nanos(1_000_000_000)),
        };
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<String>>();
        let again = Some(words("trimtab tune --op matmul --op fused --device cpu"));
        let asked = request(again.clone(), true);
        let fused = &asked.problems[1];
        // How much it asks for depends on the problem, that it can be read does not.
        let without_budget = |command: String| {
            let (words, budget) = command.rsplit_once(" --budget ").unwrap();
            assert!(parse_duration(budget).is_some(), "{command}");
            words.to_string()
        };
        let one = "trimtab tune --device cpu 'fused.relu(add(@,c)):f32:256x256x256:n,n,columns'";
        assert_eq!(without_budget(finishing(&asked, &[fused])), one);
        let many = vec![fused; LEFT_SHOWN + 1];
        let all = "trimtab tune --op matmul --op fused --device cpu";
        assert_eq!(without_budget(finishing(&asked, &many)), all);
        assert_eq!(without_budget(finishing(&request(None, true), &[fused])), "the same command and");
        assert_eq!(named(&many[..2]), format!("{fused}, {fused}"));
        assert!(named(&many).ends_with(", and 1 more"));
        for (ns, shown) in [(0.0, "10s"), (61e9, "70s"), (120e9, "120s"), (121e9, "3m"), (3e11, "5m")] {
            assert_eq!(budget_words(ns), shown);
            assert!(parse_duration(shown).is_some_and(|budget| budget.0 as f64 >= ns));
        }
    }
}
