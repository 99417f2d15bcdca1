//! What a search costs by itself: deciding the next point of a space of 10,000, and the memory of a space of a million.

use crate::{Printer, allocations};
use anyhow::Result;
use serde_json::json;
use std::sync::Arc;
use trimtab::advanced::core::{Point, Space};
use trimtab::advanced::tune::Stopwatch;
use trimtab::advanced::tune::search::{STRATEGIES, SearchSpace, Seen, strategy};

/// Points of the spaces; both have [`AXES`] axes.
const LARGE: u32 = 10_000;
const HUGE: u32 = 1_000_000;
const AXES: u32 = 8;
/// Questions of one search, and searches.
const EVALS: usize = 200;
const SEEDS: u64 = 5;

pub(crate) fn run(printer: &Printer) -> Result<()> {
    let space = Arc::new(SearchSpace::new(&space(LARGE)));
    for name in STRATEGIES {
        let mut nanos = Vec::new();
        for seed in 0..SEEDS {
            let Some(mut strategy) = strategy(name, &space, seed, &[]) else { continue };
            for _ in 0..EVALS {
                let watch = Stopwatch::start();
                let asked = strategy.ask();
                nanos.push(watch.elapsed().0);
                let Some(at) = asked else { break };
                strategy.tell(at, seen(&space, at));
            }
        }
        nanos.sort_unstable();
        let at = |share: usize| nanos.get(nanos.len() * share / 100).map_or(0.0, |ns| *ns as f64 / 1e6);
        let mean = nanos.iter().sum::<u64>() as f64 / nanos.len().max(1) as f64 / 1e6;
        printer.line(&json!({
            "strategy": name, "points": space.len(), "evals": EVALS,
            "ask_ms_mean": mean, "ask_ms_median": at(50), "ask_ms_p99": at(99),
        }));
    }
    let points = self::space(HUGE);
    let before = allocations::in_use();
    allocations::most_in_use();
    let space = Arc::new(SearchSpace::new(&points));
    let index_mb = (allocations::in_use() - before) as f64 / 1e6;
    if let Some(mut strategy) = strategy("auto", &space, 0, &[]) {
        for _ in 0..EVALS {
            let Some(at) = strategy.ask() else { break };
            strategy.tell(at, seen(&space, at));
        }
    }
    let most_mb = (allocations::most_in_use() - before) as f64 / 1e6;
    let points_mb = std::mem::size_of_val(points.points()) as f64 / 1e6;
    printer.line(&json!({
        "points": space.len(), "evals": EVALS,
        "index_mb": index_mb, "search_mb": most_mb, "with_points_mb": most_mb + points_mb,
    }));
    Ok(())
}

/// That many points: the axes count in base six, seven, …
fn space(points: u32) -> Space {
    let names = (0..AXES).map(|axis| format!("axis{axis}").into()).collect();
    let point = |at: u32| {
        let mut rest = at;
        let digits: Vec<u32> = (0..AXES)
            .map(|axis| {
                let digit = rest % (axis + 6);
                rest /= axis + 6;
                1 << digit
            })
            .collect();
        Point::new(&digits)
    };
    Space::new(names, (0..points).map(point).collect())
}

/// A made-up time: every axis has a best value, and some points fail.
fn seen(space: &SearchSpace, at: usize) -> Seen {
    let digits = space.digits(at);
    let far: u32 =
        digits.iter().enumerate().map(|(axis, digit)| u32::from(*digit).abs_diff(axis as u32 / 2)).sum();
    if at % 17 == 3 { Seen::Failed } else { Seen::Time(1.0 + 0.1 * f64::from(far * far)) }
}
