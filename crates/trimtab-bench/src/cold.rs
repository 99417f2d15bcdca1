//! The first call of a new problem on a machine without wisdom: how long the caller waits beyond the work itself.

use crate::Printer;
use anyhow::Result;
use serde_json::json;
use trimtab::Problem;
use trimtab::advanced::tune::Stopwatch;
use trimtab::{Runtime, Tensor};

const SIZES: [usize; 7] = [4, 32, 100, 128, 256, 512, 1024];

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let stopwatch = Stopwatch::start();
    let rt = Runtime::builder().device("cpu").ignore_environment().wisdom_in_memory().build()?;
    let build_ms = stopwatch.elapsed().0 as f64 / 1e6;
    let mut worst = 0.0f64;
    for (index, size) in SIZES.into_iter().enumerate() {
        let a = Tensor::from_fn(&[size, size], |i| (i % 5) as f32)?;
        let stopwatch = Stopwatch::start();
        rt.matmul(&a, &a)?;
        let first_ms = stopwatch.elapsed().0 as f64 / 1e6;
        let stopwatch = Stopwatch::start();
        rt.matmul(&a, &a)?;
        let warm_ms = stopwatch.elapsed().0 as f64 / 1e6;
        let problem: Problem = format!("matmul:f32:{size}x{size}x{size}").parse()?;
        let decision = rt.explain(&problem)?;
        let foreground = first_ms - warm_ms;
        worst = worst.max(foreground);
        printer.line(&json!({
            "problem": problem.to_string(), "first_ms": first_ms, "warm_ms": warm_ms, "foreground_ms": foreground,
            "first_in_process": index == 0, "reason": decision.reason.name(), "complete": decision.complete,
        }));
    }
    printer.line(&json!({ "build_ms": build_ms, "worst_foreground_ms": worst }));
    Ok(())
}
