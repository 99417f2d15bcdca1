//! Trust under load: what is tuned beside busy processes, judged once they are gone, and again by the plans in force after the
//! runtime had quiet time for its background work. What was tuned without any is judged with them: that much is noise.

use crate::judge::evenly;
use crate::{Printer, gpu, matmul};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use trimtab::advanced::core::{
    Basis, Condition, Device, Estimate, KernelId, Nanos, Patience, Point, Problem,
};
use trimtab::advanced::plan::{Decision, Rival, TuneRequest};
use trimtab::advanced::tune::{Budget, Candidate, Raced, Rules, Stopwatch, geomean, race};
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
/// How long tries go on that were disturbed.
const RETRIED: Nanos = Nanos::from_millis(10_000);
/// Judged beside the picks: the best measured point of each kernel, and so many of the fastest.
const FASTEST: usize = 4;
/// A rival measured to be slower than this many times the fastest is not judged: no load hides that much.
const HOPELESS: u64 = 8;
/// Of the problems of the GPU benchmark one in so many is left out: twenty stay.
const LEFT_OUT: usize = 6;

/// Judged again, so often, where one sample in so many was disturbed.
const TRIES: u32 = 8;
const DISTURBED: usize = 4;

/// What is judged of a problem: what was tuned, what was in force later, and what was tuned quietly.
const PICKS: usize = 3;

/// A kernel at a point.
type Pick = (KernelId, Point);

/// Problems of one device, and how their rivals are compared.
struct Field {
    device: &'static str,
    problems: Vec<Problem>,
    rules: Rules,
}

/// What tuning came to know of one problem.
struct Tuned {
    pick: Pick,
    rivals: Vec<Pick>,
}

/// Speeds relative to the best rival, at most one: of what was tuned, of what was in force later, and of what was tuned quietly.
#[derive(Default)]
struct Judged {
    first: Vec<f64>,
    settled: Vec<f64>,
    quiet: Vec<f64>,
    changed: usize,
}

impl Judged {
    fn add(&mut self, other: &Judged) {
        self.first.extend(&other.first);
        self.settled.extend(&other.settled);
        self.quiet.extend(&other.quiet);
        self.changed += other.changed;
    }

    fn summary(&self, load: Value) -> Value {
        let worst = |all: &[f64]| all.iter().copied().reduce(f64::min);
        json!({
            "load": load, "problems": self.first.len(), "changed": self.changed,
            "geomean": geomean(&self.first), "worst": worst(&self.first),
            "settled_geomean": geomean(&self.settled), "settled_worst": worst(&self.settled),
            "quiet_geomean": geomean(&self.quiet), "quiet_worst": worst(&self.quiet),
        })
    }
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let mut parts: Vec<(Field, Vec<Tuned>)> = Vec::new();
    for part in all_parts(printer.options.shapes)? {
        match part.runtime() {
            Ok(rt) => {
                let decisions = tune(&rt, &part, 0)?;
                let known = (decisions.iter().zip(&part.problems))
                    .map(|(decision, problem)| known(&rt, problem, decision))
                    .collect::<Result<_>>()?;
                parts.push((part, known));
            }
            Err(error @ Error::NoSuchDevice { .. }) => {
                eprintln!("{} is left out: {error}", part.device);
                printer.line(&json!({ "left_out": part.device }));
            }
            Err(error) => return Err(error.into()),
        }
    }
    let mut all = Judged::default();
    for load in LOADS {
        let mut judged = Judged::default();
        for (part, quiet) in &parts {
            judged.add(&judge(printer, load, part, quiet)?);
        }
        printer.line(&judged.summary(json!(load)));
        all.add(&judged);
    }
    printer.line(&all.summary(json!(LOADS)));
    Ok(())
}

impl Field {
    fn runtime(&self) -> Result<Runtime, Error> {
        Runtime::builder().device(self.device).wisdom_in_memory().build()
    }
}

