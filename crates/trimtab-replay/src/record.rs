//! Records a kernel of any device: every legal point or a random sample of them, measured in turns.

use crate::file_name;
use crate::recording::{Axis, Outcome, Recording, Row, Timing};
use trimtab_core::{
    Bench, Device, Failure, FailureKind, KernelId, MAX_SIZES, Nanos, Point, Problem, RandomNumbers, Sample,
    Space,
};
use trimtab_tune::{Budget, Rules};

const MS_PER_NS: f64 = 1e-6;

/// What to record of a kernel, and how.
#[derive(Clone, Debug)]
pub struct RecordRequest {
    /// The kernel.
    pub kernel: KernelId,
    /// The problem.
    pub problem: Problem,
    /// Most points to measure; a uniform random sample where the space has more.
    pub evals: usize,
    /// Samples of each point.
    pub repeats: u32,
    /// Decides which points are drawn, and in which order they take turns.
    pub seed: u64,
    /// How long batches are, when a run is given up, how often a disturbed one is repeated.
    pub rules: Rules,
    /// Points by name that ended a process before: recorded as that, not run again.
    pub crashed: Vec<String>,
    /// Who records, for whoever reads it later.
    pub origin: String,
}

/// How far recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordProgress {
    /// Runs done, of all that are planned.
    pub runs: u64,
    /// Runs planned; fewer when points fail.
    pub planned: u64,
}

/// What was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The recording; of rows that were measured at least once, or failed.
    pub recording: Recording,
    /// Points of the space.
    pub legal: usize,
    /// Points that were to be measured.
    pub wanted: usize,
    /// Whether every wanted point has all its repeats, or failed.
    pub finished: bool,
    /// Points that could not be tried for reasons that are not theirs, and the first such reason.
    pub untried: Option<(usize, Failure)>,
}

/// A point while it is measured.
#[derive(Default)]
struct Measured {
    at: usize,
    /// Times of a launch, in recorded order.
    ns: Vec<f64>,
    /// How long a launch took last.
    each: f64,
    compile_ms: Option<f64>,
    failure: Option<Failure>,
    remeasures: u32,
}

/// Measures points of a kernel in turns: all of them once, then all once more, so that drift of the machine hits all alike.
/// Each is warmed up before, which is not recorded, and a sample is a batch long enough for the clock.
///
/// The order of points is drawn by the seed, so that what is there when the budget ends or `stop` says so is a uniform
/// random sample of the space. Rows are in the order of the space.
pub fn record(
    device: &dyn Device,
    bench: &mut dyn Bench,
    request: &RecordRequest,
    budget: &Budget,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(RecordProgress),
) -> Recorded {
    let space = device.space(request.kernel, &request.problem);
    let mut order: Vec<usize> = (0..space.points().len()).collect();
    let mut numbers = RandomNumbers::new(request.seed);
    for at in 0..order.len() {
        let other = at + numbers.below(order.len() - at);
        order.swap(at, other);
    }
    order.truncate(request.evals);
    let mut points: Vec<Measured> = order.iter().map(|&at| Measured { at, ..Measured::default() }).collect();
    let planned = points.len() as u64 * (u64::from(request.repeats) + 1);
    let mut runs = 0;
    // Round zero warms up.
    'rounds: for round in 0..=request.repeats {
        for measured in &mut points {
            if stop() || budget.exhausted() {
                break 'rounds;
            }
            if measured.failure.is_none() {
                let point = &space.points()[measured.at];
                match round {
                    0 => warm_up(bench, request, &space, point, measured),
                    _ => take_turn(bench, request, point, measured),
                }
            }
            runs += 1;
            progress(RecordProgress { runs, planned });
        }
    }
    finish(device, request, &space, points)
}

fn warm_up(
    bench: &mut dyn Bench,
    request: &RecordRequest,
    space: &Space,
    point: &Point,
    measured: &mut Measured,
) {
    let name = space.name(point);
    if request.crashed.contains(&name) {
        let message = "an earlier process died while it ran".to_string();
        measured.failure = Some(Failure::new(FailureKind::Crashed, message));
        return;
    }
    let rules = &request.rules;
    // The first launch checks and may build; the batch after it finds caches warm and says how long a launch takes.
    let outcome = bench.run(request.kernel, point, 1, rules.timeout).and_then(|first| {
        measured.compile_ms = first.compiled_in.map(|time| time.0 as f64 * MS_PER_NS);
        bench.run(request.kernel, point, rules.iterations(first.ns()), rules.timeout)
    });
    match outcome {
        Ok(sample) => measured.each = sample.ns(),
        Err(failure) => measured.failure = Some(failure),
    }
}

