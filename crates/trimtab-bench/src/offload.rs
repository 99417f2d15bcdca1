//! The device a call is given to against the better one, size by size: on simulated machines and on the devices here.

use crate::Printer;
use anyhow::{Context, Result};
use serde_json::json;
use std::sync::Arc;
use trimtab::core::{Device, Problem, Terms};
use trimtab::plan::calibration::Ladder;
use trimtab::plan::{Class, Planner, Settings, TermsId};
use trimtab::wisdom::Wisdom;
use trimtab::{Builder, Runtime};
use trimtab_replay::machine::{Machine, SimulatedDevice};

/// Times each size is measured on the devices here.
const ROUNDS: u32 = 5;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let mut worst = 0.0f64;
    for machine in Machine::all() {
        worst = worst.max(simulated(printer, &machine)?);
    }
    worst = worst.max(here(printer)?);
    printer.line(&json!({ "worst_vs_better": worst }));
    Ok(())
}

/// Every size of every class on a simulated machine, each planned as a call would be.
fn simulated(printer: &Printer, machine: &Machine) -> Result<f64> {
    let wisdom = Arc::new(Wisdom::in_memory());
    let planner = Planner::new(machine.devices(), wisdom, Settings::default(), Terms::default());
    let mut worst = 0.0f64;
    for class in Class::ALL {
        for problem in class.ladder(false) {
            let chosen = planner.plan(&problem, TermsId::default())?.device;
            let times = [whole(&machine.host, &problem), whole(&machine.gpu, &problem)];
            let times = [times[0].context("no time")?, times[1].context("no time")?];
            worst = worst.max(line(printer, machine.name, &problem, times, usize::from(chosen)));
        }
    }
    Ok(worst)
}

/// What a whole call takes on a simulated device.
fn whole(device: &SimulatedDevice, problem: &Problem) -> Option<f64> {
    device.time(problem).map(|ns| ns + device.handover(problem).0 as f64)
}

/// The processor and the first GPU here, if there is one: whole calls in turns, then the plan of a call.
fn here(printer: &Printer) -> Result<f64> {
    let runtime = Builder::default().wisdom_in_memory().build()?;
    if runtime.devices().len() < 2 {
        eprintln!("nothing to choose between here: {}", runtime.unusable().join("; "));
        return Ok(0.0);
    }
    let times = runtime.measure_calibration(Ladder { quick: true, rounds: ROUNDS }, &mut |_, _| ());
    let pair = pair_name(&runtime);
    let mut worst = 0.0f64;
    for class in Class::ALL {
        for problem in class.ladder(true) {
            let seen = |at: usize| {
                let (_, size) = Class::calibrated(&problem)?;
                let step = times.get(at)?.steps.get(&class)?.iter().find(|step| step.size == size)?;
                step.time()
            };
            let (Some(cpu), Some(gpu)) = (seen(0), seen(1)) else { continue };
            let chosen = runtime.plan(&problem)?.device;
            worst = worst.max(line(printer, &pair, &problem, [cpu, gpu], usize::from(chosen)));
        }
    }
    Ok(worst)
}

fn pair_name(runtime: &Runtime) -> String {
    let names: Vec<&str> =
        runtime.devices().iter().take(2).map(|device| device.facts().name.as_str()).collect();
    names.join(" + ")
}

fn line(printer: &Printer, pair: &str, problem: &Problem, times: [f64; 2], chosen: usize) -> f64 {
    let vs_better = times[chosen.min(1)] / times[0].min(times[1]);
    printer.line(&json!({
        "pair": pair,
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
