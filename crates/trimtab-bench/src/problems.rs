//! Many different problems: what the process grows by, and what a warm call takes however many plans there are.

use crate::{Printer, allocations};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use trimtab::advanced::core::{BinaryOp, DType, Elementwise, Patience, RandomNumbers};
use trimtab::advanced::tune::Stopwatch;
use trimtab::{Builder, Runtime};

/// Different problems called once each.
const PROBLEMS: usize = 1_000_000;
/// The same with measuring, where a new problem takes a thousand times as long; `--shapes N` asks for more.
const MEASURED: usize = 20_000;
/// Plans there are when calls are made: as many as the first two levels of the table hold, more, and more than all of it holds.
const PLANS: [usize; 4] = [CALLED, 16_384, 65_536, 131_072];
/// Problems that are called, whatever the number of plans: those planned last.
const CALLED: usize = 4_096;
/// Warm calls of each, in rounds; the least counts.
const CALLS: usize = 100_000;
const ROUNDS: usize = 20;

const OPERATIONS: [BinaryOp; 6] =
    [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Min, BinaryOp::Max];

/// One of the problems: a small matrix and a row.
#[derive(Clone, Copy)]
struct Case {
    problem: Elementwise,
    rows: usize,
    columns: usize,
}

impl Case {
    /// A problem of its own for every number. Neighbours have different operations.
    fn new(number: usize) -> Result<Case> {
        let (op, rest) = (OPERATIONS[number % OPERATIONS.len()], number / OPERATIONS.len());
        // Along diagonals, so that the first ones are the smallest: 2 x 2, 2 x 3, 3 x 2, …
        let diagonal = ((((8 * rest + 1) as f64).sqrt() - 1.0) / 2.0) as usize;
        let along = rest - diagonal * (diagonal + 1) / 2;
        let (rows, columns) = (2 + along, 2 + (diagonal - along));
        let shape = [rows as u64, columns as u64];
        Ok(Case { problem: Elementwise::binary(op, DType::F32, &shape, &shape[1..])?, rows, columns })
    }
}

/// Operands for all of them.
struct Operands {
    lhs: Vec<f32>,
    rhs: Vec<f32>,
    out: Vec<f32>,
}

impl Operands {
    fn new(problems: usize) -> Operands {
        // The longest diagonal, and its middle.
        let longest = 8 + (2.0 * problems as f64 / OPERATIONS.len() as f64).sqrt() as usize;
        let most = (longest / 2 + 2).pow(2);
        Operands { lhs: vec![1.5; most], rhs: vec![0.5; longest], out: vec![0.0; most] }
    }

    fn call(&mut self, rt: &Runtime, case: &Case) -> Result<()> {
        let len = case.rows * case.columns;
        let (lhs, rhs) = (&self.lhs[..len], &self.rhs[..case.columns]);
        Ok(rt.execute(&case.problem, lhs, rhs, &mut self.out[..len])?)
    }
}

fn builder() -> Builder {
    Runtime::builder().ignore_environment().wisdom_in_memory().no_blas().device("cpu")
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let measured = printer.options.shapes.unwrap_or(MEASURED);
    // First, because a process keeps some of what it gave back.
    let dir = tempfile::tempdir()?;
    printer.line(&growth("default", builder().wisdom_dir(dir.path()).build()?, measured)?);
    printer.line(&growth("off", builder().patience(Patience::Off).build()?, PROBLEMS)?);
    printer.line(&warm()?);
    Ok(())
}

/// Bytes of this process in memory, where the system tells.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").context("the system does not tell")?;
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(4096 * pages.context("the system tells something else")?)
}

/// What calling so many problems once each makes the process grow by.
fn growth(mode: &str, rt: Runtime, problems: usize) -> Result<Value> {
    let mut operands = Operands::new(problems);
    operands.call(&rt, &Case::new(0)?)?;
    let (before, in_use) = (resident().ok(), allocations::in_use());
    allocations::most_in_use();
    let stopwatch = Stopwatch::start();
    let mut at_half = 0;
    for number in 0..problems {
        operands.call(&rt, &Case::new(number)?)?;
        if number == problems / 2 {
            at_half = allocations::in_use();
        }
    }
    let took = stopwatch.elapsed();
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let grown = before.and_then(|before| Some(resident().ok()?.saturating_sub(before)));
    Ok(json!({
        "mode": mode, "problems": problems, "us_a_problem": took.0 as f64 / 1e3 / problems as f64,
        "process_grew_mb": grown.map(mb),
        "in_use_grew_mb": mb(allocations::in_use().saturating_sub(in_use)),
        "most_in_use_grew_mb": mb(allocations::most_in_use().saturating_sub(in_use)),
        "second_half_grew_mb": mb(allocations::in_use().saturating_sub(at_half)),
    }))
}

/// What a warm call takes when so many plans were made before, in no order a cache could foresee: finding the plan, and all of it.
fn warm() -> Result<Value> {
    let cases: Vec<Case> = (0..CALLED).map(Case::new).collect::<Result<_>>()?;
    let mut random = RandomNumbers::new(7);
    let order: Vec<usize> = (0..CALLS).map(|_| random.below(CALLED)).collect();
    let mut operands = Operands::new(CALLED);
    let runtimes: Vec<Runtime> =
        PLANS.into_iter().map(|plans| planned(plans, &cases)).collect::<Result<_>>()?;
    let (mut found, mut called) = ([f64::INFINITY; PLANS.len()], [f64::INFINITY; PLANS.len()]);
    for _ in 0..ROUNDS {
        for (nth, rt) in runtimes.iter().enumerate() {
            let (planner, terms) = (rt.planner(), Default::default());
            let stopwatch = Stopwatch::start();
            for &at in &order {
                let problem = &cases[at].problem;
                let known = planner.for_call(problem, terms).map(|(_, plan)| *plan);
                std::hint::black_box(known.or_else(|| planner.beyond(&(*problem).into(), terms)));
            }
            found[nth] = found[nth].min(stopwatch.elapsed().0 as f64 / CALLS as f64);
            let stopwatch = Stopwatch::start();
            for &at in &order {
                operands.call(rt, &cases[at])?;
            }
            called[nth] = called[nth].min(stopwatch.elapsed().0 as f64 / CALLS as f64);
        }
    }
    let mut line = serde_json::Map::new();
    for (nth, plans) in PLANS.into_iter().enumerate() {
        line.insert(format!("find_{plans}_ns"), json!(found[nth]));
        line.insert(format!("call_{plans}_ns"), json!(called[nth]));
        line.insert(format!("call_{plans}_vs_{CALLED}"), json!(called[nth] / called[0]));
    }
    Ok(line.into())
}

/// A runtime that made so many plans, those that are called last.
fn planned(plans: usize, called: &[Case]) -> Result<Runtime> {
    let rt = builder().patience(Patience::Off).build()?;
    for number in CALLED..plans {
        rt.plan(&Case::new(number)?.problem.into())?;
    }
    let mut operands = Operands::new(CALLED);
    called.iter().try_for_each(|case| operands.call(&rt, case))?;
    Ok(rt)
}
