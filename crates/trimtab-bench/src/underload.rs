//! Trust under load: what is tuned beside busy processes, judged once they are gone, and again by the plans in force after the
//! runtime had quiet time for its background work.

use crate::{Printer, gpu, matmul};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use trimtab::core::{Basis, Device, Estimate, KernelId, Nanos, Patience, Point, Problem};
use trimtab::plan::{Decision, Rival, TuneRequest};
use trimtab::tune::{Budget, Candidate, Rules, geomean, race};
use trimtab::{Error, Runtime};

/// The word that makes this program a busy process.
pub(crate) const BUSY: &str = "keep-busy";

/// Busy processes beside the tuning, in turns.
const LOADS: [usize; 2] = [1, 2];
/// Time for one problem: what `trimtab tune PROBLEM` has by default.
const TUNE_BUDGET: Nanos = Nanos::from_millis(30_000);
/// Quiet time before plans are looked at again.
const QUIET: Duration = Duration::from_secs(30);
/// Time for judging one problem.
const JUDGE_BUDGET: Nanos = Nanos::from_millis(60_000);
/// Judged beside the picks: the best measured point of each kernel, and so many of the fastest.
const FASTEST: usize = 4;
/// A rival measured to be slower than this many times the fastest is not judged: no load hides that much.
const HOPELESS: u64 = 8;
/// Of the problems of the GPU benchmark one in so many is left out: twenty stay.
const LEFT_OUT: usize = 6;

/// A kernel at a point.
type Pick = (KernelId, Point);

/// Problems of one device, and how their rivals are compared.
struct Part {
    device: &'static str,
    problems: Vec<Problem>,
    rules: Rules,
}

/// What one load did to one problem.
struct Tuned {
    problem: Problem,
    first: Pick,
    settled: Pick,
    rivals: Vec<Pick>,
}

/// Speeds relative to the best rival, at most one: of what was tuned, and of what was in force later.
#[derive(Default)]
struct Judged {
    first: Vec<f64>,
    settled: Vec<f64>,
    changed: usize,
}

impl Judged {
    fn add(&mut self, other: &Judged) {
        self.first.extend(&other.first);
        self.settled.extend(&other.settled);
        self.changed += other.changed;
    }

    fn summary(&self, load: Value) -> Value {
        let worst = |all: &[f64]| all.iter().copied().reduce(f64::min);
        json!({
            "load": load, "problems": self.first.len(), "changed": self.changed,
            "geomean": geomean(&self.first), "worst": worst(&self.first),
            "settled_geomean": geomean(&self.settled), "settled_worst": worst(&self.settled),
        })
    }
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let parts = parts(printer.options.shapes)?;
    let mut all = Judged::default();
    for load in LOADS {
        let mut judged = Judged::default();
        for part in &parts {
            match Runtime::builder().device(part.device).wisdom_in_memory().build() {
                Ok(rt) => judged.add(&judge(printer, load, part, rt)?),
                Err(error @ Error::NoSuchDevice { .. }) => {
                    eprintln!("{} is left out: {error}", part.device);
                    printer.line(&json!({ "load": load, "left_out": part.device }));
                }
                Err(error) => return Err(error.into()),
            }
        }
        printer.line(&judged.summary(json!(load)));
        all.add(&judged);
    }
    printer.line(&all.summary(json!(LOADS)));
    Ok(())
}

/// The problems, or so many of each device's, evenly chosen.
fn parts(shapes: Option<usize>) -> Result<[Part; 2]> {
    let matmuls = matmul::SIZES.iter().map(|(m, n, k)| format!("matmul:f32:{m}x{n}x{k}"));
    let on_gpu = gpu::PROBLEMS.iter().enumerate().filter(|(at, _)| at % LEFT_OUT != 0);
    let some = |texts: Vec<String>| -> Result<Vec<Problem>> {
        let count = shapes.unwrap_or(texts.len()).min(texts.len());
        let chosen = (0..count).filter_map(|nth| texts.get((2 * nth + 1) * texts.len() / (2 * count)));
        chosen.map(|text| Ok(text.parse()?)).collect()
    };
    let on_gpu = on_gpu.map(|(_, text)| (*text).to_string()).collect();
    Ok([
        Part { device: "cpu", problems: some(matmuls.collect())?, rules: matmul::judging() },
        Part { device: "gpu0", problems: some(on_gpu)?, rules: gpu::judging() },
    ])
}

