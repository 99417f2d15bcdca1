//! What a warm call costs above calling the kernel directly, on one and two threads; what holding a plan saves.

use crate::{Printer, allocations};
use anyhow::{Context, Result};
use serde_json::json;
use std::sync::Barrier;
use trimtab::Runtime;
use trimtab::advanced::core::{KernelInfo, Matmul, Nanos, Point, Problem, TypedProblem};
use trimtab::advanced::cpu::{AnyKernel, Args, Cpu, Element, Pool, kernels};
use trimtab::advanced::tune::Stopwatch;

/// Calls in one timed stretch.
const CALLS: u32 = 2_000;
/// Interleaved rounds, half a second of each; the minimum counts. Others use the machine for tenths of a second at a time.
const ROUNDS: u32 = 4_000;
/// The smallest product there is a reason to call a library for: about 20 ns of work.
const PROBLEM: &str = "matmul:f32:4x4x4";

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let rt = Runtime::builder().device("cpu").ignore_environment().wisdom_in_memory().no_blas().build()?;
    let problem: Problem = PROBLEM.parse()?;
    let typed = *Matmul::of(&problem).context("it is a product")?;
    let plan = rt.plan(&problem)?;
    let info: &KernelInfo =
        rt.devices()[0].kernels().get(plan.kernel.0 as usize).context("the plan names a kernel")?;
    let all = kernels::matmul::kernels(&[]);
    let kernel = all.iter().find(|kernel| kernel.info().name == info.name).context("the kernel exists")?;
    let (direct, warm, held) = one_thread(&rt, kernel.as_ref(), &typed, &plan.point)?;
    let (direct_2, warm_2) = two_threads(&rt, kernel.as_ref(), &typed, &plan.point);
    let (lhs, rhs, mut out) = operands();
    rt.execute(&problem, &lhs, &rhs, &mut out)?;
    let before = allocations::count();
    for _ in 0..CALLS {
        rt.execute(&problem, &lhs, &rhs, &mut out)?;
    }
    let allocations = allocations::count() - before;
    let report_ns = report(&rt, &problem)?;
    let estimate_ns = estimate(&rt)?;
    printer.line(&json!({
        "problem": PROBLEM,
        "kernel": info.name,
        "direct_ns": direct,
        "warm_ns": warm,
        "warm_above_direct_ns": warm - direct,
        "direct_ns_2_threads": direct_2,
        "warm_ns_2_threads": warm_2,
        "warm_above_direct_ns_2_threads": warm_2 - direct_2,
        "held_plan_ns": held,
        "allocations": allocations,
        "report_ns": report_ns,
        "estimate_ns_per_candidate": estimate_ns,
    }));
    Ok(())
}

fn operands() -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    (vec![1.0; 16], vec![2.0; 16], vec![0.0; 16])
}

/// Nanoseconds a call of a stretch.
fn stretch(mut call: impl FnMut()) -> f64 {
    let stopwatch = Stopwatch::start();
    for _ in 0..CALLS {
        call();
    }
    stopwatch.elapsed().0 as f64 / f64::from(CALLS)
}

fn call_direct(
    kernel: &dyn AnyKernel<Cpu>,
    problem: &Problem,
    point: &Point,
    pool: &Pool,
    io: &mut (Vec<f32>, Vec<f32>, Vec<f32>),
) {
    let (lhs, rhs, out) = io;
    let inputs = [f32::erase(lhs), f32::erase(rhs)];
    let args = Args { inputs: &inputs, out: f32::erase_mut(out), pool };
    std::hint::black_box(kernel.launch(std::hint::black_box(problem), point, args).is_ok());
}

fn one_thread(
    rt: &Runtime,
    kernel: &dyn AnyKernel<Cpu>,
    typed: &Matmul,
    point: &Point,
) -> Result<(f64, f64, f64)> {
    let problem = &Problem::from(*typed);
    let pool = Pool::new(1);
    let mut io = operands();
    let plan = rt.plan(problem)?;
    let mut best = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        best.0 = best.0.min(stretch(|| call_direct(kernel, problem, point, &pool, &mut io)));
        let (lhs, rhs, out) = &mut io;
        let warm = stretch(|| {
            std::hint::black_box(rt.execute(std::hint::black_box(typed), lhs, rhs, out).is_ok());
        });
        best.1 = best.1.min(warm);
        let held = stretch(|| {
            std::hint::black_box(rt.launch(&plan, std::hint::black_box(problem), lhs, rhs, out).is_ok());
        });
        best.2 = best.2.min(held);
    }
    Ok(best)
}

/// Both threads call at the same time; of each round the slower thread counts, over the rounds the minimum.
fn two_threads(rt: &Runtime, kernel: &dyn AnyKernel<Cpu>, typed: &Matmul, point: &Point) -> (f64, f64) {
    let problem = &Problem::from(*typed);
    let barrier = Barrier::new(2);
    let worker = || {
        let pool = Pool::new(1);
        let mut io = operands();
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            barrier.wait();
            let direct = stretch(|| call_direct(kernel, problem, point, &pool, &mut io));
            barrier.wait();
            let (lhs, rhs, out) = &mut io;
            let warm = stretch(|| {
                std::hint::black_box(rt.execute(std::hint::black_box(typed), lhs, rhs, out).is_ok());
            });
            rounds.push((direct, warm));
        }
        rounds
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(worker);
        (worker(), other.join().unwrap_or_default())
    });
    let rounds = first.iter().zip(&second);
    rounds.fold((f64::MAX, f64::MAX), |best, (a, b)| (best.0.min(a.0.max(b.0)), best.1.min(a.1.max(b.1))))
}

/// Nanoseconds to report one live measurement.
fn report(rt: &Runtime, problem: &Problem) -> Result<f64> {
    rt.execute(problem, &[1.0f32; 16], &[1.0; 16], &mut [0.0; 16])?;
    let plan = *rt.planner().known(problem, Default::default()).context("the problem is known")?.1;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        // Fewer than the ring holds, drained in between: a full ring would be cheaper.
        best = best.min(stretch(|| rt.planner().report(&plan, Nanos(20))));
        rt.planner().drain();
    }
    Ok(best)
}

/// Nanoseconds to look at one candidate of a problem never seen, from its legality to its fitted time.
fn estimate(rt: &Runtime) -> Result<f64> {
    let unseen: Problem = "matmul:f32:77x66x55".parse()?;
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let stopwatch = Stopwatch::start();
        let decision = rt.explain(&unseen)?;
        best = best.min(stopwatch.elapsed().0 as f64 / decision.rivals.len().max(1) as f64);
    }
    Ok(best)
}
