//! A process that multiplies two matrices on the GPU and ends, with wisdom present: ours against one written by hand.

use crate::{Printer, by_hand};
use anyhow::{Result, bail};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use trimtab::TuneRequest;
use trimtab::advanced::tune::{Stopwatch, median};
use trimtab::{Nanos, Patience};
use trimtab::{Runtime, Tensor};

/// Starts of each, interleaved.
const ROUNDS: usize = 12;
/// Time to tune the product before.
const TUNE_BUDGET: Nanos = Nanos::from_millis(30_000);

/// The words that make this program the ones that are timed.
pub(crate) const OURS: &str = "start-ours";
pub(crate) const BY_HAND: &str = "start-by-hand";

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let dir = tempfile::tempdir()?;
    {
        let rt = Runtime::builder().device("gpu0").wisdom_dir(dir.path()).build()?;
        let size = by_hand::START_SIZE;
        let problem = format!("matmul:f32:{size}x{size}x{size}").parse()?;
        let budget = TUNE_BUDGET;
        let request = TuneRequest::new(Patience::Measure, budget);
        rt.tune(&problem, &request, &mut |_| ())?;
    }
    let (mut ours, mut by_hand) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let (a, b) = (child(OURS, dir.path())?, child(BY_HAND, dir.path())?);
        // The first pair fills the driver's own cache on disk.
        if round > 0 {
            ours.push(a);
            by_hand.push(b);
        }
    }
    let (ours, by_hand) = (median(&ours).unwrap_or(f64::NAN), median(&by_hand).unwrap_or(f64::NAN));
    printer
        .line(&json!({ "ours_ms": ours / 1e6, "by_hand_ms": by_hand / 1e6, "start_ratio": ours / by_hand }));
    Ok(())
}

fn child(what: &str, wisdom: &Path) -> Result<f64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(what).arg(wisdom);
    let stopwatch = Stopwatch::start();
    let status = command.status()?;
    let elapsed = stopwatch.elapsed();
    if !status.success() {
        bail!("{what} failed");
    }
    Ok(elapsed.0 as f64)
}

/// The program with trimtab: from nothing to the checked product of two matrices of ones.
pub(crate) fn start(wisdom: &Path) -> Result<()> {
    let rt = Runtime::builder().device("gpu0").wisdom_dir(wisdom).build()?;
    let size = by_hand::START_SIZE;
    let ones = Tensor::full(&[size, size], 1.0f32)?;
    let product = rt.matmul(&ones, &ones)?;
    if product.get(&[0, 0]) != Some(size as f32) {
        bail!("the product is wrong");
    }
    Ok(())
}
