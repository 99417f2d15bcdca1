//! `trimtab selftest`: every kernel of every device checked against the reference and timed, as a result to hand in.

use crate::args::SelfTest;
use crate::failure::FAILED;
use crate::output::Speed;
use crate::progress::{Bar, HowLong};
use crate::session::Session;
use crate::table::Table;
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab::advanced::core::{Device, FailureKind, KernelId, Nanos, Problem};
use trimtab::advanced::tune::Stopwatch;

/// What is checked, at every setting: small, and no multiple of anything.
const CHECKED: [&str; 22] = [
    "matmul:f32:37x41x23",
    "matmul:f32:1x70x45",
    "matmul:f32:20x24x300",
    "matmul:f32:37x45x19:t,t",
    "matmul:f64:33x20x17",
    "matmul:f16:37x41x23",
    "matmul:bf16:37x41x23",
    "elementwise.gelu:f32:1027",
    "elementwise.div:f32:31x33,33",
    "elementwise.exp:f64:333",
    "elementwise.max:f16:1027",
    "reduce.sum:f32:3001",
    "reduce.mean:f64:7x45x13:axis1",
    "reduce.min:f32:9x130:axis1",
    "transpose:f32:33x65",
    "transpose:u8:3x20x40:0.2.1",
    "fused.relu(add(mul(a,#0),b)):f32:31x33:all,columns",
    "fused.relu(add(@,c)):f32:37x45x19:n,n,columns",
    "fused.exp(a):f32:21x47:all:sum.axis1",
    "rows.softmax:f32:9x130",
    "scan.sum:f32:1027",
    "sort:f32:7x45",
];

/// What is timed, at the first setting of each kernel.
const TIMED: [&str; 10] = [
    "matmul:f32:1024x1024x1024",
    "matmul:f16:1024x1024x1024",
    "matmul:f32:1x2048x2048",
    "matmul:f32:64x64x8192",
    "elementwise.add:f32:4194304",
    "elementwise.gelu:f32:4194304",
    "reduce.sum:f32:4194304",
    "reduce.sum:f32:1024x1024:axis1",
    "transpose:f32:2048x2048",
    "fused.relu(add(@,c)):f32:512x512x512:n,n,columns",
];

/// The longest one check may take, and one timed run.
const TIMEOUT: Nanos = Nanos(10_000_000_000);
/// Launches of a timed run.
const LAUNCHES: u32 = 5;

/// What came of one device.
#[derive(Default)]
struct Tested {
    right: u32,
    /// Kernel, problem, setting and what was wrong.
    wrong: Vec<Value>,
    timed: Vec<Value>,
    /// Checks and times there was no time for, or that could not be tried.
    left: u32,
}

