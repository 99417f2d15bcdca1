//! `trimtab bench`: every rival of a problem in one interleaved run. Chooses and remembers nothing.

use super::{add_speed, kernel_view};
use crate::args::Bench;
use crate::failure::FAILED;
use crate::output::{Speed, Table, spread, time, times};
use crate::progress::Bar;
use crate::session::Session;
use anyhow::Result;
use serde_json::{Value, json};
use std::process::ExitCode;
use trimtab::Comparison;
use trimtab::core::{Nanos, Problem};
use trimtab::plan::Rival;
use trimtab::tune::{Budget, Raced, Rules};

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

fn view(comparison: &Comparison) -> Value {
    let best = best(comparison);
    let over = |raced: &Raced| raced.min().zip(best).map(|(ns, best)| ns / best);
    let row = |(index, (rival, raced)): (usize, &(Rival, Raced))| {
        let more = json!({
            "min_ns": raced.min(),
            "median_ns": raced.median(),
            "spread_log2": raced.spread(),
            "samples": raced.samples.len(),
            "interfered": raced.interfered,
            "vs_best": over(raced),
            "chosen": comparison.chosen == Some(index),
        });
        let mut view = kernel_view(rival, more);
        add_speed(&mut view, raced.min().and_then(|ns| Speed::of(&comparison.problem, ns)));
        view
    };
    let chosen = comparison.chosen.and_then(|index| comparison.rows.get(index));
    let out = comparison.out.iter().map(|(kernel, reason)| json!({ "kernel": kernel, "reason": reason }));
    json!({
        "problem": comparison.problem.to_string(),
        "rivals": comparison.rows.iter().enumerate().map(row).collect::<Vec<_>>(),
        "out": out.collect::<Vec<_>>(),
        "chosen": chosen.map(|(rival, _)| rival.name.to_string()),
        // Best time over the chosen one's: 1 is as good as it gets.
        "chosen_vs_best": chosen.and_then(|(_, raced)| over(raced)).map(|ratio| 1.0 / ratio),
    })
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
        let table = Table::of(&comparison.out)
            .column("not measured", |(kernel, _)| kernel.clone())
            .column("because", |(_, reason)| reason.clone())
            .table();
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