/// Tunes beside busy processes, waits quietly, and judges both what was tuned and what is in force then. All are timed in one run,
/// with the runtime gone: its background work disturbs nobody, and both picks meet the same rivals.
fn judge(printer: &Printer, load: usize, part: &Part, rt: Runtime) -> Result<Judged> {
    let (at, device) = rt.planned().next().context("no device is planned for")?;
    let device = Arc::clone(device);
    let busy = Busy::start(load)?;
    let mut decisions: Vec<Arc<Decision>> = Vec::new();
    for problem in &part.problems {
        eprintln!("beside {load} busy: {problem} on {}", part.device);
        let request = TuneRequest::new(Patience::Measure, TUNE_BUDGET);
        decisions.push(rt.tune(problem, &request, &mut |_| ())?);
    }
    drop(busy);
    eprintln!("quiet for {} s", QUIET.as_secs());
    std::thread::sleep(QUIET);
    let mut all: Vec<Tuned> = Vec::new();
    for (problem, decision) in part.problems.iter().zip(&decisions) {
        let first = decision.winner().map(place).ok_or_else(|| anyhow!("{problem} was not tuned"))?;
        let plan = rt.plan(problem)?;
        let now = rt.planner().survey(rt.explain(problem)?.as_ref());
        let rivals = rivals(&now, at);
        all.push(Tuned { problem: *problem, first, settled: (plan.kernel, plan.point), rivals });
    }
    drop(rt);
    let mut judged = Judged::default();
    for tuned in all {
        let Tuned { problem, first, settled, .. } = tuned;
        eprintln!("judging {problem} on {}", part.device);
        let mut finalists = vec![first, settled];
        finalists.extend(tuned.rivals);
        let times = times(device.as_ref(), &problem, &finalists, &part.rules)?;
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let (ratio, settled_ratio) = (best / times[0], best / times[1]);
        judged.first.push(ratio);
        judged.settled.push(settled_ratio);
        judged.changed += usize::from(first != settled);
        let fastest = times.iter().position(|time| *time == best).map_or(first, |at| finalists[at]);
        let name = |(kernel, point): Pick| {
            let kernel_name = device.kernels().get(kernel.0 as usize).map_or("", |info| info.name.as_str());
            format!("{kernel_name}@{}", device.space(kernel, &problem).name(&point))
        };
        printer.line(&json!({
            "load": load, "device": part.device, "problem": problem.to_string(), "pick": name(first),
            "settled": name(settled), "best": name(fastest), "best_ns": best.round(), "rivals": finalists.len(),
            "vs_best": ratio, "settled_vs_best": settled_ratio,
        }));
    }
    Ok(judged)
}

fn place(rival: &Rival) -> Pick {
    (rival.kernel, rival.point)
}

/// The measured rivals that could be the best: of each kernel the fastest point, and the fastest of all.
fn rivals(decision: &Decision, device: usize) -> Vec<Pick> {
    let measured = |rival: &&Rival| {
        rival.device as usize == device
            && matches!(rival.estimate(), Some(Estimate { basis: Basis::Measured(_), .. }))
    };
    let mut all: Vec<&Rival> = decision.rivals.iter().filter(measured).collect();
    let time = |rival: &Rival| rival.estimate().map_or(u64::MAX, |estimate| estimate.time.0);
    all.sort_by_key(|rival| time(rival));
    let limit = all.first().map_or(0, |best| time(best).saturating_mul(HOPELESS));
    all.retain(|rival| time(rival) <= limit);
    let mut picks: Vec<&Rival> = Vec::new();
    for (nth, rival) in all.into_iter().enumerate() {
        if nth < FASTEST || !picks.iter().any(|other| other.kernel == rival.kernel) {
            picks.push(rival);
        }
    }
    picks.into_iter().map(place).collect()
}

/// The least time of each, interleaved; equal ones are run once. Infinite for one that fails.
fn times(device: &dyn Device, problem: &Problem, picks: &[Pick], rules: &Rules) -> Result<Vec<f64>> {
    let budget = Budget::time(JUDGE_BUDGET);
    let mut bench =
        device.bench(problem, budget.left()).map_err(|decline| anyhow!("{problem}: {decline}"))?;
    let mut distinct: Vec<Pick> = Vec::new();
    for pick in picks {
        if !distinct.contains(pick) {
            distinct.push(*pick);
        }
    }
    let candidates: Vec<Candidate> =
        distinct.iter().map(|&(kernel, point)| Candidate { kernel, point, expected: None }).collect();
    let report = race(bench.as_mut(), &candidates, None, rules, &budget, &mut |_| ());
    let time = |pick: &Pick| {
        let at = distinct.iter().position(|other| other == pick);
        let raced = report.rivals.iter().find(|raced| Some(raced.candidate) == at);
        raced.and_then(|raced| raced.min()).unwrap_or(f64::INFINITY)
    };
    let times: Vec<f64> = picks.iter().map(time).collect();
    match times.iter().any(|time| time.is_finite()) {
        true => Ok(times),
        false => Err(anyhow!("{problem}: nobody could be judged")),
    }
}

/// Processes that use a core each, until this is dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn start(count: usize) -> Result<Busy> {
        let mut busy = Busy(Vec::new());
        for _ in 0..count {
            // A process ends by itself when its standard input does: also if this one is killed.
            let mut command = Command::new(std::env::current_exe()?);
            busy.0.push(command.arg(BUSY).stdin(Stdio::piped()).spawn()?);
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A busy process: spins until whoever started it is gone.
pub(crate) fn spin() -> Result<()> {
    let watch = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let mut turns = 0u64;
    while !watch.is_finished() {
        for _ in 0..1_000_000 {
            turns = std::hint::black_box(turns.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
    Ok(())
}