pub fn run(session: &Session, args: &SelfTest) -> Result<ExitCode> {
    let mut all_right = true;
    for (_, device) in session.runtime.planned() {
        let outcome = test(device.as_ref(), args.budget);
        all_right &= outcome.wrong.is_empty();
        session.out.either(&view(device.as_ref(), &outcome), || show(session, device.as_ref(), &outcome))?;
    }
    for reason in session.runtime.unusable() {
        let object = json!({ "usable": false, "reason": reason });
        session.out.either(&object, || session.out.apart(reason))?;
    }
    Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn test(device: &dyn Device, budget: Nanos) -> Tested {
    let (mut outcome, watch) = (Tested::default(), Stopwatch::start());
    // Half of the time is for checks.
    let late = |share: u64| watch.elapsed() > Nanos(budget.0 / 2 * share);
    let (checked, timed): (Vec<_>, Vec<_>) =
        (pairs(device, &CHECKED).collect(), pairs(device, &TIMED).collect());
    let what = format!("checking and timing the kernels of {}", device.facts().name);
    let bar =
        Bar::announced(checked.len() + timed.len(), &what, HowLong::AtMost(budget), "nothing is remembered");
    let tell = |problem: &Problem, kernel: KernelId| {
        bar.next();
        bar.say(|| format!("{} on {problem}", name(device, kernel)));
    };
    for (problem, kernel) in checked {
        tell(&problem, kernel);
        let space = device.space(kernel, &problem);
        for point in space.points() {
            // However little time there is, something is checked.
            let any = outcome.right > 0 || !outcome.wrong.is_empty();
            if any && late(1) {
                outcome.left += 1;
                continue;
            }
            match device.verify(kernel, &problem, point, TIMEOUT) {
                Ok(()) => outcome.right += 1,
                Err(failure) if failure.kind == FailureKind::Untried => outcome.left += 1,
                Err(failure) => outcome.wrong.push(json!({
                    "kernel": name(device, kernel),
                    "problem": problem.to_string(),
                    "point": space.name(point),
                    "failure": failure.to_string(),
                })),
            }
        }
    }
    for (problem, kernel) in timed {
        tell(&problem, kernel);
        let space = device.space(kernel, &problem);
        let Some(point) = space.points().first().filter(|_| !late(2)) else {
            outcome.left += 1;
            continue;
        };
        let what = json!({
            "kernel": name(device, kernel),
            "problem": problem.to_string(),
            "point": space.name(point),
        });
        let with = |key: &str, value: Value| {
            let mut what = what.clone();
            what[key] = value;
            what
        };
        // Operands that take too long to make are no failure of the kernel.
        let Ok(mut bench) = device.bench(&problem, Nanos(budget.0 / 4)) else {
            outcome.left += 1;
            continue;
        };
        match bench.run(kernel, point, LAUNCHES, TIMEOUT) {
            Ok(sample) => {
                let each = sample.elapsed.0 as f64 / f64::from(sample.iterations.max(1));
                let mut timed = with("ns", json!(each));
                timed["compiled"] = json!(device.compiled(kernel, &problem, point));
                outcome.timed.push(timed);
            }
            // Slow is not wrong.
            Err(failure) if matches!(failure.kind, FailureKind::Untried | FailureKind::TimedOut) => {
                outcome.left += 1;
            }
            Err(failure) => outcome.wrong.push(with("failure", json!(failure.to_string()))),
        }
    }
    outcome
}

/// Problems, each with every kernel that takes it.
fn pairs<'a>(
    device: &'a dyn Device,
    texts: &'static [&'static str],
) -> impl Iterator<Item = (Problem, KernelId)> + 'a {
    let problems = texts.iter().filter_map(|text| text.parse::<Problem>().ok());
    problems.flat_map(move |problem| {
        let all = (0..device.kernels().len() as u32).map(KernelId);
        all.filter(move |kernel| device.declines(*kernel, &problem).is_none())
            .map(move |kernel| (problem, kernel))
    })
}

fn name(device: &dyn Device, kernel: KernelId) -> String {
    device.kernels().get(kernel.0 as usize).map(|info| info.name.clone()).unwrap_or_default()
}

fn view(device: &dyn Device, outcome: &Tested) -> Value {
    let facts = device.facts();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "device": facts.id,
        "name": facts.name,
        "fingerprint": facts.fingerprint.0,
        "right": outcome.right,
        "wrong": outcome.wrong,
        "timed": outcome.timed,
        "left": outcome.left,
    })
}

fn show(session: &Session, device: &dyn Device, outcome: &Tested) -> Result<()> {
    let (out, facts) = (&session.out, device.facts());
    let Tested { right, wrong, timed, left } = outcome;
    out.line(format!("{}: {}", facts.id, facts.name))?;
    out.line(format!(
        "  {right} checks right, {} wrong; {} timed; {left} not done: no time, or they could not be tried",
        wrong.len(),
        timed.len()
    ))?;
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_string();
    for value in wrong {
        let [kernel, problem, point, failure] =
            ["kernel", "problem", "point", "failure"].map(|key| text(value, key));
        out.line(format!("  WRONG: {kernel} at {point} on {problem}: {failure}"))?;
    }
    let mut table = Table::new(&["problem", "kernel", "point", ">time", "speed"]);
    for value in timed {
        let ns = value["ns"].as_f64().unwrap_or(0.0);
        let speed = text(value, "problem").parse().ok().and_then(|problem: Problem| Speed::of(&problem, ns));
        table.row(vec![
            text(value, "problem"),
            text(value, "kernel"),
            text(value, "point"),
            crate::output::time(ns),
            speed.map(|speed| speed.to_string()).unwrap_or_default(),
        ]);
    }
    out.table_if_any(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_can_be_read() {
        for text in CHECKED.iter().chain(&TIMED) {
            assert!(text.parse::<Problem>().is_ok(), "{text}");
        }
    }
}
