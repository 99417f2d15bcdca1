//! `trimtab tune --active` and `trimtab calibrate-shapes`: chooses itself which problems to measure, so that others can be answered from them.

use super::tune::{each, tuned};
use crate::args::{Global, Tune};
use crate::failure::bad_input;
use crate::interrupt;
use crate::output::percent;
use crate::progress::{Bar, HowLong};
use crate::session::{Session, warn};
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use trimtab::advanced::core::{Nanos, Patience, Problem, RandomNumbers};
use trimtab::advanced::plan::learn::{ENOUGH_LOSS, FIRST, Learned, next};
use trimtab::advanced::plan::{TrainingTable, TuneRequest, family_of, wanted};
use trimtab::advanced::tune::Budget;

/// Problems to choose among.
const CANDIDATES: usize = 400;
/// Problems measured before the model is asked again.
const BATCH: usize = 4;
/// One problem gets at most one in so many parts of the budget: covering the space must fit into half of it.
const SHARES: u64 = 2 * FIRST as u64;
/// Sizes are drawn between these, in doublings …
const SMALLEST: f64 = 1.0;
const LARGEST_SIDE: f64 = 11.0;
const LARGEST_VECTOR: f64 = 24.0;
/// … with at most so many operations and bytes.
const MOST_FLOPS: u64 = 1 << 31;
const MOST_BYTES: u64 = 1 << 28;

/// What to learn about and how.
struct Request {
    family: Family,
    /// How; its budget is that of all together.
    each: TuneRequest,
}

/// Problems that differ in sizes only.
struct Family {
    /// Text before and after the sizes.
    before: String,
    after: &'static str,
    /// How many sizes, and the largest in doublings.
    sizes: usize,
    largest: f64,
}

/// Reads what is asked for and does it.
pub fn command(args: &Tune, global: &Global) -> Result<ExitCode> {
    let request = Request::read(args, global)?;
    run(&Session::naming(&args.named, global)?, &request)
}

impl Request {
    fn read(args: &Tune, global: &Global) -> Result<Request> {
        // Said by the parser too where --active is given.
        if args.exhaustive || !args.problems.is_empty() {
            return Err(bad_input(
                "problems are chosen here: give --op, and neither problems nor --exhaustive",
            ));
        }
        if global.tune.is_some_and(|mode| mode.patience != Patience::Measure) {
            return Err(bad_input("--active measures; leave out --tune"));
        }
        let op = match args.op.as_slice() {
            [] => "matmul",
            [one] => one.as_str(),
            _ => return Err(bad_input("--active learns about one operation at a time; give one --op")),
        };
        Ok(Request { family: family(op)?, each: each(args, Patience::Measure) })
    }
}

fn family(op: &str) -> Result<Family> {
    let (operation, function) = op.split_once('.').unwrap_or((op, ""));
    let or = |default: &str| if function.is_empty() { default.to_string() } else { function.to_string() };
    let (name, after, sizes, largest) = match operation {
        "matmul" if function.is_empty() => ("matmul".to_string(), "", 3, LARGEST_SIDE),
        "transpose" if function.is_empty() => ("transpose".to_string(), "", 2, LARGEST_SIDE),
        "elementwise" => (format!("elementwise.{}", or("add")), "", 1, LARGEST_VECTOR),
        "reduce" => (format!("reduce.{}", or("sum")), ":axis1", 2, LARGEST_SIDE),
        _ => (String::new(), "", 0, 0.0),
    };
    let family = Family { before: format!("{name}:f32:"), after, sizes, largest };
    if family.problem(&vec![2; sizes]).is_none() {
        let hint = "or one of them with its function, such as reduce.max";
        return Err(bad_input(format!("--op {op}: use matmul, elementwise, reduce or transpose, {hint}")));
    }
    Ok(family)
}

impl Family {
    fn problem(&self, sizes: &[u64]) -> Option<Problem> {
        let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
        format!("{}{}{}", self.before, sizes.join("x"), self.after).parse().ok()
    }

    /// Problems of all sizes, the same in every run.
    fn candidates(&self) -> Vec<Problem> {
        let mut dice = RandomNumbers::new(0);
        let mut problems: Vec<Problem> = Vec::new();
        // Most draws are small enough; the bound is for those families in which few are.
        for _ in 0..CANDIDATES * 8 {
            let mut size = || (SMALLEST + dice.unit() * (self.largest - SMALLEST)).exp2().round() as u64;
            let sizes: Vec<u64> = (0..self.sizes).map(|_| size()).collect();
            let fits =
                |problem: &Problem| problem.flops() <= MOST_FLOPS && problem.operand_bytes().0 <= MOST_BYTES;
            if let Some(problem) = self.problem(&sizes).filter(fits)
                && !problems.contains(&problem)
            {
                problems.push(problem);
            }
            if problems.len() == CANDIDATES {
                break;
            }
        }
        problems
    }
}

/// What was reached.
#[derive(Serialize)]
struct Reached {
    /// One of the problems.
    like: String,
    /// Problems of the family that are measured now, and those measured just now.
    problems: usize,
    measured: usize,
    /// What a learned choice is expected to lose on the others, in the mean, as a share.
    expected_loss: Option<f64>,
    /// Cross-validated: time of the choice over the best's.
    regret: Option<f64>,
    /// Why it ended.
    ended: &'static str,
    spent_ms: f64,
}