fn take_turn(bench: &mut dyn Bench, request: &RecordRequest, point: &Point, measured: &mut Measured) {
    let rules = &request.rules;
    let mut run = |each: f64| bench.run(request.kernel, point, rules.iterations(each), rules.timeout);
    let mut outcome = run(measured.each);
    // What disturbed the machine is not the kernel's; but a machine that is always disturbed is recorded as it is.
    while matches!(outcome, Ok(Sample { interference: Some(_), .. }))
        && measured.remeasures < rules.max_remeasures
    {
        measured.remeasures += 1;
        outcome = run(measured.each);
    }
    match outcome {
        Ok(Sample { elapsed: Nanos(0), .. }) => {
            measured.failure =
                Some(Failure::new(FailureKind::Untried, "the clock did not move while it ran"));
        }
        Ok(sample) => {
            measured.each = sample.ns();
            measured.ns.push(sample.ns());
        }
        Err(failure) => measured.failure = Some(failure),
    }
}

fn finish(
    device: &dyn Device,
    request: &RecordRequest,
    space: &Space,
    mut points: Vec<Measured>,
) -> Recorded {
    let wanted = points.len();
    let full = |point: &Measured| point.failure.is_some() || point.ns.len() == request.repeats as usize;
    let finished = points.iter().all(full);
    let is_untried = |point: &Measured| {
        let kind = point.failure.as_ref().map(|failure| failure.kind);
        kind == Some(FailureKind::Untried)
    };
    let untried: Vec<Failure> =
        points.iter().filter(|point| is_untried(point)).filter_map(|point| point.failure.clone()).collect();
    let untried = untried.first().map(|first| (untried.len(), first.clone()));
    points.retain(|point| !is_untried(point) && (point.failure.is_some() || !point.ns.is_empty()));
    points.sort_unstable_by_key(|point| point.at);
    let mut rows = Vec::with_capacity(points.len());
    let mut repeats = Vec::with_capacity(points.len());
    for measured in &points {
        let ms: Vec<f64> = measured.ns.iter().map(|ns| ns * MS_PER_NS).collect();
        let outcome = match &measured.failure {
            Some(failure) => Outcome::Failed(failure.kind),
            None => {
                let mean_ms = ms.iter().sum::<f64>() / ms.len() as f64;
                let min_ms = trimtab_tune::minimum(&ms).unwrap_or(mean_ms);
                Outcome::Ran(Timing {
                    mean_ms,
                    min_ms,
                    median_ms: trimtab_tune::median(&ms).unwrap_or(mean_ms),
                })
            }
        };
        rows.push(Row { point: space.points()[measured.at], outcome, compile_ms: measured.compile_ms });
        repeats.push(ms);
    }
    let recording = describe(device, request, space, rows).with_repeats(&repeats);
    Recorded { recording, legal: space.points().len(), wanted, finished, untried }
}

fn describe(device: &dyn Device, request: &RecordRequest, space: &Space, rows: Vec<Row>) -> Recording {
    let facts = device.facts();
    let kernel = device.kernels().get(request.kernel.0 as usize);
    let kernel = kernel.map(|info| info.name.clone()).unwrap_or_default();
    let problem = request.problem.to_string();
    let axes = space.axes().iter().enumerate().map(|(at, name)| {
        let values: std::collections::BTreeSet<u32> =
            space.points().iter().map(|point| point.values()[at]).collect();
        Axis { name: name.to_string(), values: values.into_iter().collect() }
    });
    let device_name = if facts.name.is_empty() { facts.id.clone() } else { facts.name.clone() };
    let device = short_name(&device_name);
    let recording = Recording {
        name: file_name(&format!("{kernel}__{}__{device}", problem.replace(':', "-"))),
        kernel,
        device,
        device_name,
        api: facts.adapter.as_ref().map_or(facts.kind.name().to_string(), |adapter| adapter.backend.clone()),
        sizes: sizes(&problem),
        flops: request.problem.flops(),
        bytes: request.problem.operand_bytes().0,
        variant: problem.clone(),
        op: problem,
        axes: axes.collect(),
        origin: request.origin.clone(),
        rows,
        ..Recording::default()
    };
    recording.limit_to(space.points())
}

/// The sizes in a problem's text: `64x1024,1024` in `elementwise.add:f32:64x1024,1024`.
fn sizes(problem: &str) -> Vec<u64> {
    let parts =
        problem.split(':').find(|part| part.starts_with(|c: char| c.is_ascii_digit())).unwrap_or_default();
    parts.split(['x', ',']).filter_map(|size| size.parse().ok()).take(MAX_SIZES).collect()
}

/// A device's name in small letters, words joined by one `_`, without the driver's remarks in parentheses at its end.
fn short_name(name: &str) -> String {
    let end = name.rfind('(').filter(|at| *at > 0 && name.ends_with(')')).unwrap_or(name.len());
    let name = &name[..end];
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_short_names() {
        let names =
            ["llvmpipe (LLVM 15.0.6, 256 bits)", "Intel(R) Xeon(R) CPU @ 2.20GHz", "(R)", "AMD RX-6600"];
        assert_eq!(names.map(short_name), ["llvmpipe", "intel_r_xeon_r_cpu_2_20ghz", "r", "amd_rx_6600"]);
    }
}
