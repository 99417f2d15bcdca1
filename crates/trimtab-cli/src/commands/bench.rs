//! `trimtab bench`: every rival of a problem in one interleaved run. Chooses and remembers nothing.

use super::KernelView;
use crate::args::Bench;
use crate::failure::FAILED;
use crate::output::{Speed, Table, spread, time, times};
use crate::progress::Bar;
use crate::session::Session;
use anyhow::Result;
use serde::Serialize;
use std::process::ExitCode;
use trimtab::Comparison;
use trimtab::core::{Nanos, Problem};
use trimtab::tune::{Budget, Rules};

#[derive(Serialize)]
struct BenchView {
    problem: String,
    rivals: Vec<RowView>,
    out: Vec<OutView>,
    chosen: Option<String>,
    /// Best time over the chosen one's: 1 is as good as it gets.
    chosen_vs_best: Option<f64>,
}

#[derive(Serialize)]
struct RowView {
    #[serde(flatten)]
    kernel: KernelView,
    min_ns: Option<f64>,
    median_ns: Option<f64>,
    spread_log2: Option<f64>,
    samples: usize,
    interfered: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    gflops: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gb_per_s: Option<f64>,
    /// Its time over the best one's.
    vs_best: Option<f64>,
    chosen: bool,
}

#[derive(Serialize)]
struct OutView {
    kernel: String,
    reason: String,
}

pub fn run(session: &Session, problems: &[Problem], args: &Bench) -> Result<ExitCode> {
    let rules = Rules { min_samples: args.rounds, max_samples: args.rounds, ..Rules::thorough() };
    let budget = Budget::time(args.budget);
    let bar = Bar::new(problems.len());
    let mut nothing = false;
    for (done, problem) in problems.iter().enumerate() {
        let share = Nanos(budget.left().0 / (problems.len() - done) as u64);
        let mut show = |progress: &trimtab::tune::Progress| bar.show(problem, progress);
        let comparison = session.runtime.compare(problem, &rules, share, args.points, &mut show)?;
        nothing |= comparison.rows.is_empty();
        bar.around(|| match session.out.is_json() {
            true => session.out.object(&view(&comparison)),
            false => show_table(session, &comparison, done > 0),
        })?;
        bar.next();
    }
    Ok(ExitCode::from(if nothing { FAILED } else { 0 }))
}

fn best(comparison: &Comparison) -> Option<f64> {
    comparison.rows.first().and_then(|(_, raced)| raced.min()).filter(|&ns| ns > 0.0)
}

fn view(comparison: &Comparison) -> BenchView {
    let best = best(comparison);
    let row = |(index, (rival, raced)): (usize, &(trimtab::plan::Rival, trimtab::tune::Raced))| {
        let min_ns = raced.min();
        let speed = min_ns.and_then(|ns| Speed::of(&comparison.problem, ns)).map(Speed::entry);
        let in_unit = |wanted: &str| speed.filter(|(unit, _)| *unit == wanted).map(|(_, value)| value);
        RowView {
            kernel: KernelView::from(rival),
            min_ns,
            median_ns: raced.median(),
            spread_log2: raced.spread(),
            samples: raced.samples.len(),
            interfered: raced.interfered,
            gflops: in_unit("gflops"),
            gb_per_s: in_unit("gb_per_s"),
            vs_best: min_ns.zip(best).map(|(ns, best)| ns / best),
            chosen: comparison.chosen == Some(index),
        }
    };
    let rivals: Vec<RowView> = comparison.rows.iter().enumerate().map(row).collect();
    let chosen = rivals.iter().find(|row| row.chosen);
    BenchView {
        problem: comparison.problem.to_string(),
        chosen: chosen.map(|row| row.kernel.kernel.clone()),
        chosen_vs_best: chosen.and_then(|row| row.vs_best).map(|ratio| 1.0 / ratio),
        rivals,
        out: comparison
            .out
            .iter()
            .map(|(kernel, reason)| OutView { kernel: kernel.clone(), reason: reason.clone() })
            .collect(),
    }
}

fn show_table(session: &Session, comparison: &Comparison, gap: bool) -> Result<()> {
    let out = &session.out;
    if gap {
        out.line("")?;
    }
    out.line(comparison.problem.to_string())?;
    let best = best(comparison);
    let mut table = Table::new(&["rival", "point", ">min", ">median", ">spread", ">speed", ">vs best", ">n"]);
    for (index, (rival, raced)) in comparison.rows.iter().enumerate() {
        let min = raced.min();
        let speed = min.and_then(|ns| Speed::of(&comparison.problem, ns));
        table.marked_row(
            comparison.chosen == Some(index),
            vec![
                rival.name.to_string(),
                rival.point_name.clone(),
                min.map(time).unwrap_or_default(),
                raced.median().map(time).unwrap_or_default(),
                raced.spread().map(spread).unwrap_or_default(),
                speed.map(|speed| speed.to_string()).unwrap_or_default(),
                min.zip(best).map(|(ns, best)| times(ns / best)).unwrap_or_default(),
                raced.samples.len().to_string(),
            ],
        );
    }
    if !table.is_empty() {
        out.table(&table)?;
    }
    if !comparison.out.is_empty() {
        let mut table = Table::new(&["not measured", "because"]);
        for (kernel, reason) in &comparison.out {
            table.row(vec![kernel.clone(), reason.clone()]);
        }
        out.line("")?;
        out.table(&table)?;
    }
    let chosen = comparison.chosen.and_then(|index| comparison.rows.get(index));
    let line = match chosen.and_then(|(_, raced)| raced.min()).zip(best) {
        Some((ns, best)) => {
            format!("▶ is the plan in force: {} of the best one's speed", crate::output::percent(best / ns))
        }
        None => "the plan in force was not measured".to_string(),
    };
    out.line("")?;
    out.line(line)
}
