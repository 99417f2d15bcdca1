//! The device a call is given to against the better one, size by size: on simulated machines and on the devices here.
//!
//! Sizes lie on and between those a calibration measures. `measured` problems were raced as a first call does; `calibrated` ones
//! were not, and are decided by a calibration alone; an `expression` is placed as a whole.

use crate::Printer;
use crate::turns::turns;
use anyhow::{Context, Result};
use serde_json::json;
use std::sync::Arc;
use trimtab::advanced::core::{Device, Nanos, Patience, Problem, Terms};
use trimtab::advanced::cpu::{Slice, SliceMut};
use trimtab::advanced::operands::{Data, Operands};
use trimtab::advanced::plan::calibration::{Calibration, Ladder, contested, measure};
use trimtab::advanced::plan::{Class, Planner, Settings, TermsId, TuneRequest};
use trimtab::advanced::tune::Rules;
use trimtab::advanced::wisdom::Wisdom;
use trimtab::{Axis, Builder, Expression, Runtime, Tensor};
use trimtab_testing::machine::{Machine, SimulatedDevice};

/// The largest sizes as powers of two: elements, and the side of a product.
const LARGEST: (u32, u32) = (26, 12);
const LARGEST_HERE: (u32, u32) = (22, 10);
/// Times each size is measured on each device here, in turns; the least counts.
const ROUNDS: u32 = 14;
/// Least time of a measurement: short calls are repeated.
const LEAST: Nanos = Nanos(300_000);
/// Time for tuning a problem on a device here.
const TUNE: Nanos = Nanos::from_millis(100);
/// Sides of the operands of expressions.
const SIDES: [usize; 5] = [16, 64, 256, 512, 1024];

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let mut worst = 0.0f64;
    for machine in Machine::all() {
        worst = worst.max(simulated(printer, &machine)?);
    }
    worst = worst.max(here(printer)?);
    printer.line(&json!({ "worst_vs_better": worst }));
    Ok(())
}

/// Problems of a class by growing size, four for each doubling of the side or of the elements.
fn sizes(class: Class, largest: (u32, u32)) -> Vec<Problem> {
    let powers = match class {
        Class::Matmul => 3..=largest.1,
        // By the side of the space, of 32 channels.
        Class::Conv => 2..=largest.1 - 2,
        _ => 6..=largest.0,
    };
    let grown = powers.flat_map(|power| [4, 5, 6, 7].map(|quarters| (quarters << power) / 4));
    let text = |size: u64| match class {
        Class::Unary => format!("elementwise.exp:f32:{size}"),
        Class::Elementwise => format!("elementwise.add:f32:{size}"),
        Class::Reduction => format!("reduce.sum:f32:{size}"),
        Class::Transpose => format!("transpose:f32:{}x16", size / 16),
        Class::Matmul => format!("matmul:f32:{size}x{size}x{size}"),
        Class::Conv => format!("conv:f32:1x32x{size}x{size},32x32x3x3:pad1"),
        Class::Pool => format!("pool.max:f32:1x{}x4x4:window3x3,stride2,pad1", size / 16),
        Class::Rows => format!("rows.softmax:f32:{}x16:axis1", size / 16),
        Class::Scan => format!("scan.sum:f32:{}x16:axis1", size / 16),
        Class::Sort => format!("sort:f32:{}x16:axis1", size / 16),
        Class::Fft => format!("fft.forward:complex64:{}x16", size / 16),
        Class::Index => format!("gather:f32:{0}x16:axis0,count{0},i32", size / 16),
    };
    grown.filter_map(|size| text(size).parse().ok()).collect()
}

/// Every size of every class on a simulated machine: raced as a call would be, and by a calibration alone.
fn simulated(printer: &Printer, machine: &Machine) -> Result<f64> {
    let planner = |patience| {
        let wisdom = Arc::new(Wisdom::in_memory());
        Planner::new(
            machine.devices(),
            wisdom,
            Settings { patience, ..Settings::default() },
            Terms::default(),
        )
    };
    let (raced, calibrated) = (planner(Patience::Measure), planner(Patience::Estimate));
    let devices = [&machine.host, &machine.gpu];
    let mut time = |device: usize, problem: &Problem| {
        whole(devices.get(device)?, problem).map(|ns| Nanos(ns.round() as u64))
    };
    let ladder = Ladder { quick: false, rounds: 3, classes: &Class::ALL };
    let times = measure(&machine.devices(), ladder, &mut time, &mut |_, _| ());
    calibrated.calibrate(Calibration::new(times.into_iter().map(Some).collect(), 0));
    let mut worst = 0.0f64;
    for problem in Class::ALL.into_iter().flat_map(|class| sizes(class, LARGEST)) {
        let times = [whole(&machine.host, &problem), whole(&machine.gpu, &problem)];
        let times = [times[0].context("no time")?, times[1].context("no time")?];
        for (how, planner) in [("measured", &raced), ("calibrated", &calibrated)] {
            let chosen = usize::from(planner.plan(&problem, TermsId::default())?.device);
            worst = worst.max(line(printer, machine.name, how, &problem, times, chosen));
        }
    }
    Ok(worst)
}

/// What a whole call takes on a simulated device.
fn whole(device: &SimulatedDevice, problem: &Problem) -> Option<f64> {
    device.time(problem).map(|ns| ns + device.transfer_overhead(problem).0 as f64)
}