fn run(session: &Session, request: &Request) -> Result<ExitCode> {
    let runtime = &session.runtime;
    let mut candidates = request.family.candidates();
    let Some(like) = candidates.first().copied() else {
        return Err(bad_input("there are no problems to choose among"));
    };
    // What was measured before counts, and is not measured again.
    let before = known(session, &like).map(|training_table| training_table.problems).unwrap_or_default();
    candidates
        .extend(before.iter().filter(|problem| !candidates.contains(problem)).copied().collect::<Vec<_>>());
    let table = wanted(&candidates);
    let budget = Budget::time(request.each.budget);
    interrupt::end_in_order();
    let then = "Ctrl-C ends it and keeps what was measured";
    let bar = Bar::announced(
        candidates.len(),
        "choosing problems to measure",
        HowLong::AtMost(request.each.budget),
        then,
    );
    let mut tried: Vec<Problem> = Vec::new();
    let (mut count, mut failed) = (0, 0);
    let (ended, expected_loss, learned) = loop {
        let training_table = known(session, &like);
        let learned = training_table.as_ref().and_then(TrainingTable::learn);
        let done = |problem: &&Problem| {
            tried.contains(problem)
                || training_table
                    .as_ref()
                    .is_some_and(|training_table| training_table.problems.contains(problem))
        };
        let measured: Vec<usize> =
            candidates.iter().enumerate().filter(|(_, problem)| done(problem)).map(|(row, _)| row).collect();
        // Which rivals take which candidate; nothing before there is a model.
        let takes = training_table
            .as_ref()
            .filter(|_| learned.is_some())
            .map(|table| candidates.iter().map(|problem| runtime.planner().takes(table, problem)).collect());
        let takes: Vec<Vec<bool>> = takes.unwrap_or_default();
        let takes = |row: usize, rival: usize| takes.get(row).is_none_or(|takes| takes[rival]);
        let asked = next(&table, &measured, learned.as_ref(), takes, BATCH);
        if let (Some(loss), false) = (asked.expected_loss, session.out.is_json()) {
            let known = measured.len();
            let told = format!("{known} problems known, expected loss on others {}", percent(loss));
            bar.around(|| session.out.line(told))?;
        }
        if asked.rows.is_empty() {
            let all = measured.len() == candidates.len();
            break (if all { "all measured" } else { "enough" }, asked.expected_loss, learned);
        }
        if interrupt::asked() {
            break ("interrupted", asked.expected_loss, learned);
        }
        if budget.left().0 == 0 {
            break ("budget", asked.expected_loss, learned);
        }
        for problem in asked.rows.into_iter().filter_map(|row| candidates.get(row)) {
            let share = Nanos((request.each.budget.0 / SHARES).min(budget.left().0));
            if share.0 == 0 || interrupt::asked() {
                break;
            }
            let ask = TuneRequest { budget: share, session: share, ..request.each.clone() };
            tried.push(*problem);
            match runtime.tune(problem, &ask, &mut |progress| bar.show(problem, progress)) {
                Ok(decision) => {
                    count += 1;
                    if session.out.is_json() {
                        bar.around(|| session.out.object(&tuned(session, &decision)))?;
                    }
                }
                Err(error) => {
                    failed += 1;
                    bar.around(|| warn(&format!("{problem} was not measured: {error}")));
                }
            }
            bar.next();
        }
        bar.around(|| session.keep());
    };
    drop(bar);
    let reached = Reached {
        like: like.to_string(),
        problems: known(session, &like).map_or(0, |training_table| training_table.problems.len()),
        measured: count,
        expected_loss,
        regret: learned.as_ref().map(Learned::regret),
        ended,
        spent_ms: budget.spent().0 as f64 / 1e6,
    };
    show(session, &reached, budget.spent())?;
    Ok(if count == 0 && failed > 0 { ExitCode::from(crate::failure::FAILED) } else { ExitCode::SUCCESS })
}

/// What was measured of this family of problems, on the device with most of them.
fn known(session: &Session, like: &Problem) -> Option<TrainingTable> {
    let family = family_of(like);
    let training_table = session.runtime.planner().training_tables(1).into_iter();
    let same = training_table.filter(|training_table| training_table.family == family);
    same.max_by_key(|training_table| training_table.problems.len())
}

fn show(session: &Session, reached: &Reached, spent: Nanos) -> Result<()> {
    let out = &session.out;
    if out.is_json() {
        return out.object(reached);
    }
    let Reached { like, problems, measured, .. } = reached;
    out.line(format!("{measured} problems like {like} measured in {spent}, {problems} known now"))?;
    let enough = percent(ENOUGH_LOSS);
    let why = match reached.ended {
        "enough" => format!("ended because that is under {enough}"),
        "budget" => "ended because the budget is spent; give more with --budget".to_string(),
        "interrupted" => "interrupted".to_string(),
        _ => "ended because every problem there was to choose is measured".to_string(),
    };
    let words = match reached.expected_loss {
        Some(loss) => format!("expected loss on others {}: {why}", percent(loss)),
        None => format!("too few to learn from yet: {why}"),
    };
    out.line(words)?;
    if let Some(regret) = reached.regret {
        out.line(format!(
            "cross-validated, a learned choice is {} slower than the best, differences within the noise left aside",
            percent(regret - 1.0)
        ))?;
    }
    out.line(session.wisdom_place())
}