/// The problems, or so many of each device's, evenly chosen.
fn all_parts(shapes: Option<usize>) -> Result<[Field; 2]> {
    let matmuls = matmul::SIZES.iter().map(|(m, n, k)| format!("matmul:f32:{m}x{n}x{k}"));
    let on_gpu = gpu::PROBLEMS.iter().enumerate().filter(|(at, _)| at % LEFT_OUT != 0);
    let some = |texts: Vec<String>| -> Result<Vec<Problem>> {
        evenly(&texts, shapes).iter().map(|text| Ok(text.parse()?)).collect()
    };
    let on_gpu = on_gpu.map(|(_, text)| (*text).to_string()).collect();
    Ok([
        Field { device: "cpu", problems: some(matmuls.collect())?, rules: matmul::judging() },
        Field { device: "gpu0", problems: some(on_gpu)?, rules: gpu::judging() },
    ])
}

/// Tunes every problem as the command does, beside so many busy processes.
fn tune(rt: &Runtime, part: &Field, load: usize) -> Result<Vec<Arc<Decision>>> {
    let _busy = Busy::start(load)?;
    let request = TuneRequest::new(Patience::Measure, TUNE_BUDGET);
    let tune = |problem: &Problem| {
        eprintln!("beside {load} busy: {problem} on {}", part.device);
        Ok(rt.tune(problem, &request, &mut |_| ())?)
    };
    part.problems.iter().map(tune).collect()
}

/// What a decision chose, and what is measured by now.
fn known(rt: &Runtime, problem: &Problem, decision: &Decision) -> Result<Tuned> {
    let winner = decision.winner().ok_or_else(|| anyhow!("{problem} was not tuned"))?;
    let now = rt.planner().survey(rt.explain(problem)?.as_ref());
    Ok(Tuned { pick: place(winner), rivals: rivals(&now, winner.device) })
}

/// Tunes beside busy processes, waits quietly, and judges both what was tuned and what is in force then. All are timed in one run,
/// with the runtime gone: its background work disturbs nobody, and all picks meet the same rivals.
fn judge(printer: &Printer, load: usize, part: &Field, quiet: &[Tuned]) -> Result<Judged> {
    let rt = part.runtime()?;
    let device = Arc::clone(rt.planned().next().context("no device is planned for")?.1);
    let host = rt.devices().iter().find(|device| device.facts().habits.host_memory).cloned();
    let judge = Judge { device: device.as_ref(), host: host.as_deref(), rules: &part.rules };
    let decisions = tune(&rt, part, load)?;
    eprintln!("quiet for {} s", QUIET.as_secs());
    std::thread::sleep(QUIET);
    let mut all: Vec<(Problem, Vec<Pick>)> = Vec::new();
    for ((problem, decision), quiet) in part.problems.iter().zip(&decisions).zip(quiet) {
        let plan = rt.plan(problem)?;
        let Tuned { pick, rivals } = known(&rt, problem, decision)?;
        let picks = vec![pick, (plan.kernel, plan.point), quiet.pick];
        all.push((*problem, [picks, rivals, quiet.rivals.clone()].concat()));
    }
    drop(rt);
    let mut judged = Judged::default();
    for (problem, finalists) in all {
        eprintln!("judging {problem} on {}", part.device);
        let field = judge.times(&problem, &finalists)?;
        let time = |at: usize| field[at].min().unwrap_or(f64::INFINITY);
        let fastest = (0..field.len()).min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or(0);
        // Who is the fastest of many was also lucky: the picks meet it once more, and that comparison counts.
        let meeting = [&finalists[..PICKS], &[finalists[fastest]]].concat();
        let again = judge.times(&problem, &meeting)?;
        let best = again[PICKS].min().unwrap_or(f64::INFINITY);
        let ratio = |at: usize| again[at].min().map_or(0.0, |time| (best / time).min(1.0));
        let turns = |at: usize| in_turns(&again[at], &again[PICKS]);
        judged.first.push(ratio(0));
        judged.settled.push(ratio(1));
        judged.quiet.push(ratio(2));
        judged.changed += usize::from(finalists[0] != finalists[1]);
        let name = |at: usize| {
            let (kernel, point) = finalists[at];
            let name = device.kernels().get(kernel.0 as usize).map_or("", |info| info.name.as_str());
            format!("{name}@{}", device.space(kernel, &problem).name(&point))
        };
        printer.line(&json!({
            "load": load, "device": part.device, "problem": problem.to_string(), "pick": name(0), "settled": name(1),
            "quiet": name(2), "best": name(fastest), "best_ns": best.round(), "judged": distinct(&finalists).len(),
            "vs_best": ratio(0), "settled_vs_best": ratio(1), "quiet_vs_best": ratio(2),
            "in_turns": [turns(0), turns(1), turns(2)],
        }));
    }
    Ok(judged)
}

