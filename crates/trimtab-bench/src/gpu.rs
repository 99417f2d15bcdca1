//! GPUs: what tuning gains over default settings, how near it comes to an exhaustive search, and what our launch adds to a
//! dispatch written by hand.

use crate::{Printer, by_hand};
use anyhow::{Result, anyhow};
use serde_json::json;
use trimtab::Runtime;
use trimtab::advanced::core::{KernelId, Nanos, Patience, Point, Problem};
use trimtab::advanced::plan::{Rival, Standing, TuneRequest};
use trimtab::advanced::tune::{Budget, Candidate, Rules, geomean, race};

/// Launches of less than about 0.1 ms are left out: on a software adapter they are all waking threads up, and vary by a third.
pub(crate) const PROBLEMS: [&str; 24] = [
    "matmul:f32:96x96x96",
    "matmul:f32:64x64x64",
    "matmul:f32:128x128x128",
    "matmul:f32:256x256x256",
    "matmul:f32:512x512x512",
    "matmul:f32:100x200x300",
    "matmul:f32:1x1024x1024",
    "matmul:f32:1024x1x1024",
    "elementwise.add:f32:262144",
    "elementwise.add:f32:65536",
    "elementwise.add:f32:1048576",
    "elementwise.mul:f32:4194304",
    "elementwise.gelu:f32:262144",
    "elementwise.exp:f32:1048576",
    "elementwise.add:f32:1024x1024,1024",
    "reduce.sum:f32:131072",
    "reduce.sum:f32:1048576",
    "reduce.max:f32:4194304",
    "reduce.sum:f32:1024x1024:axis0",
    "reduce.sum:f32:1024x1024:axis1",
    "reduce.mean:f32:64x128x64:axis1",
    "transpose:f32:256x256",
    "transpose:f32:1024x1024",
    "transpose:f32:16x128x8x64:0.2.1.3",
];
/// Time for tuning one problem; most of it goes into compiling.
const TUNE_BUDGET: Nanos = Nanos::from_millis(20_000);
/// Time for the exhaustive race of one problem, and for the last comparison.
const EXHAUSTIVE_BUDGET: Nanos = Nanos::from_millis(120_000);
/// The best of the exhaustive race that run off against the tuned and the default choice, …
const FINALISTS: usize = 4;
/// … interleaved, so many rounds; the minimum counts.
const ROUNDS: u32 = 40;
/// A round of the comparison takes at least this long: single launches vary by a third.
const BATCH: Nanos = Nanos::from_millis(10);

/// How finalists are compared.
pub(crate) fn judging() -> Rules {
    Rules { min_samples: ROUNDS, max_samples: ROUNDS, batch_time_min: BATCH, ..Rules::thorough() }
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let tuned_with = Runtime::builder().device("gpu0").wisdom_in_memory().build()?;
    let exhaustive_with = Runtime::builder().device("gpu0").wisdom_in_memory().build()?;
    let device = tuned_with.devices().get(1).ok_or_else(|| anyhow!("there is no gpu0"))?;
    let (mut gains, mut losses) = (Vec::new(), Vec::new());
    for text in PROBLEMS {
        let problem: Problem = text.parse()?;
        let request = |patience, budget, rules| TuneRequest { rules, ..TuneRequest::new(patience, budget) };
        let tuned = tuned_with.tune(
            &problem,
            &request(Patience::Measure, TUNE_BUDGET, Rules::careful()),
            &mut |_| (),
        )?;
        let all = exhaustive_with.tune(
            &problem,
            &request(Patience::Exhaustive, EXHAUSTIVE_BUDGET, Rules::careful()),
            &mut |_| (),
        )?;
        let place = |rival: &Rival| (rival.kernel, rival.point);
        let winner = tuned.winner().map(place).ok_or_else(|| anyhow!("{text} was not tuned"))?;
        let mut measured: Vec<&Rival> =
            all.rivals.iter().filter(|rival| rival.estimate().is_some()).collect();
        measured.sort_by_key(|rival| rival.estimate().map(|estimate| estimate.time));
        // The default: the first kernel in order of preference at its first setting, as mode off runs it.
        let open = |rival: &&Rival| !matches!(rival.standing, Standing::Declined(_) | Standing::Excluded(_));
        let first = all.rivals.iter().filter(open).map(|rival| rival.kernel).min();
        let first = first.ok_or_else(|| anyhow!("no kernel takes {text}"))?;
        let default =
            *device.space(first, &problem).points().first().ok_or_else(|| anyhow!("no settings"))?;
        let mut finalists: Vec<(KernelId, Point)> = vec![winner, (first, default)];
        for rival in measured.iter().take(FINALISTS) {
            if !finalists.contains(&place(rival)) {
                finalists.push(place(rival));
            }
        }
        let times = run_off(device.as_ref(), &problem, &finalists)?;
        let (tuned_ns, default_ns) = (times[0], times[1]);
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        gains.push(default_ns / tuned_ns);
        losses.push(tuned_ns / best);
        let info = |kernel: KernelId| device.kernels()[kernel.0 as usize].name.clone();
        printer.line(&json!({
            "problem": text, "default_ns": default_ns.round(), "tuned_ns": tuned_ns.round(),
            "exhaustive_best_ns": best.round(), "default": info(first), "tuned": info(winner.0),
            "points": measured.len(), "tuning_s": tuned.spent.0 as f64 / 1e9,
            "tuned_point": device.space(winner.0, &problem).name(&winner.1), "exhaustive_s": all.spent.0 as f64 / 1e9, "exhaustive_complete": all.complete,
        }));
    }
    let launch = by_hand::launch_overhead()?;
    printer.line(&json!({
        "problems": PROBLEMS.len(),
        "geomean_vs_default": geomean(&gains),
        "worst_vs_exhaustive": losses.iter().copied().fold(0.0, f64::max),
        "geomean_vs_exhaustive": geomean(&losses),
        "launch_overhead_ratio": launch.least_ratio,
        "launch_overhead_ratio_of_medians": launch.ratio,
        "launch_by_hand_ns": launch.by_hand_ns,
        "launch_ours_ns": launch.ours_ns,
    }));
    Ok(())
}

/// The least time of each, interleaved.
fn run_off(
    device: &dyn trimtab::Device,
    problem: &Problem,
    finalists: &[(KernelId, Point)],
) -> Result<Vec<f64>> {
    let budget = Budget::time(EXHAUSTIVE_BUDGET);
    let mut bench =
        device.bench(problem, budget.left()).map_err(|decline| anyhow!("{problem}: {decline}"))?;
    let candidates: Vec<Candidate> =
        finalists.iter().map(|&(kernel, point)| Candidate { kernel, point, expected: None }).collect();
    let report = race(bench.as_mut(), &candidates, None, &judging(), &budget, &mut |_| ());
    let time =
        |raced: &trimtab::advanced::tune::Raced| raced.min().ok_or_else(|| anyhow!("{problem}: {raced:?}"));
    report.rivals.iter().map(time).collect()
}
