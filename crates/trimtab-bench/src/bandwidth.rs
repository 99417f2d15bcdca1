//! Add and sum of 64 Mi f32 against this machine's copy bandwidth, in bytes moved a second.

use crate::Printer;
use anyhow::Result;
use serde_json::json;
use trimtab::Runtime;
use trimtab::TuneRequest;
use trimtab::advanced::cpu::Pool;
use trimtab::advanced::tune::{Rules, Stopwatch};
use trimtab::{Nanos, Patience, Problem};

/// Elements of each operand.
const LEN: usize = 64 << 20;
/// Interleaved rounds; the minimum counts.
const ROUNDS: u32 = 12;
/// Time for tuning one of the two problems.
const TUNE_BUDGET: Nanos = Nanos::from_millis(40_000);

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let rt = Runtime::builder().device("cpu").wisdom_in_memory().no_blas().build()?;
    let add: Problem = format!("elementwise.add:f32:{LEN}").parse()?;
    let sum: Problem = format!("reduce.sum:f32:{LEN}").parse()?;
    let request = TuneRequest { rules: Rules::default(), ..TuneRequest::new(Patience::Measure, TUNE_BUDGET) };
    for problem in [&add, &sum] {
        rt.tune(problem, &request, &mut |_| ())?;
    }
    let (a, b, mut out) = (vec![1.0f32; LEN], vec![2.0f32; LEN], vec![0.5f32; LEN]);
    let mut total = [0.0f32];
    let threads = rt.cpu().pool().threads();
    let pool = Pool::new(threads);
    let mut best = [Nanos::MAX; 4];
    for _ in 0..ROUNDS {
        let mut time = |place: usize, run: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let stopwatch = Stopwatch::start();
            run()?;
            best[place] = best[place].min(stopwatch.elapsed());
            Ok(())
        };
        time(0, &mut || {
            out.copy_from_slice(&a);
            Ok(())
        })?;
        time(1, &mut || {
            copy_on(&pool, threads, &a, &mut out);
            Ok(())
        })?;
        time(2, &mut || Ok(rt.execute(&add, &a, &b, &mut out)?))?;
        time(3, &mut || Ok(rt.execute(&sum, &a, &[], &mut total)?))?;
    }
    let rate = |arrays: f64, time: Nanos| arrays * 4.0 * LEN as f64 / time.as_secs_f64() / 1e9;
    // The machine's copy bandwidth is the better of one thread and all.
    let copy = rate(2.0, best[0]).max(rate(2.0, best[1]));
    let (add_rate, sum_rate) = (rate(3.0, best[2]), rate(1.0, best[3]));
    let chosen = |problem: &Problem| -> Result<String> {
        let decision = rt.explain(problem)?;
        Ok(decision.winner().map(|rival| format!("{} {}", rival.name, rival.point_name)).unwrap_or_default())
    };
    printer.line(&json!({
        "copy_gb_s": copy, "add_gb_s": add_rate, "sum_gb_s": sum_rate,
        "add_vs_copy": add_rate / copy, "sum_vs_copy": sum_rate / copy,
        "add_chosen": chosen(&add)?, "sum_chosen": chosen(&sum)?,
    }));
    Ok(())
}

/// A copy by all threads, each its part.
fn copy_on(pool: &Pool, threads: u32, from: &[f32], to: &mut [f32]) {
    let part = from.len().div_ceil(threads as usize);
    let parts: Vec<std::sync::Mutex<(&[f32], &mut [f32])>> =
        from.chunks(part).zip(to.chunks_mut(part)).map(std::sync::Mutex::new).collect();
    pool.run(threads, parts.len(), &|index| {
        if let Ok(mut part) = parts[index].lock() {
            let (from, to) = &mut *part;
            to.copy_from_slice(from);
        }
    });
}