/// The processor and the first GPU here, if there is one: each pinned and tuned, whole calls in turns; against what a runtime
/// that may use both decides.
fn here(printer: &Printer) -> Result<f64> {
    let new = || Builder::default().ignore_environment().wisdom_in_memory();
    let free = new().build()?;
    if free.devices().len() < 2 {
        eprintln!("nothing to choose between here: {}", free.unusable().join("; "));
        return Ok(0.0);
    }
    let estimating = new().patience(Patience::Estimate).build()?;
    let pinned = [new().device("cpu").build()?, new().device("gpu0").build()?];
    // Only what both have kernels for.
    let classes = contested(&free.devices()[..2]);
    let times = new()
        .build()?
        .measure_calibration(Ladder { quick: true, rounds: 3, classes: &classes }, &mut |_, _| ());
    let calibration = estimating.calibration_with(&times);
    estimating.commit_calibration(calibration).map_err(anyhow::Error::msg)?;
    let names: Vec<&str> = free.devices().iter().take(2).map(|device| device.facts().name.as_str()).collect();
    let pair = names.join(" + ");
    let mut worst = 0.0f64;
    for problem in classes.into_iter().flat_map(|class| sizes(class, LARGEST_HERE)) {
        let times = calls(&pinned, &problem)?;
        for (how, runtime) in [("measured", &free), ("calibrated", &estimating)] {
            let chosen = usize::from(runtime.plan(&problem)?.device);
            worst = worst.max(line(printer, &pair, how, &problem, times, chosen));
        }
    }
    for side in SIDES {
        worst = worst.max(expressions(printer, &pair, &free, &pinned, side)?);
    }
    Ok(worst)
}

/// Least times of a whole call with each of two runtimes, in turns.
fn calls(runtimes: &[Runtime; 2], problem: &Problem) -> Result<[f64; 2]> {
    let request = TuneRequest { rules: Rules::default(), ..TuneRequest::new(Patience::Measure, TUNE) };
    for runtime in runtimes {
        runtime.tune(problem, &request, &mut |_| ())?;
    }
    let mut operands = Operands::new(problem);
    let Operands { inputs, out: Data::F32(out) } = &mut operands else { anyhow::bail!("{problem}: not f32") };
    let inputs: Vec<Slice<'_>> = inputs.iter().map(Data::slice).collect();
    turns(ROUNDS, LEAST, |which| Ok(runtimes[which].execute_inputs(problem, &inputs, SliceMut::F32(out))?))
}

/// Some expressions with operands of that side, read at the end.
fn expressions(
    printer: &Printer,
    pair: &str,
    free: &Runtime,
    pinned: &[Runtime; 2],
    side: usize,
) -> Result<f64> {
    let x = Tensor::from_fn(&[side, side], |at| (at % 13) as f32 / 13.0)?;
    let bias = Tensor::from_fn(&[side], |at| (at % 7) as f32 / 7.0)?;
    type Build<'a> = &'a dyn Fn(&Runtime) -> Expression<f32>;
    let chain: Build<'_> = &|rt| (((rt.lazy(&x) * 1.5 + 0.25).relu() * 0.75 - 0.5).abs()).tanh() * 2.0;
    let layer: Build<'_> = &|rt| (rt.lazy(&x).matmul(&x) + &bias).relu();
    let norm: Build<'_> = &|rt| (rt.lazy(&x) - &bias).exp().sum(Axis::All);
    let mut worst = 0.0f64;
    for (name, build) in [("chain", chain), ("layer", layer), ("norm", norm)] {
        let times = turns::<2>(ROUNDS, LEAST, |which| {
            build(&pinned[which]).to_vec()?;
            Ok(())
        })?;
        build(free).to_vec()?;
        let explanation = build(free).explain()?;
        let used: Vec<&str> = explanation.launches.iter().map(|launch| launch.device.as_str()).collect();
        let all = |device: &str| used.iter().all(|used| *used == device);
        // Spread over both, only the clock can say what it takes.
        let ns = match (all("cpu"), all("gpu0")) {
            (true, _) => times[0],
            (_, true) => times[1],
            _ => turns::<1>(ROUNDS, LEAST, |_| {
                build(free).to_vec()?;
                Ok(())
            })?[0],
        };
        let vs_better = ns / times[0].min(times[1]);
        worst = worst.max(vs_better);
        printer.line(&json!({
            "pair": pair, "how": "expression", "operation": name, "size": side * side,
            "cpu_ns": times[0], "gpu_ns": times[1], "chosen": used.join(","), "vs_better": vs_better,
        }));
    }
    Ok(worst)
}

fn line(printer: &Printer, pair: &str, how: &str, problem: &Problem, times: [f64; 2], chosen: usize) -> f64 {
    let vs_better = times[chosen.min(1)] / times[0].min(times[1]);
    printer.line(&json!({
        "pair": pair,
        "how": how,
        "operation": problem.operation().name(),
        "size": Class::of(problem).map(|(_, size)| size),
        "problem": problem.to_string(),
        "cpu_ns": times[0],
        "gpu_ns": times[1],
        "chosen": (if chosen == 0 { "cpu" } else { "gpu" }),
        "vs_better": vs_better,
    }));
    vs_better
}
