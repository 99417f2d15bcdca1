//! The trap of four closures: how soon a choice at the default budget finds the fastest, whatever they take, and what finding it costs.

use crate::Printer;
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use trimtab::Runtime;
use trimtab::advanced::core::{Nanos, RandomNumbers};
use trimtab::advanced::tune::Stopwatch;

/// Sets of closures, and which ones.
const SETS: usize = 24;
const SEED: u64 = 1;
/// Times are drawn evenly over the doublings between these, in microseconds.
const SHORTEST_US: f64 = 1.0;
const LONGEST_US: f64 = 3_000_000.0;
/// Calls made, and calls that are not judged.
const CALLS: usize = 120;
const FIRST: usize = 20;
/// Who takes so many times as long as the fastest, at most, is as good.
const ALIKE: f64 = 1.05;

/// What came of one set.
struct Trapped {
    times_us: [f64; 4],
    /// The share of judged calls that one of the fastest answered.
    fastest: f64,
    /// What all calls took above the fastest, in runs of the slowest, and in milliseconds.
    regret: f64,
    regret_ms: f64,
}

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let mut numbers = RandomNumbers::new(SEED);
    let mut all = Vec::new();
    for nth in 0..printer.options.shapes.unwrap_or(SETS) {
        let doublings = (LONGEST_US / SHORTEST_US).log2();
        let times_us = [0; 4].map(|_| SHORTEST_US * (doublings * numbers.unit()).exp2());
        eprintln!("set {}: {times_us:.0?} us", nth + 1);
        let trapped = trap(times_us)?;
        printer.line(&line(&trapped));
        all.push(trapped);
    }
    let right: Vec<f64> = all.iter().map(|one| one.fastest).collect();
    let least = |values: &[f64]| values.iter().copied().reduce(f64::min);
    let most = |of: fn(&Trapped) -> f64, from_us: f64| {
        let long = all.iter().filter(|one| one.times_us.iter().any(|us| *us >= from_us));
        long.map(of).reduce(f64::max)
    };
    printer.line(&json!({
        "sets": all.len(), "fastest_mean": right.iter().sum::<f64>() / right.len().max(1) as f64, "fastest_least": least(&right),
        "regret_most": most(|one| one.regret, 0.0), "regret_most_where_one_takes_100_ms": most(|one| one.regret, 100_000.0),
        "regret_ms_most_below_100_ms": all.iter().filter(|one| one.times_us.iter().all(|us| *us < 100_000.0)).map(|one| one.regret_ms).reduce(f64::max),
    }));
    Ok(())
}

fn line(one: &Trapped) -> Value {
    json!({
        "times_us": one.times_us.map(f64::round), "fastest": one.fastest, "regret_in_slowest": one.regret, "regret_ms": one.regret_ms,
    })
}

/// Calls four closures that take so long at the default budget, nothing known before.
fn trap(times_us: [f64; 4]) -> Result<Trapped> {
    let rt = Runtime::builder().device("cpu").wisdom_in_memory().build()?;
    // Whoever was called last answered.
    let last = Arc::new(AtomicUsize::new(0));
    let mut choice = rt.choose::<u64, u64>("trap");
    for (option, us) in times_us.into_iter().enumerate() {
        let last = Arc::clone(&last);
        choice = choice.option(&format!("option {option}"), move |x| {
            last.store(option, Ordering::Relaxed);
            take(us);
            x + 1
        });
    }
    let choice = choice.build()?;
    let fastest = times_us.iter().copied().fold(f64::INFINITY, f64::min);
    let (mut right, mut took) = (0usize, 0.0);
    for call in 0..CALLS {
        let watch = Stopwatch::start();
        choice.run(&[8], call as u64)?;
        took += watch.elapsed().0 as f64 / 1e3;
        let answered = times_us[last.load(Ordering::Relaxed)];
        right += usize::from(call >= FIRST && answered <= ALIKE * fastest);
    }
    let regret_us = (took - CALLS as f64 * fastest).max(0.0);
    let slowest = times_us.iter().copied().fold(0.0, f64::max);
    Ok(Trapped {
        times_us,
        fastest: right as f64 / (CALLS - FIRST) as f64,
        regret: regret_us / slowest,
        regret_ms: regret_us / 1e3,
    })
}

/// Long ones leave the processor to others, short ones compute: sleeping takes 50 us longer than asked.
fn take(us: f64) {
    if us >= 1_000.0 {
        return std::thread::sleep(Duration::from_nanos((us * 1e3) as u64));
    }
    let watch = Stopwatch::start();
    while watch.elapsed() < Nanos((us * 1e3) as u64) {
        std::hint::spin_loop();
    }
}