fn place(rival: &Rival) -> Pick {
    (rival.kernel, rival.point)
}

fn distinct(picks: &[Pick]) -> Vec<Pick> {
    let mut distinct: Vec<Pick> = Vec::new();
    for pick in picks {
        if !distinct.contains(pick) {
            distinct.push(*pick);
        }
    }
    distinct
}

/// The measured rivals that could be the best: of each kernel the fastest point, and the fastest of all.
fn rivals(decision: &Decision, device: u16) -> Vec<Pick> {
    let measured = |rival: &&Rival| {
        rival.device == device && matches!(rival.estimate(), Some(Estimate { basis: Basis::Measured(_), .. }))
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

/// Who compares picks, and on what.
struct Judge<'a> {
    device: &'a dyn Device,
    host: Option<&'a dyn Device>,
    rules: &'a Rules,
}

impl Judge<'_> {
    /// What each took, interleaved, once nobody else used the machine meanwhile; all tries together if somebody always did. Equal ones are
    /// run once; without samples for one that fails.
    fn times(&self, problem: &Problem, picks: &[Pick]) -> Result<Vec<Raced>> {
        let distinct = distinct(picks);
        let mut raced: Vec<Raced> = Vec::new();
        let watch = Stopwatch::start();
        for again in (0..TRIES).rev() {
            let one = self.race(problem, &distinct)?;
            let samples: usize = one.iter().map(|raced| raced.samples.len()).sum();
            let disturbed: u32 = one.iter().map(|raced| raced.interfered).sum();
            if DISTURBED * (disturbed as usize) < samples && self.is_quiet() {
                raced = one;
                break;
            }
            for one in one {
                match raced.iter_mut().find(|raced| raced.candidate == one.candidate) {
                    Some(raced) => raced.samples.extend(one.samples),
                    None => raced.push(one),
                }
            }
            // A launch of 60 ms is nearly always disturbed: what that long did not show, longer will not.
            if again == 0 || watch.elapsed() > RETRIED {
                break;
            }
            eprintln!("{problem}: disturbed, once more");
            std::thread::sleep(Duration::from_secs(1));
        }
        if raced.iter().all(|raced| raced.min().is_none()) {
            return Err(anyhow!("{problem}: nobody could be judged"));
        }
        let of = |pick: &Pick| distinct.iter().position(|other| other == pick);
        let of = |pick| of(pick).and_then(|at| raced.iter().find(|raced| raced.candidate == at));
        Ok(picks.iter().map(|pick| of(pick).cloned().unwrap_or_default()).collect())
    }

    fn race(&self, problem: &Problem, picks: &[Pick]) -> Result<Vec<Raced>> {
        let budget = Budget::time(JUDGE_BUDGET);
        let bench = self.device.bench(problem, budget.left());
        let mut bench = bench.map_err(|decline| anyhow!("{problem}: {decline}"))?;
        let candidates: Vec<Candidate> =
            picks.iter().map(|&(kernel, point)| Candidate { kernel, point, expected: None }).collect();
        Ok(race(bench.as_mut(), &candidates, None, self.rules, &budget, &mut |_| ()).rivals)
    }

    fn is_quiet(&self) -> bool {
        let is_quiet = |host: &dyn Device| host.state().condition(host.facts().threads) == Condition::Quiet;
        self.host.is_none_or(is_quiet)
    }
}

/// The speed of one relative to another, by the middle of the ratios of samples taken one after the other.
fn in_turns(one: &Raced, other: &Raced) -> Option<f64> {
    let mut ratios: Vec<f64> =
        one.samples.iter().zip(&other.samples).map(|(one, other)| other / one).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
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
